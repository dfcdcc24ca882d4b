"""Builds a box and runs one program in it: a script, started with a specification as JSON on its standard input.

Three processes: the **keeper** stays outside, writes the user map and ends with whoever asked; the **first** of the
box's process namespace lays out what the program sees, waits for it and tells how it ended; the **program** gives up
every right, gets the system call filter and is executed. When the first ends, the kernel ends all that is left.

The program sees a root of its own: the interpreter and the system's libraries, read-only, and one folder in memory of
bounded size, /tmp. There is no /proc, no home, no network device and no environment. Standard library only, imported
without site-packages, since it is started for every program.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from safetyrepro.sandbox import kernel, syscalls

HARNESS = "/harness"
"""Where the program's own files lie."""
SCRATCH = "/tmp"
_SYSTEM = (
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
)
_DEVICES = ("/dev/null", "/dev/urandom")
_INSIDE_ID = 1000
_NOBODY = 65534
_HIGH = 200
_NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)

Specification = dict[str, Any]


def main() -> NoReturn:
    """Read the specification, run the program, tell the status pipe how it ended."""
    wanted: Specification = json.loads(sys.stdin.buffer.read())
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != wanted["parent"]:
        os._exit(1)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    ready, tell_ready = os.pipe()
    go, tell_go = os.pipe()
    box = os.fork()
    if box == 0:
        os.close(ready)
        os.close(tell_go)
        _guarded(wanted, lambda: _enter(wanted, tell_ready, go))
    os.close(tell_ready)
    os.close(go)
    if os.read(ready, 1):
        _guarded_step(wanted, lambda: _write_maps(box))
        os.write(tell_go, b"1")
    os.close(tell_go)
    with suppress(ChildProcessError):
        while True:
            os.wait()
    os._exit(0)


def _tell(wanted: Specification, status: dict[str, object]) -> None:
    os.write(wanted["status"], json.dumps(status).encode() + b"\n")


def _guarded_step(wanted: Specification, step: Callable[[], None]) -> None:
    try:
        step()
    except BaseException as error:
        _tell(wanted, {"missing": f"{error.strerror or error}" if isinstance(error, OSError) else repr(error)})
        os._exit(1)


def _guarded(wanted: Specification, step: Callable[[], None]) -> NoReturn:
    _guarded_step(wanted, step)
    os._exit(0)


def _write_maps(box: int) -> None:
    """Inside, root is whoever builds the box, and the program is nobody; without root both are the user."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        both = f"0 0 1\n{_INSIDE_ID} {_NOBODY} 1\n"
        # Where root may not act as nobody, or is itself the only user of a box, it is mapped as any user is.
        with suppress(OSError):
            _write(f"/proc/{box}/gid_map", both)
            _write(f"/proc/{box}/uid_map", both)
            return
    with suppress(OSError):
        _write(f"/proc/{box}/setgroups", "deny")
        _write(f"/proc/{box}/gid_map", f"{_INSIDE_ID} {group} 1\n")
    _write(f"/proc/{box}/uid_map", f"{_INSIDE_ID} {user} 1\n")


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    except OSError as error:
        raise OSError(error.errno, f"{os.path.basename(path)}: {error.strerror}") from None
    finally:
        os.close(handle)


def _enter(wanted: Specification, tell_ready: int, go: int) -> None:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.unshare(_NAMESPACES)
    os.write(tell_ready, b"1")
    if not os.read(go, 1):
        os._exit(1)
    first = os.fork()
    if first == 0:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        _guarded(wanted, lambda: _first(wanted))
    os.waitpid(first, 0)


def _first(wanted: Specification) -> None:
    """Process 1 of the box."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _lay_out(wanted)
    kernel.set_hostname(b"box")
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    program = os.fork()
    if program == 0:
        _guarded(wanted, lambda: _become(wanted))
    while True:
        ended, status = os.wait()
        if ended == program:
            break
    code = os.waitstatus_to_exitcode(status)
    _tell(wanted, {"exit": code} if code >= 0 else {"signal": -code})


def _lay_out(wanted: Specification) -> None:
    """Mount what the program sees, and make it the root."""
    root, disk = wanted["root"], wanted["limits"]["disk"]
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    plain = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", root, "tmpfs", plain, "size=8m,nr_inodes=4096,mode=755")
    for path in _visible(wanted["prefix"]):
        _show(root, path)
    for path in _DEVICES:
        _bind(path, root + path)
        kernel.restrict_mount(root + path, kernel.MOUNT_ATTR_NOSUID, recursive=False)
    for name, text in wanted["files"].items():
        path = f"{root}{HARNESS}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogatepass") as stream:
            stream.write(text)
    os.makedirs(root + SCRATCH)
    options = f"size={disk},nr_inodes=1024,mode=777"
    kernel.mount("tmpfs", root + SCRATCH, "tmpfs", plain | kernel.MS_NOEXEC, options)
    kernel.restrict_mount(root, kernel.MOUNT_ATTR_RDONLY, recursive=False)
    kernel.enter_root(root)


def _visible(prefix: str) -> list[str]:
    """The system's libraries and the interpreter's parts, none of them twice."""
    found: list[str] = []
    for path in (*_SYSTEM, *(f"{prefix}/{part}" for part in ("bin", "lib", "lib64"))):
        if os.path.lexists(path) and not any(path == one or path.startswith(one + "/") for one in found):
            found.append(path)
    return found


def _show(root: str, path: str) -> None:
    if os.path.islink(path):
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        os.symlink(os.readlink(path), root + path)
        return
    _bind(path, root + path)
    attributes = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
    kernel.restrict_mount(root + path, attributes, recursive=True)


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
    kernel.mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)


def _become(wanted: Specification) -> None:
    """Give up everything and execute the program."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    _hand_over(wanted)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_INSIDE_ID, _INSIDE_ID, _INSIDE_ID)
        os.setresuid(_INSIDE_ID, _INSIDE_ID, _INSIDE_ID)
    os.chdir(SCRATCH)
    limits = wanted["limits"]
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_FSIZE, limits["disk"]),
        (resource.RLIMIT_NOFILE, limits["files"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_AS, limits["memory"]),
    ):
        resource.setrlimit(kind, (value, value))
    resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu_seconds"], limits["cpu_seconds"] + 1))
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.install()
    start = f"import sys; sys.path.append({HARNESS!r}); from {wanted['module']} import main; main()"
    os.execve(wanted["python"], [wanted["python"], "-I", "-S", "-B", "-X", "utf8", "-c", start], {})


def _hand_over(wanted: Specification) -> None:
    """Leave open: no input, output to the keeper's asker, and the channels as 3 and up."""
    given = [os.open("/dev/null", os.O_RDONLY), wanted["output"], wanted["output"], *wanted["channels"]]
    # By way of high numbers: a channel's own number may be another one's place.
    parked = [os.dup2(handle, _HIGH + place, inheritable=False) for place, handle in enumerate(given)]
    status = os.dup2(wanted["status"], _HIGH + len(given), inheritable=False)
    wanted["status"] = status
    for place, handle in enumerate(parked):
        os.dup2(handle, place, inheritable=True)
    os.closerange(len(given), _HIGH)
    os.closerange(status + 1, 65536)
