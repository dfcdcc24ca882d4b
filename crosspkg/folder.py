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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from safetyrepro.atomic import write_json
from safetyrepro.config import Config
from safetyrepro.crosspkg.cell_folder import read_cell, read_outcome, records_files, what_is_wrong
from safetyrepro.crosspkg.facts import CellOutcome, ConfigInfo, DataInfo, Experiment, ModelFacts, SuiteFacts
from safetyrepro.crosspkg.starts import Start, parse_starts
from safetyrepro.errors import InputError


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
        outcome, missing = read_outcome(cell, facts, plan.repeats)
        cells.append(outcome)
        unfinished += missing
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
        yield from records_files(folder, facts)
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
        raise InputError(f"{path}: not an experiment of this version ({what_is_wrong(error)}).") from None
    for name in names:
        if Path(name).name != name or name in {".", ".."}:
            raise InputError(f"{path}: cell {name!r} is no plain folder name.")
    cells = tuple(folder / "cells" / name for name in names)
    return _Plan(Experiment(configs, models, suites, versions, (), starts=starts), cells, planned)


def _text(value: Any) -> str | None:
    if not isinstance(value, str | None):
        raise ValueError(f"{str(value)[:40]!r} is no hash")
    return value


def _texts(value: Any) -> dict[str, str] | None:
    if value is None or (isinstance(value, dict) and all(isinstance(one, str) for one in value.values())):
        return value
    raise ValueError("item_sha256 is no mapping of ids to hashes")
