"""The protocol of an adapter: translate, run, normalise.

`translate` turns a cell into a job, a JSON value that is a pure function of the cell (it names no port, token or
folder, so that a finished cell can be recognised). The suite's `runner.py` executes it inside the suite's own
environment: `python -P runner.py JOB_JSON OUT_DIR`, with `SAFETYREPRO_BASE_URL` (the run's own URL, ends in `/v1`),
`SAFETYREPRO_TOKEN` and `SAFETYREPRO_TOKENIZER` (a folder) in its environment, and where a judge grades the responses
`SAFETYREPRO_JUDGE_URL` and `SAFETYREPRO_JUDGE_TOKEN`; it writes the suite's native output
below OUT_DIR and nothing else. `normalise` reads that output and the wire log into records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from safetyrepro.benchmarks.base import Benchmark, Data
    from safetyrepro.canonical import Canonical
    from safetyrepro.config import Arm, Config
    from safetyrepro.engine.api import ModelInfo
    from safetyrepro.gateway.wire import WireRow
    from safetyrepro.records import Record


@dataclass(frozen=True)
class Cell:
    """One run of one suite: what an adapter is given."""

    run_id: str
    suite: str
    suite_version: str
    arm: Arm
    config: Config
    config_id: str
    cell_id: str
    model: ModelInfo
    benchmark: Benchmark
    data: Data
    canonical: Canonical


@dataclass(frozen=True)
class Absent:
    """The suite has no such run; the reason is printed in the report."""

    reason: str


@dataclass(frozen=True)
class Setting:
    """One canonical value and what became of it in the suite."""

    name: str
    """Dotted field of the config, such as `shots.count`."""
    canonical: str
    effective: str
    """What the suite really does."""
    held: bool
    """Whether the two are the same."""
    note: str = ""


@dataclass(frozen=True)
class Job:
    """What a runner executes, and what it means."""

    payload: dict[str, Any]
    """JSON for the runner."""
    settings: tuple[Setting, ...]
    """Every canonical value with what the suite made of it: what is held fixed and what cannot be set."""
    expected_requests: int
    """For the progress bar: how many HTTP requests the suite will send, as near as can be told."""
    judged: bool = False
    """Whether the suite asks the config's judge, at a URL of its own with a log of its own."""


class Adapter(Protocol):
    """One suite. Adding a suite is adding a folder with these and its name in `adapters.NAMES`."""

    name: str
    runner: Path
    """The script that runs in the suite's environment."""
    lock: Path | None
    """The lock file of that environment; None for our own."""

    def translate(self, cell: Cell) -> Job | Absent:
        """The job of a cell, or why there is none."""
        ...

    def normalise(self, cell: Cell, out_dir: Path, wire: Sequence[WireRow]) -> list[Record]:
        """Records of a finished run, one per item, in item order; an item without output is `missing`.

        Raises:
            SuiteFailure: the native output is incomplete or unreadable, naming the file.
        """
        ...
