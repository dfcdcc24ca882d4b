"""Boxes: programs in namespaces of their own, started, watched and ended."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from safetyrepro.errors import SafetyReproError
from safetyrepro.sandbox.limits import Limits

_PACKAGES = Path(__file__).resolve().parents[2]
_START = "import sys; sys.path.append(sys.argv[1]); from safetyrepro.sandbox.launcher import main; main()"
_INSIDE = ("values", "watch", "code", "tests", "probe", "__init__")
_TICK_SECONDS = 0.5
_KEPT = 4096
_CHUNK = 65536


class NoIsolation(SafetyReproError):
    """A box cannot be built here; the message says what is missing."""


@dataclass(frozen=True)
class Program:
    """What runs in a box."""

    module: str
    """Module of `safetyrepro.sandbox.inside` whose `main` is called."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts for the program, by name; it reads them in /harness."""
    channels: Sequence[int] = ()
    """Descriptors that it gets as 3 and up; they are closed on this side."""


@dataclass
class Ending:
    """How a program ended."""

    exit: int | None = None
    signal: int | None = None
    """The signal that ended it."""
    cut: bool = False
    """Whether it was ended from outside."""
    output: bytes = b""
    """The beginning of what it printed."""
    printed: int = 0
    """Bytes it printed."""


class Boxes:
    """A few boxes at work together."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stack = ExitStack()
        self._selector = self._stack.enter_context(selectors.DefaultSelector())
        self._keepers: dict[str, subprocess.Popen[bytes]] = {}
        self._status: dict[str, bytes] = {}
        self.endings: dict[str, Ending] = {}

    def __enter__(self) -> Boxes:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._keepers:
            self.end(name)
        self._stack.close()

    def start(self, name: str, program: Program) -> None:
        """Start a program in a box of its own.

        Raises:
            NoIsolation: the launcher cannot be started.
        """
        status, tell_status = os.pipe()
        output, print_to = os.pipe()
        root = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="safetyrepro-box-"))
        given = (tell_status, print_to, *program.channels)
        specification = {
            "parent": os.getpid(),
            "root": root,
            "prefix": str(Path(sys.base_prefix).resolve()),
            "python": _interpreter(),
            "module": f"safetyrepro.sandbox.inside.{program.module}",
            "files": {**_own_files(), **program.files},
            "limits": asdict(self._limits),
            "status": tell_status,
            "output": print_to,
            "channels": list(program.channels),
        }
        try:
            keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-c", _START, str(_PACKAGES)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=print_to,
                pass_fds=given,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            os.close(status)
            os.close(output)
            raise NoIsolation(f"{sys.executable} cannot be started ({error.strerror})") from None
        finally:
            for handle in given:
                os.close(handle)
        self._keepers[name], self._status[name], self.endings[name] = keeper, b"", Ending()
        self._listen(status, lambda chunk: self._told(name, chunk))
        self._listen(output, lambda chunk: self._printed(name, chunk))
        assert keeper.stdin is not None
        with suppress(BrokenPipeError):
            keeper.stdin.write(json.dumps(specification).encode("ascii"))
        with suppress(BrokenPipeError):
            keeper.stdin.close()

    def read(self, handle: int, sink: bytearray, most: int) -> None:
        """Collect up to `most` bytes from a descriptor, which is closed at its end."""
        self._listen(handle, lambda chunk: sink.extend(chunk[: most - len(sink)]))

    def wait(self, done: Callable[[], bool], until: float) -> bool:
        """Serve the boxes until `done()`; False where `until` (of `time.monotonic`) comes first.

        Raises:
            NoIsolation: a box could not be built.
        """
        while not done():
            left = until - time.monotonic()
            if left <= 0:
                return False
            for key, _ in self._selector.select(min(left, _TICK_SECONDS)):
                chunk = os.read(key.fd, _CHUNK)
                if chunk:
                    key.data(chunk)
                else:
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
            self._collect()
        return True

    def ended(self, name: str) -> bool:
        """Whether nothing of a box is left and all that it said was read."""
        ending = self.endings[name]
        return ending.exit is not None or ending.signal is not None or ending.cut

    def end(self, name: str) -> None:
        """End a box and all that is in it."""
        keeper = self._keepers[name]
        if keeper.returncode is None:
            # Only the keeper's own group: the program has a session of its own, which the kernel ends with the box.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(keeper.pid, signal.SIGKILL)
            keeper.wait()
            if not self.ended(name):
                self.endings[name].cut = True

    def _listen(self, handle: int, tell: Callable[[bytes], None]) -> None:
        os.set_blocking(handle, False)
        self._selector.register(handle, selectors.EVENT_READ, tell)
        self._stack.callback(_closed, handle, self._selector)

    def _told(self, name: str, chunk: bytes) -> None:
        self._status[name] += chunk
        *lines, _ = self._status[name].split(b"\n")
        for line in lines:
            body = json.loads(line)
            if "missing" in body:
                raise NoIsolation(body["missing"])
            ending = self.endings[name]
            ending.exit, ending.signal = body.get("exit"), body.get("signal")

    def _printed(self, name: str, chunk: bytes) -> None:
        ending = self.endings[name]
        ending.printed += len(chunk)
        ending.output += chunk[: _KEPT - len(ending.output)]
        if ending.printed > self._limits.output:
            self.end(name)

    def _collect(self) -> None:
        """A keeper that ended without a word has lost its box."""
        for name, keeper in self._keepers.items():
            if keeper.returncode is None and keeper.poll() is not None and not self.ended(name):
                self._drain()
                if not self.ended(name):
                    self.endings[name].cut = True

    def _drain(self) -> None:
        for key in list(self._selector.get_map().values()):
            with suppress(BlockingIOError):
                chunk = os.read(key.fd, _CHUNK)
                if chunk:
                    key.data(chunk)


def _closed(handle: int, selector: selectors.BaseSelector) -> None:
    if handle in selector.get_map():
        selector.unregister(handle)
        os.close(handle)


def _interpreter() -> str:
    """The interpreter itself, behind whatever environment links to it."""
    base = getattr(sys, "_base_executable", "") or sys.executable
    return str(Path(base).resolve())


def _own_files() -> dict[str, str]:
    """The package as far as a box needs it."""
    inside = Path(__file__).parent / "inside"
    files = {f"safetyrepro/sandbox/inside/{name}.py": (inside / f"{name}.py").read_text("utf-8") for name in _INSIDE}
    return {"safetyrepro/__init__.py": "", "safetyrepro/sandbox/__init__.py": "", **files}
