"""An experiment's folder: what was planned, and what each cell left.

```
OUT/experiment.json                 plan: configs, data, models, suites with versions and lock hashes; code and machine
OUT/cells/<name>/cell.json          identity, state, settings, and the reason where there is no result
OUT/cells/<name>/job.json           what the runner was given
OUT/cells/<name>/native/            the suite's own output
OUT/cells/<name>/runner.log         what the suite printed
OUT/cells/<name>/wire.jsonl         every request and response
OUT/cells/<name>/judge.jsonl        the same of a judge, where the suite asks one
OUT/cells/<name>/records.parquet    the records; cell.json says `done` only once they stand
OUT/cells/<name>/repeats/<r>/       the same files of the cell run again, r from 1
OUT/report.json, OUT/report.html
```
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from safetyrepro.adapters.base import Setting
from safetyrepro.atomic import write_json
from safetyrepro.config import Config
from safetyrepro.crosspkg.starts import Start, parse_starts
from safetyrepro.errors import InputError
from safetyrepro.gateway.wire import read_wire
from safetyrepro.records import Record, read_records

State = Literal["done", "failed", "absent"]
REPEATS = "repeats"
"""Folder of a cell's repeats, below the cell's own."""
_GONE = "is missing, though its cell ended; put it back, or delete the cell's folder and run again."
_FIELD = re.compile(r"(missing|unexpected) .*'([^']+)'$")
"""What Python says of a call that a body's fields do not fit."""


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


def write_plan(
    folder: Path,
    configs: tuple[ConfigInfo, ...],
    models: tuple[ModelFacts, ...],
    suites: tuple[SuiteFacts, ...],
    versions: Mapping[str, str],
    cells: tuple[str, ...],
    repeats: int = 1,
    starts: Mapping[str, Start] | None = None,
) -> None:
    """Write `experiment.json`; `cells` are folder names in report order, each run `repeats` times."""
    write_json(
        folder / "experiment.json",
        {
            "schema": "1",
            "configs": [{**asdict(info), "config": info.config.model_dump(mode="json")} for info in configs],
            "models": [asdict(model) for model in models],
            "suites": [asdict(suite) for suite in suites],
            "versions": dict(versions),
            "cells": list(cells),
            "repeats": repeats,
            "starts": {key: start.model_dump(mode="json") for key, start in (starts or {}).items()},
        },
    )


def read_cell(folder: Path) -> CellFacts | None:
    """The facts of one cell's folder; None where the cell has not ended."""
    path = folder / "cell.json"
    if not path.is_file():
        return None
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if body["state"] not in get_args(State):
            raise ValueError(f"state is {body['state']!r}")
        if not isinstance(body.get("start"), str | None):
            raise ValueError(f"start is {body['start']!r}")
        return CellFacts(**{**body, "settings": tuple(Setting(**setting) for setting in body["settings"])})
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: not a cell's facts ({_said(error)}); delete the cell's folder and run again."
        ) from None


def write_cell(folder: Path, facts: CellFacts) -> None:
    """Write `cell.json`, the last file of a cell."""
    write_json(folder / "cell.json", asdict(facts))


def load_experiment(folder: Path) -> Experiment:
    """Read an experiment's folder; cells that have not ended are left out.

    Raises:
        InputError: no experiment there, or a file of it cannot be read.
    """
    plan = _read_plan(folder)
    cells: list[CellOutcome] = []
    unfinished: list[str] = []
    for cell in plan.cells:
        facts = read_cell(cell)
        if facts is None:
            unfinished.append(cell.name)
            continue
        if facts.state != "done":
            cells.append(CellOutcome(facts, (), _wire(cell)))
            continue
        records = _records(cell)
        repeats, again, missing = _read_repeats(cell, facts, plan.repeats)
        unfinished += missing
        cells.append(CellOutcome(facts, (*records, *again), _wire(cell), repeats))
    if plan.cells and not cells:
        held = len(plan.cells)
        raise InputError(f"{folder}: none of its {held} cells has ended; run `safetyrepro anchor run` again.")
    return replace(plan.experiment, cells=tuple(cells), unfinished=tuple(unfinished))


def finished_cells(folder: Path) -> list[Path]:
    """The folders of an experiment's cells that are done, in the plan's order.

    Raises:
        InputError: no experiment there, or a file of it cannot be read.
    """
    found = [(cell, read_cell(cell)) for cell in _read_plan(folder).cells]
    return [cell for cell, facts in found if facts is not None and facts.state == "done"]


def counted_files(folder: Path) -> list[Path]:
    """The Parquet files below a folder that count, sorted.

    Of an experiment, wherever below it lies, those are the records that `load_experiment` reads: of the plan's cells
    that are done, and of their repeats by the same job. Whatever else an earlier run left there does not count. Of a
    cell it is the same, and outside of experiments every `*.parquet` counts.

    Raises:
        InputError: a file of an experiment is missing or cannot be read.
    """
    return sorted(_counted(folder))


def _counted(folder: Path) -> Iterator[Path]:
    if (folder / "experiment.json").is_file():
        for cell in finished_cells(folder):
            yield from _counted(cell)
    elif (facts := read_cell(folder)) is not None:
        if facts.state == "done":
            yield from (_records_path(one) for one in (folder, *repeats_done(folder, facts)))
    else:
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                yield from _counted(entry)
            elif entry.name.endswith(".parquet"):
                yield entry


