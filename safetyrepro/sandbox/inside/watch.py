"""Names what code reaches for beyond its folder, and ends it there.

The box itself is what stops it; this only finds the reason, also where the code catches the error. Whatever gets past
it meets the same walls.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_AF_UNIX = 1
_PROCESSES = {
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "os.exec",
    "pty.spawn",
    "subprocess.Popen",
}
_NETWORK = {"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}
_LISTING = {"os.listdir", "os.scandir", "os.chdir"}
_CHANGING = {
    "os.mkdir",
    "os.remove",
    "os.rmdir",
    "os.rename",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "shutil.rmtree",
}


def watch(scratch: str, readable: tuple[str, ...], stop: Callable[[str], None]) -> None:
    """Call `stop` with the reason as soon as the interpreter is asked for something out of bounds; for good.

    Args:
        scratch: the folder that may be written.
        readable: folders and files that may be read too.
        stop: does not return.
    """

    def within(path: str, places: tuple[str, ...]) -> bool:
        whole = os.path.normpath(os.path.join(scratch, path))
        return any(whole == place or whole.startswith(place + "/") for place in places)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        reason = _reason(event, arguments, lambda path, writing: not within(path, (scratch,) if writing else allowed))
        if reason is not None:
            stop(reason)

    allowed = (scratch, *readable)
    sys.addaudithook(hook)


def _reason(event: str, arguments: tuple[Any, ...], outside: Callable[[str, bool], bool]) -> str | None:
    if event in _PROCESSES:
        return "it started a process, and may not"
    if event in {"os.kill", "os.killpg"}:
        return "it sent a signal to a process, and may not"
    if event in _NETWORK or (event == "socket.__new__" and arguments[1] != _AF_UNIX):
        return "it used the network, and may not"
    if event in _LISTING or event == "open":
        path = _text(arguments[0])
        writing = event == "open" and (bool(arguments[2] & _WRITING) or bool(set(arguments[1] or "") & set("wax+")))
        if path is not None and path != "/dev/null" and outside(path, writing):
            return f"it {'wrote to' if writing else 'read'} {path[:200]!r}, outside of its folder"
    elif event in _CHANGING:
        for argument in arguments[:2]:
            path = _text(argument)
            if path is not None and outside(path, True):
                return f"it changed {path[:200]!r}, outside of its folder"
    return None


def _text(path: object) -> str | None:
    if isinstance(path, (str, bytes, os.PathLike)):
        return os.fsdecode(path)
    return None
