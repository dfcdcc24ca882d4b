"""Verdict tables: one row per call to a judge, read from CSV, JSONL, Parquet or the folder of a run.

Columns: `judge, item_id, order, verdict`; optional `model_a, model_b, repeat, edit, gold`, the marks `correctness,
completeness, safety, conciseness, style, overall`, and surface features of the two answers as `<name>_a, <name>_b`.
Answer a is the one under judgement, answer b its opponent; `order` says which was shown first, `verdict` which of the
two shown won. Columns of other names are kept as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.errors import InputError
from safetyrepro.tables import read_rows

if TYPE_CHECKING:
    import pandas as pd

REQUIRED = ("judge", "item_id", "order", "verdict")
FACTORS = ("correctness", "completeness", "safety", "conciseness", "style")
OVERALL = "overall"
MARKS = (*FACTORS, OVERALL)
LOWEST, HIGHEST = 1.0, 5.0
KEY = ("judge", "item_id", "model_a", "model_b", "edit", "repeat", "order")
FEATURES = ("length", "headings", "lists", "bold", "code")
"""Surface features of an answer, as columns `<feature>_a` and `<feature>_b`; length in characters."""
_CHOICES = {"order": ("ab", "ba"), "verdict": ("first", "second", "tie", ""), "gold": ("a", "b", "")}
_TEXTS = ("judge", "item_id", "model_a", "model_b", "edit", *_CHOICES)
WHAT = "a verdict table"


@dataclass(frozen=True)
class VerdictTable:
    """A validated verdict table."""

    frame: pd.DataFrame
    """One row per call, every column of this module there: texts as `str` ("" where empty), `repeat` from 0, marks and
    features as float64 with NaN where there is none."""
    features: tuple[str, ...]
    """Features that the table has for both answers."""


def read_verdicts(path: Path) -> VerdictTable:
    """Read and check a verdict table, or the verdicts of a run's folder.

    Raises:
        InputError: naming file, row and column, what was found and what would be right: a missing column, an order or
            verdict of another name, a mark outside 1 to 5, an empty id, the same call twice.
    """
    if path.is_dir():
        from safetyrepro.judge.ledger import VERDICTS, table_rows

        if not (path / VERDICTS).is_file():
            raise InputError(f"{path}: holds no {VERDICTS}; name the folder of a `judge run`, or {WHAT}.")
        return check_verdicts(path / VERDICTS, list(REQUIRED), table_rows(path))
    columns, rows = read_rows(path, WHAT)
    return check_verdicts(path, columns, rows)


def check_verdicts(path: Path, columns: list[str], rows: Iterable[tuple[str, Mapping[str, Any]]]) -> VerdictTable:
    """Check rows as `read_verdicts` does; `columns` are those that the header names.

    Raises:
        InputError: as `read_verdicts`.
    """
    import pandas as pd

    missing = next((name for name in REQUIRED if name not in columns), None)
    if missing is not None:
        found = ", ".join(columns)[:200] or "nothing"
        raise InputError(f"{path}: column {missing!r} is missing; found {found}; needed are {', '.join(REQUIRED)}.")
    checked: list[dict[str, Any]] = []
    seen: dict[tuple[Any, ...], str] = {}
    for where, row in rows:
        values: dict[str, Any] = {name: _text(path, where, name, row.get(name)) for name in _TEXTS}
        values["repeat"] = _repeat(path, where, row.get("repeat"))
        key = tuple(values[name] for name in KEY)
        if key in seen:
            raise InputError(
                f"{path}, {where}: the same call (judge, item_id, models, edit, order) as in {seen[key]}; give each "
                "call once, or number repeated ones in a repeat column."
            )
        seen[key] = where
        for name in MARKS:
            values[name] = _number(path, where, name, row.get(name), LOWEST, HIGHEST)
        for name in (f"{feature}_{side}" for feature in FEATURES for side in "ab"):
            values[name] = _number(path, where, name, row.get(name), 0.0, math.inf)
        checked.append({**{name: value for name, value in row.items() if name not in values}, **values})
    if not checked:
        raise InputError(f"{path}: holds no rows.")
    frame = pd.DataFrame(checked)
    _check_golds(path, frame)
    features = tuple(f for f in FEATURES if frame[[f"{f}_a", f"{f}_b"]].notna().all(axis=1).any())
    return VerdictTable(frame, features)


def originals(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows whose answers were not edited."""
    return frame[frame["edit"] == ""]


def _text(path: Path, where: str, name: str, value: Any) -> str:
    if isinstance(value, float) and math.isnan(value):
        value = None
    if isinstance(value, (list, dict, bool)):
        raise _wrong(path, where, name, value, "text")
    text = "" if value is None else str(value).strip()
    choices = _CHOICES.get(name)
    if choices is not None and text not in choices:
        right = ", ".join(choice for choice in choices if choice) + (" or empty" if "" in choices else "")
        raise _wrong(path, where, name, value, right)
    if not text and name in ("judge", "item_id"):
        raise _wrong(path, where, name, None, "text")
    return text


def _repeat(path: Path, where: str, value: Any) -> int:
    number = _number(path, where, "repeat", value, 0.0, 2.0**53)
    if math.isnan(number):
        return 0
    if not number.is_integer():
        raise _wrong(path, where, "repeat", value, "a whole number from 0")
    return int(number)


def _number(path: Path, where: str, name: str, value: Any, low: float, high: float) -> float:
    if value is None or (isinstance(value, str) and value.strip().casefold() in ("", "nan")):
        return math.nan
    right = f"a number from {low:g}" + ("" if math.isinf(high) else f" to {high:g}") + " or empty"
    if isinstance(value, (bool, list, dict)) or (isinstance(value, str) and "_" in value):
        raise _wrong(path, where, name, value, right)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(path, where, name, value, right) from None
    if math.isnan(number):
        return math.nan
    if math.isinf(number) or not low <= number <= high:
        raise _wrong(path, where, name, value, right)
    return number


def _wrong(path: Path, where: str, name: str, value: Any, right: str) -> InputError:
    shown = "empty" if value is None or value == "" else repr(value)[:80]
    return InputError(f"{path}, {where}: {name} is {shown}, it should be {right}.")


def _check_golds(path: Path, frame: pd.DataFrame) -> None:
    golds = frame[(frame["gold"] != "") & (frame["edit"] == "")]
    distinct = golds.groupby(["item_id", "model_a", "model_b"])["gold"].nunique()
    torn = distinct[distinct > 1]
    if len(torn):
        item = torn.index[0][0]
        raise InputError(f"{path}: gold of item {str(item)!r} is both a and b; a comparison has one right answer.")
