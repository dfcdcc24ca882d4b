"""Whether code passes its tests: the code in one box, the tests in another, plain values between them.

The verdict comes from the tests' box, by a channel that the code's box does not have. Code that ends early, prints a
pass, searches its memory or answers with an object that equals everything cannot make one up: all that it can do is
give the right answers.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass

from safetyrepro.sandbox.box import Boxes, Ending, Program
from safetyrepro.sandbox.limits import LIMITS, MEGABYTE, Limits

_GRACE_SECONDS = 2.0
_LONGEST_VERDICT = 1 << 16
_LONGEST_REASON = 600


@dataclass(frozen=True)
class UnitTests:
    """What a piece of code is held to."""

    tests: str
    """Python statements; with an `entry`, they define `check(candidate)`."""
    entry: str = ""
    """Name of the function that `check` is given."""
    setup: str = ""
    """Python statements before the tests."""


@dataclass(frozen=True)
class Verdict:
    """How a piece of code did."""

    passed: bool
    reason: str | None
    """Why it failed."""


def judge(code: str, tests: UnitTests, limits: Limits = LIMITS) -> Verdict:
    """Run code against its tests.

    Args:
        code: Python source, trusted in nothing.
        tests: what it has to pass.
        limits: of each of the two boxes.

    Raises:
        NoIsolation: a box could not be built; the code was not run.
    """
    calls, call = os.pipe()
    replies, reply = os.pipe()
    verdict, tell = os.pipe()
    said = bytearray()
    until = time.monotonic() + limits.wall_seconds
    with Boxes(limits) as boxes:
        boxes.read(verdict, said, _LONGEST_VERDICT)
        files = {"setup.txt": tests.setup, "tests.txt": tests.tests, "entry.txt": tests.entry}
        boxes.start("tests", Program("tests", files, (replies, call, tell)))
        boxes.start("code", Program("code", {"code.txt": code}, (calls, reply)))
        in_time = boxes.wait(lambda: boxes.ended("tests"), until)
        if in_time:
            boxes.wait(lambda: boxes.ended("code"), time.monotonic() + _GRACE_SECONDS)
        ran, tested = boxes.endings["code"], boxes.endings["tests"]
        reason = _reason(bytes(said), ran, tested, limits, in_time=in_time)
    return Verdict(reason is None, None if reason is None else _shown(reason))


def _reason(said: bytes, ran: Ending, tested: Ending, limits: Limits, *, in_time: bool) -> str | None:
    """Why it failed; None only where the tests' box says that they ran through."""
    if ran.printed > limits.output or tested.printed > limits.output:
        return f"stopped: it printed more than {limits.output / MEGABYTE:g} MB"
    if not in_time:
        return f"stopped: it took longer than {limits.wall_seconds:g} s"
    body = _verdict(said)
    if tested.exit != 0 or body is None:
        return f"the tests did not run to their end: {_ending(tested, limits)}"
    if "lost" in body:
        stopped = body["lost"]
        return f"stopped: {stopped}" if stopped else f"stopped: {_ending(ran, limits)}, before the tests were through"
    return body["reason"]


def _verdict(said: bytes) -> dict[str, str | None] | None:
    try:
        body = json.loads(said)
    except ValueError:
        return None
    return body if isinstance(body, dict) and len(body) == 1 and set(body) <= {"lost", "reason"} else None


def _ending(ending: Ending, limits: Limits) -> str:
    if ending.signal == signal.SIGXCPU:
        return f"it used more than {limits.cpu_seconds} s of processor time"
    if ending.signal == signal.SIGSYS:
        return "it opened a network socket, and may not"
    if ending.signal == signal.SIGXFSZ:
        return "it filled its disk"
    if ending.signal == signal.SIGKILL:
        return f"it used more than {limits.cpu_seconds} s of processor time, or memory ran out"
    if ending.signal is not None:
        known = next((one.name for one in signal.Signals if one == ending.signal), f"signal {ending.signal}")
        return f"it was ended by {known}"
    if ending.exit is not None:
        return f"it ended itself with exit code {ending.exit}"
    return "it was lost"


def _shown(reason: str) -> str:
    """One line of printable text."""
    line = " ".join(reason.encode("utf-8", "backslashreplace").decode().split())
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)[:_LONGEST_REASON]
