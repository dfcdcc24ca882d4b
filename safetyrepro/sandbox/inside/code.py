"""The code's side: loads it and answers calls from the tests, which run in another box.

Channel 3 brings calls, channel 4 takes replies. All that the code can do with them is to answer, well or badly: the
verdict is given elsewhere.
"""

from __future__ import annotations

import errno
import os
import sys
from types import ModuleType
from typing import Any, BinaryIO

from safetyrepro.sandbox.inside import values, watch

SOURCE = "/harness/code.txt"
_SCRATCH = "/tmp"
_READABLE = ("/harness", "/lib", "/lib32", "/lib64", "/usr", "/dev/urandom", "/etc/ld.so.cache")
_LONGEST_TEXT = 400


def main() -> None:
    """Serve until the tests have ended."""
    sys.set_int_max_str_digits(0)
    calls, replies = os.fdopen(3, "rb"), os.fdopen(4, "wb")
    with open(SOURCE, encoding="utf-8", errors="surrogatepass") as stream:
        source = stream.read()
    sys.argv = ["code"]
    # The interpreter itself names its locale in the empty environment.
    os.environ.clear()
    watch.watch(_SCRATCH, (*_READABLE, sys.prefix), _stopper(replies))
    module = ModuleType("code_under_test")
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, "<code>", "exec"), module.__dict__)
    except BaseException as error:
        values.send(replies, {"load": _described(error)})
        os._exit(0)
    values.send(replies, {"load": None})
    _serve(module.__dict__, calls, replies)
    os._exit(0)


def _stopper(replies: BinaryIO) -> Any:
    def stop(reason: str) -> None:
        values.send(replies, {"stopped": reason})
        os._exit(0)

    return stop


def _serve(names: dict[str, Any], calls: BinaryIO, replies: BinaryIO) -> None:
    kept: list[object] = []

    def keep(value: object) -> object:
        kept.append(value)
        return [len(kept) - 1, type(value).__name__[:_LONGEST_TEXT]]

    def find(key: Any) -> object:
        if isinstance(key, int):
            return kept[key]
        if key not in names:
            raise NameError(f"the code defines no {key!r}")
        return names[key]

    while (call := values.receive(calls)) is not None:
        try:
            arguments, keywords = (values.decode(call[part], find) for part in ("arguments", "keywords"))
            result = _OPERATIONS[call["do"]](find(call["target"]), *arguments, **keywords)
            reply = {"value": values.encode(result, keep)}
        except values.Untransferable as error:
            reply = {"unusable": str(error)}
        except BaseException as error:
            reply = {"raised": _kind(error), "text": _described(error)}
        try:
            values.send(replies, reply)
        except values.Untransferable as error:
            values.send(replies, {"unusable": str(error)})


def _called(target: Any, *arguments: Any, **keywords: Any) -> object:
    return target(*arguments, **keywords)


_OPERATIONS: dict[str, Any] = {
    "call": _called,
    "get": getattr,
    "set": setattr,
    "item": lambda target, key: target[key],
    "iterate": iter,
    "length": len,
    "truth": bool,
    "text": repr,
}


def _kind(error: BaseException) -> str:
    """The builtin exception that it is an instance of."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")


def _described(error: BaseException) -> str:
    """One line, with the limit that it ran into where that is known."""
    if isinstance(error, SystemExit):
        return f"it called sys.exit({str(error.code)[:40]})"
    if isinstance(error, MemoryError):
        return "it ran out of memory (MemoryError)"
    text = str(error)[:_LONGEST_TEXT]
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        return f"it filled its disk ({type(error).__name__}: {text})"
    return f"it raised {type(error).__name__}: {text}" if text else f"it raised {type(error).__name__}"
