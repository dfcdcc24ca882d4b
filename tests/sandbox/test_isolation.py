"""Code is run locked away, or not at all: what this machine allows is proven, what one may forbid is tried."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from safetyrepro.errors import InputError
from safetyrepro.sandbox import syscalls
from safetyrepro.sandbox.box import NoIsolation
from safetyrepro.sandbox.isolation import missing_isolation, require_isolation
from safetyrepro.sandbox.judge import Verdict, judge
from tests.sandbox.programs import NO_NAMESPACES, RIGHT, SQUARE, UNSHARE

ROOT = Path(__file__).parents[2]
NOBODY = 65534
ASK = """
import sys
sys.path.append({root!r})
from safetyrepro.errors import SafetyReproError
from safetyrepro.sandbox.isolation import require_isolation
from safetyrepro.sandbox.judge import UnitTests, judge
{before}
for step in (require_isolation, lambda: print(judge("def f():\\n    return 1", UnitTests("assert f() == 1")))):
    try:
        step()
    except SafetyReproError as error:
        print("refused:", error)
    else:
        print("went on")
"""


def asked(before: str = "", *, launcher: tuple[str, ...] = (), python: str = sys.executable, **how: int) -> list[str]:
    """What a process says that wants to run code, under whatever `before` and `launcher` forbid it."""
    command = [*launcher, python, "-c", ASK.format(root=str(ROOT), before=before)]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=120, check=False, **how)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def refused(lines: list[str], why: str) -> bool:
    """Whether both the probe and the judge refused, and the code was not run."""
    return len(lines) == 2 and all(line.startswith("refused:") and why in line for line in lines)


def test_what_this_machine_allows(record_property: Callable[[str, object], None]) -> None:
    """Either the probe could not get out and right code passes, or nothing is run and the sentence says why."""
    missing = missing_isolation()
    record_property("isolation", "proven" if missing is None else f"refused: {missing}")
    if missing is None:
        require_isolation()
        assert judge(RIGHT, SQUARE) == Verdict(True, None)
        return
    with pytest.raises(InputError, match="Code is not run here, since it cannot be locked away: "):
        require_isolation()
    with pytest.raises(NoIsolation):
        judge(RIGHT, SQUARE)


def test_refused_where_a_filter_forbids_namespaces() -> None:
    """As containers do by default."""
    lines = asked(NO_NAMESPACES.format(number=UNSHARE[os.uname().machine]))
    assert refused(lines, "unshare: Operation not permitted"), lines


def test_refused_where_there_may_be_no_more_namespaces() -> None:
    """The kernel's own limit, set in a user namespace of the test's, or met where none can be had at all."""
    limit = "/proc/sys/user/max_user_namespaces"
    shell = f'echo 0 > {limit} 2>/dev/null; exec "$@"'
    made = subprocess.run(["unshare", "-r", "true"], capture_output=True, check=False).returncode == 0
    lines = asked(launcher=("unshare", "-r", "sh", "-c", shell, "sh") if made else ())
    assert refused(lines, "unshare: " if made else ""), lines


def test_refused_where_filters_are_forbidden() -> None:
    """Without the filter of system calls the box is not whole, and nothing is run in half of it."""
    number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
    prctl = {"x86_64": 157, "aarch64": 167}[os.uname().machine]
    # Only the option that installs a filter: the others are needed on the way there.
    only_filters = (
        f"rules = [*rules[:4], *syscalls.refusing({number}, 1), (0x15, 0, 3, {prctl}), (0x20, 0, 0, 16), "
        "(0x15, 0, 1, 22), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]\nsyscalls.apply(rules)"
    )
    lines = asked(NO_NAMESPACES.split("syscalls.apply")[0] + only_filters)
    assert refused(lines, "Operation not permitted"), lines


def test_without_root() -> None:
    """Another user is treated alike: what the machine lets them build holds, and otherwise nothing is run."""
    pythons = [path for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3") if _modern(path)]
    assert pythons or os.geteuid() == 0, "this user has no interpreter that runs"
    for python in pythons:
        how = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        lines = asked(python=python, **how)  # type: ignore[arg-type]
        ran = lines == ["went on", "Verdict(passed=True, reason=None)", "went on"]
        assert ran or refused(lines, ""), lines


def test_unknown_architectures_have_no_filter() -> None:
    with pytest.raises(OSError, match="no system call numbers for riscv64"):
        syscalls.instructions("riscv64")


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_a_filter_ends_in_a_decision(machine: str) -> None:
    """Every jump stays within the program, and its last instruction decides."""
    rules = syscalls.instructions(machine)
    assert all(place + 1 + max(jt, jf) < len(rules) for place, (_, jt, jf, _) in enumerate(rules[:-1]))
    assert rules[-1][0] == 0x06
    assert len(rules) < 256


def _modern(path: str) -> bool:
    """Whether an interpreter can be executed by a user without rights and is recent enough."""
    how = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    check = (
        f"import sys; sys.path.append({str(ROOT)!r}); import safetyrepro.errors; sys.exit(sys.version_info < (3, 11))"
    )
    try:
        done = subprocess.run([path, "-c", check], capture_output=True, cwd="/", check=False, **how)  # type: ignore[call-overload]
    except OSError:
        return False
    return bool(done.returncode == 0)
