"""A filter of system calls (seccomp): no network socket, no other process, nothing that opens the kernel up.

A network socket ends the process with SIGSYS, since code that catches errors would go on otherwise; so does a call of
another architecture. The rest is refused with an error. The numbers are the kernel's, per architecture. Standard
library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

from safetyrepro.sandbox.kernel import PR_SET_SECCOMP, prctl

_ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SOCKET: Final = {"x86_64": 41, "aarch64": 198}
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_CLONE3: Final = 435
_FORKS: Final[dict[str, tuple[int, ...]]] = {"x86_64": (57, 58), "aarch64": ()}
_REFUSED: Final = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "memfd_create": (319, 279),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "personality": (135, 92),
    "syslog": (103, 116),
    "pidfd_send_signal": (424, 424),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "mount_setattr": (442, 442),
    "memfd_secret": (447, 447),
}
MACHINES: Final = tuple(_ARCHITECTURE)
_X32: Final = 0x40000000
_CLONE_THREAD: Final = 0x10000
_AF_UNIX: Final = 1
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ERROR, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENT_AT = 0, 4, 16

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand."""


class _Filter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Filter)))


def install() -> None:
    """Filter this process's system calls from now on, through every exec.

    Raises:
        OSError: the kernel has no filters, or not for this architecture.
    """
    apply(instructions(os.uname().machine))


def apply(rules: list[Instruction]) -> None:
    """Install a filter; the process must have given up new privileges.

    Raises:
        OSError: the kernel refuses it.
    """
    filters = (_Filter * len(rules))(*(_Filter(*rule) for rule in rules))
    program = _Program(len(rules), ctypes.cast(filters, ctypes.POINTER(_Filter)))
    prctl(PR_SET_SECCOMP, 2, ctypes.byref(program))


def instructions(machine: str) -> list[Instruction]:
    """The filter for an architecture as `os.uname` names it.

    Raises:
        OSError: its numbers are not known here.
    """
    if machine not in _ARCHITECTURE:
        raise OSError(errno.ENOSYS, f"seccomp: no system call numbers for {machine}")
    column = MACHINES.index(machine)
    refused = [*_FORKS[machine], *(numbers[column] for numbers in _REFUSED.values())]
    rules: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine == "x86_64":
        rules += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for number in refused:
        rules += refusing(number, errno.EPERM)
    # The flags of clone3 lie in memory that no filter sees; told that it does not exist, the C library takes clone.
    rules += refusing(_CLONE3, errno.ENOSYS)
    rules += [
        (_EQUAL, 0, 4, _CLONE[machine]),
        (_LOAD, 0, 0, _ARGUMENT_AT),
        (_ANY_BIT, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _ERROR | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 4, _SOCKET[machine]),
        (_LOAD, 0, 0, _ARGUMENT_AT),
        # Looking up a user asks a local daemon first, which no program means as a connection.
        (_EQUAL, 0, 1, _AF_UNIX),
        (_RETURN, 0, 0, _ERROR | errno.EACCES),
        (_RETURN, 0, 0, _KILL),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return rules


def refusing(number: int, error: int) -> list[Instruction]:
    """Instructions that answer one system call with an error, and go on for every other."""
    return [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | error)]
