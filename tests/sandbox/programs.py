"""Code to be judged, and what it is judged by."""

from __future__ import annotations

from safetyrepro.sandbox.judge import UnitTests
from safetyrepro.sandbox.limits import MEGABYTE, Limits

SQUARE = UnitTests("def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n", "square")
RIGHT = "def square(x):\n    return x * x\n"
SHORT = Limits(cpu_seconds=2, wall_seconds=20, memory=256 * MEGABYTE, disk=4 * MEGABYTE)

NO_NAMESPACES = """
import errno
from safetyrepro.sandbox import kernel, syscalls
rules = syscalls.instructions(__import__("os").uname().machine)
head = rules[:4]
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
syscalls.apply([*head, *syscalls.refusing({number}, errno.EPERM), (0x06, 0, 0, 0x7FFF0000)])
"""
"""A script's beginning: from here on the process may make no namespaces, as in most containers."""
UNSHARE = {"x86_64": 272, "aarch64": 97}


def doing(body: str) -> str:
    """A right answer that does something else on its way."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"def square(x):\n{lines}    return x * x\n"
