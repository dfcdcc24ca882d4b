"""The tests' side: runs them against code in another box, and gives the verdict.

Channel 3 takes the code's replies, channel 4 brings it calls, and channel 5 takes the verdict, which the code never
sees. A pass is told only after the last statement of the tests.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from safetyrepro.sandbox.inside import values

SETUP, TESTS, ENTRY = "/harness/setup.txt", "/harness/tests.txt", "/harness/entry.txt"
_LONGEST_TEXT = 300


class Lost(BaseException):
    """The code's side ended or was stopped; no test may catch it."""


class Line:
    """The connection to the code."""

    def __init__(self, replies: BinaryIO, calls: BinaryIO) -> None:
        self._replies, self._calls = replies, calls
        self.last: str | None = None
        """What the code last gave, as text."""

    def loaded(self) -> str | None:
        """Why the code could not be loaded."""
        found = self._heard().get("load", "it broke the connection")
        return None if found is None else str(found)

    def ask(self, do: str, target: object, *arguments: object, **keywords: object) -> Any:
        """Let the code's side do something, and give what comes back."""
        message = {
            "do": do,
            "target": target,
            "arguments": values.encode(arguments, _named),
            "keywords": values.encode(keywords, _named),
        }
        values.send(self._calls, message)
        reply = self._heard()
        if "raised" in reply:
            self.last = str(reply.get("text"))
            raise _exception(str(reply["raised"]))(self.last)
        if "unusable" in reply or "value" not in reply:
            raise values.Untransferable(str(reply.get("unusable", "it broke the connection")))
        value = values.decode(reply["value"], self._kept)
        if do == "call":
            self.last = f"it gave {value!r}"
        return value

    def _kept(self, content: Any) -> Remote:
        number, kind = content
        return Remote(self, int(number), str(kind))

    def _heard(self) -> dict[str, Any]:
        reply = values.receive(self._replies)
        if reply is None:
            raise Lost
        if "stopped" in reply:
            raise Lost(str(reply["stopped"])[:_LONGEST_TEXT])
        return reply


class Remote(values.Reference):
    """A function, class or object of the code, which stays there."""

    def __init__(self, line: Line, key: str | int, kind: str = "") -> None:
        super().__init__(key)
        object.__setattr__(self, "_line", line)
        object.__setattr__(self, "_kind", kind)

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: object) -> None:
        if name == "key":
            object.__setattr__(self, name, value)
        else:
            self._line.ask("set", self.key, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._line.ask("get", self.key, name)

    def __call__(self, *arguments: object, **keywords: object) -> Any:
        """Call it on the code's side."""
        return self._line.ask("call", self.key, *arguments, **keywords)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Remote) and other.key == self.key:
            return True
        raise values.Untransferable(f"it gave a {self._kind or 'name'} of its own, which no test can compare")

    def __getitem__(self, key: object) -> Any:
        return self._line.ask("item", self.key, key)

    def __iter__(self) -> Iterator[Any]:
        found: Iterator[Any] = self._line.ask("iterate", self.key)
        return found

    def __len__(self) -> int:
        return int(self._line.ask("length", self.key))

    def __bool__(self) -> bool:
        return bool(self._line.ask("truth", self.key))

    def __repr__(self) -> str:
        return f"<{self._kind or self.key}>"


def main() -> NoReturn:
    """Run the tests and tell the verdict."""
    sys.set_int_max_str_digits(0)
    line, verdict = Line(os.fdopen(3, "rb"), os.fdopen(4, "wb")), os.fdopen(5, "wb")
    setup, tests, entry = (_read(path) for path in (SETUP, TESTS, ENTRY))
    try:
        failure = line.loaded()
        reason = _tested(line, setup, tests, entry) if failure is None else f"the code does not load: {failure}"
        body: dict[str, Any] = {"reason": reason}
    except Lost as lost:
        body = {"lost": str(lost) or None}
    values.send(verdict, body)
    os._exit(0)


def _tested(line: Line, setup: str, tests: str, entry: str) -> str | None:
    """Why the tests fail; None where they all pass."""
    names: dict[str, Any] = {"__name__": "tests"}
    try:
        whole = [ast.parse(setup), ast.parse(tests)]
        names.update((name, Remote(line, name)) for name in _unknown(whole))
        exec(compile(setup, "<setup>", "exec"), names)
        if entry:
            names[entry] = Remote(line, entry)
        exec(compile(tests, "<tests>", "exec"), names)
        if entry:
            names["check"](names[entry])
    except Exception as error:
        return _failure(error, tests, line)
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        return f"the tests ended themselves ({type(error).__name__})"
    return None


def _unknown(parts: list[ast.Module]) -> set[str]:
    """Names that tests use and nothing in them defines: they are the code's."""
    nodes = [node for part in parts for node in ast.walk(part)]
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    made = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    made |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    imports = [alias for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names]
    made |= {(alias.asname or alias.name).split(".")[0] for alias in imports}
    return {name for name in used - made if not hasattr(builtins, name)}


def _failure(error: Exception, tests: str, line: Line) -> str:
    """What failed, where, and what the code last gave."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<tests>"]
    where = _statement(tests, lines[-1]) if lines and lines[-1] is not None else ""
    said = "" if line.last is None else f"; {line.last}"
    if isinstance(error, AssertionError) and where.startswith("assert"):
        return f"failed `{where}`{said}"[: 3 * _LONGEST_TEXT]
    if isinstance(error, values.Untransferable):
        return f"{error}{f', in `{where}`' if where else ''}"
    text = str(error) or type(error).__name__
    shown = text if text == line.last else f"{type(error).__name__}: {text}"
    return f"{shown[:_LONGEST_TEXT]}{f', in `{where}`' if where else ''}"


def _statement(tests: str, number: int) -> str:
    """The smallest statement around a line."""
    nodes = [node for node in ast.walk(ast.parse(tests)) if isinstance(node, ast.stmt)]
    around = [node for node in nodes if node.lineno <= number <= (node.end_lineno or node.lineno)]
    if not around:
        return ""
    found = min(around, key=lambda node: (node.end_lineno or node.lineno) - node.lineno)
    return " ".join((ast.get_source_segment(tests, found) or "").split())[:_LONGEST_TEXT]


def _named(value: object) -> object:
    if isinstance(value, values.Reference):
        return value.key
    raise values.Untransferable(f"a test hands over a {type(value).__name__}, which cannot leave its side")


def _exception(name: str) -> type[Exception]:
    kind = getattr(builtins, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogatepass") as stream:
        return stream.read()
