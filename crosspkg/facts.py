"""What an experiment was planned with and what its cells left, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from safetyrepro.adapters.base import Setting
from safetyrepro.config import Config
from safetyrepro.crosspkg.starts import Start
from safetyrepro.records import Record

State = Literal["done", "failed", "absent"]


@dataclass(frozen=True)
class DataInfo:
    """Where a config's items came from."""

    source: str
    revision: str | None
    sha256: str
    verified: bool
    licence: str
    items: int
    clusters: int
    pool: int
    shot_ids: tuple[str, ...]


@dataclass(frozen=True)
class ConfigInfo:
    """A config with its id and its data."""

    config_id: str
    config: Config
    data: DataInfo
    chance: float
    """Score of a guess: the expected item score over the items, or the parity of that."""
    template_sha256: str | None = None
    """Of the prompt template's file; None in a folder of an earlier version."""
    item_sha256: Mapping[str, str] | None = None
    """Of each item's content by id, in the order asked; None in a folder of an earlier version."""


@dataclass(frozen=True)
class ModelFacts:
    """`ModelInfo` as an experiment keeps it (no folder of one machine)."""

    name: str
    weights_sha256: str | None
    weights_verified: bool
    source_quant: str | None
    numerics: str
    details: Mapping[str, str]
    licence: str | None
    has_chat_template: bool
    adds_bos: bool
    files_sha256: Mapping[str, str] | None = None
    """None too in a run that was made before this was recorded."""


@dataclass(frozen=True)
class SuiteFacts:
    """A suite as it was installed."""

    suite: str
    version: str
    lock_sha256: str | None


@dataclass(frozen=True)
class CellFacts:
    """What `cell.json` holds."""

    cell_id: str
    name: str
    """The cell's folder name."""
    config_id: str
    model: str
    suite: str
    suite_version: str
    arm: str
    state: State
    reason: str | None
    """Why a cell failed or is absent; a failed one quotes its log's last lines."""
    settings: tuple[Setting, ...]
    seconds: float | None
    job_sha256: str | None
    memo: bool = True
    repeat: int = 0
    """0 for the cell itself, from 1 on for the same run again."""
    start: str | None = None
    """Key of the start that ran it (`Experiment.starts`); None in a folder of an earlier version."""


@dataclass(frozen=True)
class Repeat:
    """A cell run again."""

    facts: CellFacts
    wire: Path | None


@dataclass(frozen=True)
class CellOutcome:
    """A cell with its records (empty unless it is done)."""

    facts: CellFacts
    records: tuple[Record, ...]
    """Of the cell, and then of its repeats, which number them."""
    wire: Path | None
    repeats: tuple[Repeat, ...] = ()
    """Repeats that have ended, in order; one may have failed."""

    @property
    def wires(self) -> tuple[Path, ...]:
        """The wire logs of the cell and of its repeats."""
        return tuple(wire for wire in (self.wire, *(repeat.wire for repeat in self.repeats)) if wire is not None)

    @property
    def failed_repeats(self) -> tuple[CellFacts, ...]:
        """Repeats that gave no records."""
        return tuple(repeat.facts for repeat in self.repeats if repeat.facts.state != "done")


@dataclass(frozen=True)
class Experiment:
    """Everything that a report is made from."""

    configs: tuple[ConfigInfo, ...]
    models: tuple[ModelFacts, ...]
    suites: tuple[SuiteFacts, ...]
    versions: Mapping[str, str]
    """Python, safetyrepro, torch and the like."""
    cells: tuple[CellOutcome, ...]
    unfinished: tuple[str, ...] = ()
    """Folder names of planned cells that have not ended, and of planned repeats below them."""
    starts: Mapping[str, Start] = field(default_factory=dict)
    """Code and machine of every start that differed from the ones before, by key, in order."""