@dataclass(frozen=True)
class _Plan:
    """What `experiment.json` holds."""

    experiment: Experiment
    """Without its cells."""
    cells: tuple[Path, ...]
    """The planned cells' folders."""
    repeats: int


def _read_plan(folder: Path) -> _Plan:
    path = folder / "experiment.json"
    if not path.is_file():
        raise InputError(f"{folder}: holds no experiment.json; name a folder that `safetyrepro anchor run` wrote.")
    try:
        body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(body, dict):
            raise ValueError("it is no mapping")
        if body.get("schema") != "1":
            raise InputError(f"{path}: schema is {body.get('schema')!r}, this version reads '1'.")
        configs = tuple(
            ConfigInfo(
                info["config_id"],
                Config.model_validate_json(json.dumps(info["config"])),
                DataInfo(**{**info["data"], "shot_ids": tuple(info["data"]["shot_ids"])}),
                info["chance"],
                _text(info.get("template_sha256")),
                _texts(info.get("item_sha256")),
            )
            for info in body["configs"]
        )
        models = tuple(ModelFacts(**model) for model in body["models"])
        suites = tuple(SuiteFacts(**suite) for suite in body["suites"])
        names: list[str] = body["cells"]
        versions = body["versions"]
        planned = int(body.get("repeats", 1))
        starts = parse_starts(body.get("starts", {}))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not an experiment of this version ({_said(error)}).") from None
    for name in names:
        if Path(name).name != name or name in {".", ".."}:
            raise InputError(f"{path}: cell {name!r} is no plain folder name.")
    cells = tuple(folder / "cells" / name for name in names)
    return _Plan(Experiment(configs, models, suites, versions, (), starts=starts), cells, planned)


def _said(error: Exception) -> str:
    """What is wrong with a file's body, in one line; a field that is missing or unknown is named."""
    if isinstance(error, KeyError):
        return f"the field {error.args[0]!r} is missing"
    wrong = _FIELD.search(str(error)) if isinstance(error, TypeError) else None
    if wrong is None:
        return " ".join(str(error).split())
    return f"the field {wrong[2]!r} is {'missing' if wrong[1] == 'missing' else 'unknown'}"


def _text(value: Any) -> str | None:
    if not isinstance(value, str | None):
        raise ValueError(f"{str(value)[:40]!r} is no hash")
    return value


def _texts(value: Any) -> dict[str, str] | None:
    if value is None or (isinstance(value, dict) and all(isinstance(one, str) for one in value.values())):
        return value
    raise ValueError("item_sha256 is no mapping of ids to hashes")


def repeat_folder(cell: Path, repeat: int) -> Path:
    """Where a cell's repeat is kept."""
    return cell / REPEATS / str(repeat)


def _ended_repeats(cell: Path) -> list[int]:
    """The repeats beside a cell that have ended, in order."""
    found = [path.parent.name for path in cell.glob(f"{REPEATS}/*/cell.json")]
    return sorted(int(name) for name in found if name.isascii() and name.isdecimal() and name == str(int(name)) != "0")


def repeats_done(cell: Path, facts: CellFacts) -> list[Path]:
    """The folders of a cell's finished repeats, in order."""
    return [repeat_folder(cell, found.repeat) for found in _repeat_facts(cell, facts) if found.state == "done"]


def _repeat_facts(cell: Path, facts: CellFacts) -> list[CellFacts]:
    """Repeats that have ended; one of another job than the cell's was left by an earlier run, and is none."""
    found = [(number, read_cell(repeat_folder(cell, number))) for number in _ended_repeats(cell)]
    return [f for number, f in found if f is not None and (f.repeat, f.job_sha256) == (number, facts.job_sha256)]


def _read_repeats(
    cell: Path, facts: CellFacts, planned: int
) -> tuple[tuple[Repeat, ...], tuple[Record, ...], list[str]]:
    """A cell's repeats with their records, and the names of planned ones that have not ended."""
    found = _repeat_facts(cell, facts)
    repeats = tuple(Repeat(one, _wire(repeat_folder(cell, one.repeat))) for one in found)
    records = [record for folder in repeats_done(cell, facts) for record in _records(folder)]
    ended = {one.repeat for one in found}
    missing = [f"{cell.name}/{REPEATS}/{number}" for number in range(1, planned) if number not in ended]
    return repeats, tuple(records), missing


def _records_path(folder: Path) -> Path:
    path = folder / "records.parquet"
    if not path.exists():
        raise InputError(f"{path}: {_GONE}")
    return path


def _records(folder: Path) -> tuple[Record, ...]:
    records = tuple(read_records(_records_path(folder)))
    _check_wire(folder / "wire.jsonl", records)
    return records


def _wire(folder: Path) -> Path | None:
    path = folder / "wire.jsonl"
    return path if path.is_file() else None


def _check_wire(path: Path, records: Sequence[Record]) -> None:
    """Hold a finished cell's wire log to the requests that its records claim."""
    claimed = {wire_id for record in records for wire_id in record.wire_ids}
    if claimed and not path.exists():
        raise InputError(f"{path}: {_GONE}")
    found = {row.wire_id for row in read_wire(path)} if path.is_file() else set()
    if found != claimed:
        raise InputError(
            f"{path}: holds {len(found & claimed)} of the {len(claimed)} requests that the cell's records name; "
            "delete the cell's folder and run again."
        )
