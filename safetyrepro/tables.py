"""Score tables: one row per item (or per cell) and configuration, read from CSV, JSONL or Parquet.

Columns: `model, benchmark, config_id, item_id, score`; optional `suite, arm, cluster, template, decoding, shots,
scoring, repeat, status, tier`. `score` is a number (`true` and `false` of JSONL are 1 and 0) or empty. Without an
`item_id` column each row is a cell mean. Columns of other names are kept as they are.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.errors import InputError
from safetyrepro.records import STATUSES, Record
from safetyrepro.unicode import cleaned, is_text

if TYPE_CHECKING:
    import pandas as pd

REQUIRED = ("model", "benchmark", "config_id", "score")
KEY = ("model", "benchmark", "config_id", "suite", "arm", "item_id", "repeat")
TEXTS = (*KEY[:-1], "cluster", "template", "decoding", "scoring", "status", "tier")
WHOLES = ("shots", "repeat")
LARGEST_SCORE, LARGEST_WHOLE = 1e9, 10**15
"""Sums of squares of scores stay numbers, and whole numbers stay exact."""
_NEVER_EMPTY = ("model", "benchmark", "config_id", "item_id", "cluster")
_AXES = ("template", "decoding", "shots", "scoring")
_RECORD_COLUMNS = (*REQUIRED, "item_id", "suite", "arm", "cluster", *_AXES, "repeat", "status")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ScoreTable:
    """A validated score table."""

    columns: tuple[str, ...]
    """As the file names them."""
    frame: pd.DataFrame
    """One row per input row: text columns as `str` ("" where empty), `shots` and `repeat` as Int64, `score` as float64
    with NaN where there is none. `repeat` is 0 and `cluster` is the item where the table has no such column."""
    item_level: bool
    """Whether rows are items; if not, each is a cell mean and item-level inference is not available."""
    without_score: int
    """Rows whose score is empty, null or NaN."""
    written_nan: int
    """Those of them that hold a bare NaN."""


def read_table(path: Path) -> ScoreTable:
    """Read and check a score table.

    Raises:
        InputError: naming file, row and column, what was found and what would be right: an unknown ending, a missing
            column, a score that is no number, an empty id, two rows for the same item of the same cell.
    """
    import pandas as pd

    columns, rows = read_rows(path, "a score table")
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        found = ", ".join(columns)[:200] or "nothing"
        raise InputError(f"{path}: column {missing[0]!r} is missing; found {found}; needed are {', '.join(REQUIRED)}.")
    checked: dict[str, list[Any]] = {name: [] for name in columns}
    seen: dict[tuple[Any, ...], str] = {}
    nans = 0
    for where, row in rows:
        values = {name: _value(path, where, name, row.get(name)) for name in columns}
        nans += _is_nan(row.get("score"))
        key = tuple(values.get(name) for name in KEY)
        if key in seen:
            raise InputError(
                f"{path}, {where}: the same {', '.join(name for name in KEY if name in columns)} as in {seen[key]}; "
                "give each row once, or number repeated runs in a repeat column."
            )
        seen[key] = where
        for name, value in values.items():
            checked[name].append(value)
    if not seen:
        raise InputError(f"{path}: holds no rows.")
    frame = pd.DataFrame({name: _series(name, values) for name, values in checked.items()})
    if "repeat" not in columns:
        frame["repeat"] = pd.array([0] * len(frame), dtype="Int64")
    if "item_id" in columns and "cluster" not in columns:
        frame["cluster"] = frame["item_id"]
    return ScoreTable(tuple(columns), frame, "item_id" in columns, int(frame["score"].isna().sum()), nans)


def read_rows(path: Path, what: str) -> tuple[list[str], Iterable[tuple[str, Row]]]:
    """The columns and rows of a CSV, JSONL or Parquet file, each row with the words that name its place.

    Args:
        path: the file; its ending says what it is.
        what: what it should be, with its article, for errors.

    Raises:
        InputError: an unknown ending, no such file, or contents that are not what the ending says. CSV rows are read as
            they are asked for, so that a bad one raises then.
    """
    readers = {".csv": _csv_rows, ".jsonl": _json_rows, ".ndjson": _json_rows, ".parquet": _parquet_rows}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: {what} ends in .csv, .jsonl or .parquet, this one in {path.suffix!r}.")
    try:
        return reader(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; name {what} (CSV, JSONL or Parquet).") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; write the table as UTF-8.") from None


def place(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    """A row by its keys, for errors: `model 'a', repeat 0`."""
    return ", ".join(f"{name} {int(row[name]) if name in WHOLES else repr(row[name])}" for name in keys)


def records_to_table(records: Sequence[Record]) -> pd.DataFrame:
    """The score table of records, with the columns and types that `read_table` gives."""
    import pandas as pd

    return pd.DataFrame(
        {name: _series(name, [getattr(record, name) for record in records]) for name in _RECORD_COLUMNS}
    )


def _series(name: str, values: Sequence[Any]) -> pd.Series[Any]:
    import pandas as pd

    if name == "score":
        return pd.Series(values, dtype="float64")
    if name in WHOLES:
        return pd.Series(values, dtype="Int64")
    return pd.Series(values, dtype="object")


def _is_nan(value: Any) -> bool:
    return (isinstance(value, float) and math.isnan(value)) or (
        isinstance(value, str) and value.strip().lower() == "nan"
    )


def _value(path: Path, where: str, name: str, value: Any) -> Any:
    def wrong(right: str) -> InputError:
        shown = "empty" if value is None or value == "" else repr(value)[:80]
        return InputError(f"{path}, {where}: {name} is {shown}, it should be {right}.")

    if name == "score":
        if value is None or value == "" or _is_nan(value):
            return None
        number = _number(value)
        if number is None or math.isinf(number):
            raise wrong("a number or empty")
        if abs(number) > LARGEST_SCORE:
            raise wrong(f"a score of at most {LARGEST_SCORE:g} either way")
        return number
    if name in WHOLES:
        if value is None or value == "" or _is_nan(value):
            return 0 if name == "repeat" else None
        number = _number(value)
        if number is None or not number.is_integer() or number < 0:
            raise wrong("a whole number from 0")
        if number > LARGEST_WHOLE:
            raise wrong(f"a whole number of at most {LARGEST_WHOLE:g}")
        return int(number)
    if name not in TEXTS:
        return value
    if isinstance(value, (list, dict)):
        raise wrong("text")
    text = "" if value is None else str(value).strip()
    if not text and name in _NEVER_EMPTY:
        raise wrong("text")
    if name == "status" and text and text not in STATUSES:
        raise wrong(f"one of {', '.join(STATUSES)}")
    return text


def _number(value: Any) -> float | None:
    if isinstance(value, str) and "_" in value:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _csv_rows(path: Path) -> tuple[list[str], Iterator[tuple[str, Row]]]:
    reader = csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""), strict=True)

    def problem(error: csv.Error) -> InputError:
        return InputError(f"{path}, line {reader.line_num}: not a CSV row ({error}).")

    try:
        header = [name.strip() for name in next(reader, [])]
    except csv.Error as error:
        raise problem(error) from None
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise InputError(f"{path}, line 1: column {twice[0]!r} stands twice.")

    def rows() -> Iterator[tuple[str, Row]]:
        try:
            for values in reader:
                if not values:
                    continue
                where = f"line {reader.line_num}"
                if len(values) != len(header):
                    raise InputError(f"{path}, {where}: found {len(values)} fields, the header has {len(header)}.")
                yield where, dict(zip(header, values, strict=True))
        except csv.Error as error:
            raise problem(error) from None

    return header, rows()


def _json_rows(path: Path) -> tuple[list[str], Iterable[tuple[str, Row]]]:
    rows: list[tuple[str, Row]] = []
    columns: dict[str, None] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = _decode(line)
        except InputError as error:
            raise InputError(f"{path}, line {number}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON ({error}).") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: found {line.strip()[:40]!r}, it should be a JSON object.")
        if "\\u" in line and not is_text(row):
            row = cleaned(row)
        rows.append((f"line {number}", row))
        columns.update(dict.fromkeys(row))
    return list(columns), rows


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"key {twice[:60]!r} stands twice in one object; give each once.")
    return row


# json.loads would build a decoder for every line, which doubles the time.
_decode = json.JSONDecoder(object_pairs_hook=_once).decode


def _parquet_rows(path: Path) -> tuple[list[str], Iterable[tuple[str, Row]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except pa.ArrowException as error:
        raise InputError(f"{path}: not a Parquet file ({str(error).splitlines()[0]}).") from None
    return table.column_names, ((f"row {number}", row) for number, row in enumerate(table.to_pylist(), 1))
