"""A cell's folder within an experiment's: its facts, its records, and the same of its repeats."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from safetyrepro.adapters.base import Setting
from safetyrepro.atomic import write_json
from safetyrepro.crosspkg.facts import CellFacts, CellOutcome, Repeat, State
from safetyrepro.errors import InputError
from safetyrepro.gateway.wire import read_wire
from safetyrepro.records import Record, read_records

REPEATS = "repeats"
"""Folder of a cell's repeats, below the cell's own."""
_GONE = "is missing, though its cell ended; put it back, or delete the cell's folder and run again."
_FIELD = re.compile(r"(missing|unexpected) .*'([^']+)'$")
"""What Python says of a call that a body's fields do not fit."""


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
            f"{path}: not a cell's facts ({what_is_wrong(error)}); delete the cell's folder and run again."
        ) from None


def write_cell(folder: Path, facts: CellFacts) -> None:
    """Write `cell.json`, the last file of a cell."""
    write_json(folder / "cell.json", asdict(facts))


def repeat_folder(cell: Path, repeat: int) -> Path:
    """Where a cell's repeat is kept."""
    return cell / REPEATS / str(repeat)


def repeats_done(cell: Path, facts: CellFacts) -> list[Path]:
    """The folders of a cell's finished repeats, in order."""
    return [repeat_folder(cell, found.repeat) for found in _repeat_facts(cell, facts) if found.state == "done"]


def read_outcome(cell: Path, facts: CellFacts, planned: int) -> tuple[CellOutcome, list[str]]:
    """A cell's outcome, and the names of those of its `planned` runs that have not ended.

    Raises:
        InputError: a file of a finished cell is missing or cannot be read.
    """
    if facts.state != "done":
        return CellOutcome(facts, (), _wire(cell)), []
    records = _records(cell)
    repeats, again, missing = _read_repeats(cell, facts, planned)
    return CellOutcome(facts, (*records, *again), _wire(cell), repeats), missing


def records_files(cell: Path, facts: CellFacts) -> list[Path]:
    """The records of a cell and of its repeats; none unless it is done.

    Raises:
        InputError: one is missing.
    """
    return [_records_path(one) for one in (cell, *repeats_done(cell, facts))] if facts.state == "done" else []


def what_is_wrong(error: Exception) -> str:
    """What is wrong with a file's body, in one line; a field that is missing or unknown is named."""
    if isinstance(error, KeyError):
        return f"the field {error.args[0]!r} is missing"
    wrong = _FIELD.search(str(error)) if isinstance(error, TypeError) else None
    if wrong is None:
        return " ".join(str(error).split())
    return f"the field {wrong[2]!r} is {'missing' if wrong[1] == 'missing' else 'unknown'}"


def _records_path(folder: Path) -> Path:
    path = folder / "records.parquet"
    if not path.exists():
        raise InputError(f"{path}: {_GONE}")
    return path


def _ended_repeats(cell: Path) -> list[int]:
    """The repeats beside a cell that have ended, in order."""
    found = [path.parent.name for path in cell.glob(f"{REPEATS}/*/cell.json")]
    return sorted(int(name) for name in found if name.isascii() and name.isdecimal() and name == str(int(name)) != "0")


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
