"""System calls that Python 3.11 does not wrap; an error is an OSError that names the call. Standard library only."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE, _MNT_DETACH = -100, 0x8000, 2
_CAPABILITY_VERSION_3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(name: str, result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces that `flags` name for new ones."""
    _checked("unshare", _libc.unshare(flags))


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount, or change a mount, with the arguments of the system call."""
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    result = _libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    _checked(f"mount {target}", result)


def restrict_mount(target: str, attributes: int, *, recursive: bool) -> None:
    """Add attributes to a mount and, where `recursive`, to all mounts in it (Linux 5.12)."""
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    result = _libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), flags, ctypes.byref(wanted), size)
    _checked(f"mount_setattr {target}", result)


def enter_root(folder: str) -> None:
    """Make `folder`, a mount, the root, and let go of the old one."""
    os.chdir(folder)
    _checked("pivot_root", _libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."))
    _checked("umount2", _libc.umount2(b".", _MNT_DETACH))
    os.chdir("/")


def prctl(option: int, value: int, pointer: object = None) -> None:
    """Change something of this process, with the arguments of the system call."""
    zero = ctypes.c_ulong(0)
    argument = zero if pointer is None else pointer
    _checked(f"prctl {option}", _libc.prctl(option, ctypes.c_ulong(value), argument, zero, zero))


def set_hostname(name: bytes) -> None:
    """Name the machine."""
    _checked("sethostname", _libc.sethostname(name, ctypes.c_size_t(len(name))))


def drop_capabilities() -> None:
    """Give up every capability."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _checked("capset", _libc.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)())))
