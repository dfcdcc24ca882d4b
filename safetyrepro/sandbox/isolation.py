"""Proves that a box holds before anything is run in one: by trying to get out of it."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from safetyrepro.errors import InputError
from safetyrepro.sandbox.box import Boxes, Ending, NoIsolation, Program
from safetyrepro.sandbox.limits import LIMITS, Limits
from safetyrepro.sandbox.syscalls import MACHINES

_PROBE_SECONDS = 60.0


def require_isolation(limits: Limits = LIMITS) -> None:
    """Refuse to go on where code cannot be run apart from the user's files, network and processes.

    Raises:
        InputError: with what is missing.
    """
    missing = missing_isolation(limits)
    if missing is not None:
        raise InputError(
            f"Code is not run here, since it cannot be locked away: {missing}. It takes Linux 5.12 or later that lets "
            "this user make user, mount, process and network namespaces (containers often forbid it)."
        )


def missing_isolation(limits: Limits = LIMITS) -> str | None:
    """What is missing for code to be run locked away; None where a probe inside could not get out."""
    if sys.platform != "linux":
        return f"this is {sys.platform}, not Linux"
    if os.uname().machine not in MACHINES:
        return f"the system calls of {os.uname().machine} are not known"
    try:
        return _escapes(limits)
    except NoIsolation as error:
        return str(error)


def _escapes(limits: Limits) -> str | None:
    with tempfile.TemporaryDirectory(prefix=".safetyrepro-canary-", dir=_home()) as folder:
        canary = Path(folder) / "canary"
        canary.write_text("canary", encoding="utf-8")
        outside = [
            f"{folder}/out",
            "/out",
            "/usr/lib/out",
            "/harness/out",
            f"{Path(sys.base_prefix).resolve()}/lib/out",
        ]
        wanted = {"canary": str(canary), "outside": outside, "outer": os.getpid(), "disk": limits.disk}
        seen, _ = _probed({**wanted, "socket": False}, limits)
        socket, ending = _probed({**wanted, "socket": True}, limits)
    if socket != [{"socket": "before"}] or ending.signal != signal.SIGSYS:
        return "a program inside could open a network socket"
    if len(seen) != 1:
        return "the probe inside did not run to its end"
    found = seen[0]
    wrong = {
        "read a file of the home folder": found["canary"] or found["home"],
        "write outside of its folder": found["write"],
        "not write into its own folder": not found["scratch"],
        "see environment variables": bool(set(found["environment"]) - {"LC_CTYPE"}),
        "see open files of others": found["descriptors"] != [0, 1, 2, 3],
        "read input": found["input"] != "",
        "start processes": found["fork"],
        "see processes outside": found["processes"] or found["proc"],
        "see a network interface": found["interfaces"] != 0,
        "use memory without a limit": found["memory"] != limits.memory,
        "use the processor without a limit": found["cpu"] != limits.cpu_seconds,
        "fill the disk": found["filled"] > limits.disk,
        "hold rights of root": found["capabilities"],
        "make namespaces": found["namespace"],
    }
    escaped = [what for what, happened in wrong.items() if happened]
    return f"a program inside could {', '.join(escaped)}" if escaped else None


def _probed(wanted: dict[str, Any], limits: Limits) -> tuple[list[dict[str, Any]], Ending]:
    """What the probe tells, and how it ended."""
    heard, tell = os.pipe()
    said = bytearray()
    with Boxes(limits) as boxes:
        boxes.read(heard, said, 1 << 16)
        boxes.start("probe", Program("probe", {"probe.json": json.dumps(wanted)}, (tell,)))
        boxes.wait(lambda: boxes.ended("probe"), time.monotonic() + _PROBE_SECONDS)
        return [json.loads(line) for line in said.splitlines()], boxes.endings["probe"]


def _home() -> Path | None:
    """The user's home where it can be written; else the usual place for temporary files."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path raises where a user has none
    return home if home.is_dir() and os.access(home, os.W_OK) else None
