"""Under which code and on what machine an experiment's cells were run.

A run is often stopped and started again, and may go on under another commit or on another machine. `experiment.json`
keeps every start that differs from the ones before, and a cell names the one that ran it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.config import Strict, canonical_sha256
from safetyrepro.facts import CodeFacts, Machine, code, machine

if TYPE_CHECKING:
    from safetyrepro.crosspkg.facts import CellFacts, Experiment

CELL_CODE = (
    "safetyrepro/*.py",
    "safetyrepro/benchmarks/**/*",
    "safetyrepro/engine/**/*",
    "safetyrepro/gateway/**/*",
    "safetyrepro/suites/**/*",
    "adapters/**/*",
    "crosspkg/cells.py",
    "crosspkg/experiment.py",
    "crosspkg/judging.py",
    "crosspkg/schedule.py",
)
"""Source files that decide what a cell's records hold."""


class Start(Strict):
    """One start of a run."""

    code: CodeFacts
    machine: Machine

    @property
    def key(self) -> str:
        """Its name in `experiment.json`: what differs in code or machine has another."""
        return canonical_sha256(self.model_dump(mode="json"))[:16]


@dataclass(frozen=True)
class Ran:
    """Who ran the cells that have a result."""

    starts: Mapping[Start, int]
    """How many cells and repeats each start ran, in the order of the starts; one that ran none is left out."""
    unknown: int
    """Cells and repeats that name no start: they were run before it was recorded."""

    @property
    def cells(self) -> int:
        """Cells and repeats with a result."""
        return sum(self.starts.values()) + self.unknown

    @property
    def files(self) -> tuple[str, ...]:
        """Distinct hashes of the source files, in order."""
        return tuple(dict.fromkeys(start.code.files_sha256 for start in self.starts))

    @property
    def commits(self) -> tuple[str | None, ...]:
        """Distinct commits, in order; None stands for a package that is no checkout."""
        return tuple(dict.fromkeys(start.code.commit for start in self.starts))


def this_start() -> Start:
    """The code and the machine that run now."""
    return Start(code=code(CELL_CODE), machine=machine())


def parse_starts(body: Any) -> dict[str, Start]:
    """The starts by key, as `experiment.json` holds them; none in a file that was written before they were kept.

    Raises:
        ValueError: it holds something else.
    """
    if not isinstance(body, dict):
        raise ValueError("starts is no mapping")
    return {key: Start.model_validate(start) for key, start in body.items()}


def earlier_starts(folder: Path) -> dict[str, Start]:
    """The starts that a folder's `experiment.json` holds; none where there is no such file, or it is damaged.

    A damaged plan is written anew; its cells then name starts that nobody knows, and count as unknown.
    """
    try:
        return parse_starts(json.loads((folder / "experiment.json").read_text(encoding="utf-8")).get("starts", {}))
    except (OSError, ValueError, AttributeError):
        return {}


def who_ran(experiment: Experiment) -> Ran:
    """The starts that ran the cells with a result, and their repeats."""
    found = dict.fromkeys(experiment.starts.values(), 0)
    unknown = 0
    for facts in _with_result(experiment):
        start = None if facts.start is None else experiment.starts.get(facts.start)
        if start is None:
            unknown += 1
        else:
            found[start] += 1
    return Ran({start: count for start, count in found.items() if count}, unknown)


def ran_sentences(ran: Mapping[str, Any]) -> list[str]:
    """What a reader has to know of who ran the cells, from report.json's `ran`; nothing where one start ran all."""
    starts, unknown = ran["starts"], ran["unknown"]
    cells = sum(start["cells"] for start in starts) + unknown
    commits = {start["code"]["commit"] for start in starts}
    files = {start["code"]["files_sha256"] for start in starts}
    said = []
    if unknown:
        said.append(
            f"{unknown} of {cells} cells with results do not say which code and machine ran them: they were run before "
            "it was recorded."
        )
    if len(commits) > 1:
        same = ", whose source files that decide a result are the same" if len(files) == 1 else ""
        said.append(f"The run went on under another commit than it began: {len(commits)} commits ran its cells{same}.")
    elif len(files) > 1:
        said.append(
            f"The run went on with other source files than it began: {len(files)} states of them ran its cells, under "
            "one commit."
        )
    return said


def _with_result(experiment: Experiment) -> Iterable[CellFacts]:
    for cell in experiment.cells:
        for facts in (cell.facts, *(repeat.facts for repeat in cell.repeats)):
            if facts.state == "done":
                yield facts
