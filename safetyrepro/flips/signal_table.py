"""Signal tables: one row per item with whether each model was right, and one column per signal.

Columns: `item_id`, `old_correct`, `new_correct`; optional `update`, `task` and `cluster`; every other column of numbers
is a signal (empty or NaN where undefined). A file may hold several updates and tasks.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from safetyrepro.analysis.flips.pairing import RIGHT_AT
from safetyrepro.analysis.flips.signals import KINDS, SignalTable
from safetyrepro.errors import InputError
from safetyrepro.flips.item_signals import ALIASES, number
from safetyrepro.tables import Row, read_rows

CORRECT = ("old_correct", "new_correct")
TEXTS = ("update", "task", "item_id", "cluster")
WHAT = "a signal table"


@dataclass(frozen=True)
class SignalRows:
    """New rows to route: items with their signals."""

    items: tuple[str, ...]
    values: tuple[float, ...]
    """Of the one signal asked for, NaN where undefined."""


def read_signal_tables(
    paths: Sequence[Path], *, lower: Sequence[str] = (), only: Sequence[str] = ()
) -> list[SignalTable]:
    """Read signal tables, one result per update and task, in the files' order.

    Args:
        paths: CSV, JSONL or Parquet files.
        lower: signals of which low values mean risk.
        only: keep these signals alone (and the confidences, which others are compared with).

    Raises:
        InputError: naming file, row and column: a column that is missing, a value that is no number, an item that
            stands twice, a file without rows or without signals.
    """
    tables = [table for path in paths for table in _tables(path, lower, only)]
    seen: set[tuple[str, str]] = set()
    for table in tables:
        if (table.update, table.task) in seen:
            raise InputError(
                f"{', '.join(map(str, paths))}: update {table.update!r}, task {table.task!r} stands in two files; "
                "give each update and task once, or name them in update and task columns."
            )
        seen.add((table.update, table.task))
    return tables


def read_signal_rows(path: Path, signal: str) -> SignalRows:
    """Read item ids and one signal from a table of any further columns.

    Raises:
        InputError: naming file, row and column.
    """
    columns, rows = read_rows(path, WHAT)
    names = _named(path, columns)
    _need(path, names, ("item_id", signal))
    items: dict[str, float] = {}
    for where, row in rows:
        item = _text(path, where, row, "item_id")
        if item in items:
            raise InputError(f"{path}, {where}: item_id {item!r} stands twice; give each item once.")
        items[item] = _number(path, where, row, names[signal])
    if not items:
        raise InputError(f"{path}: holds no rows.")
    return SignalRows(tuple(items), tuple(items.values()))


def signals_csv(tables: Sequence[SignalTable]) -> str:
    """Tables as CSV that `read_signal_tables` reads; a signal is empty where it is undefined."""
    names = list(dict.fromkeys(name for table in tables for name in table.signals))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*TEXTS, *CORRECT, *names])
    for table in tables:
        for at, item in enumerate(table.items):
            values = [float(table.signals[name][at]) if name in table.signals else np.nan for name in names]
            right = int(table.old_right[at]), int(table.new_right[at])
            shown = ["" if np.isnan(value) else value for value in values]
            writer.writerow([table.update, table.task, item, table.clusters[at], *right, *shown])
    return text.getvalue()


def _tables(path: Path, lower: Sequence[str], only: Sequence[str]) -> list[SignalTable]:
    columns, rows = read_rows(path, WHAT)
    names = _named(path, columns)
    _need(path, names, ("item_id", *CORRECT, *only))
    read = [(where, row) for where, row in rows]
    if not read:
        raise InputError(f"{path}: holds no rows.")
    signals = _signal_columns(path, names, read, only)
    grouped: dict[tuple[str, str], dict[str, tuple[str, Row]]] = {}
    for where, row in read:
        key = (_optional(row, "update") or path.stem, _optional(row, "task") or "all items")
        item = _text(path, where, row, "item_id")
        group = grouped.setdefault(key, {})
        if item in group:
            raise InputError(
                f"{path}, {where}: item_id {item!r} stands twice for update {key[0]!r}, task {key[1]!r}, first in "
                f"{group[item][0]}; give each item once."
            )
        group[item] = (where, row)
    return [
        SignalTable(
            update=update,
            task=task,
            items=tuple(group),
            clusters=tuple(_optional(row, "cluster") or item for item, (_, row) in group.items()),
            old_right=_right(path, group, CORRECT[0]),
            new_right=_right(path, group, CORRECT[1]),
            signals={
                name: np.array([_number(path, where, row, column) for where, row in group.values()])
                for name, column in signals.items()
            },
            lower=frozenset(ALIASES.get(name, name) for name in lower),
        )
        for (update, task), group in grouped.items()
    ]


def _named(path: Path, columns: Sequence[str]) -> dict[str, str]:
    """Signal and column names by the signal's own name (`conf` is `confidence`, which is the new model's)."""
    found: dict[str, str] = {}
    for column in columns:
        name = ALIASES.get(column, column)
        name = "confidence_new" if name == "confidence" else name
        if name in found:
            raise InputError(f"{path}: columns {found[name]!r} and {column!r} are the same signal, {name}; keep one.")
        found[name] = column
    return found


def _need(path: Path, names: dict[str, str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if ALIASES.get(name, name) not in names:
            shown = ", ".join(names.values())[:200] or "nothing"
            raise InputError(f"{path}: column {name!r} is missing; found {shown}.")


def _signal_columns(
    path: Path, names: dict[str, str], rows: Sequence[tuple[str, Row]], only: Sequence[str]
) -> dict[str, str]:
    wanted = {ALIASES.get(name, name) for name in only}
    found = {}
    for name, column in names.items():
        if column in (*TEXTS, *CORRECT) or (wanted and name not in {*wanted, "confidence_new", "confidence_old"}):
            continue
        numbers = [number(row.get(column)) for _, row in rows]
        if name in KINDS or name in wanted or not any(value is None for value in numbers):
            found[name] = column
    if not found:
        raise InputError(f"{path}: holds no signal: no column of numbers beside {', '.join((*TEXTS, *CORRECT))}.")
    return found


def _right(path: Path, group: dict[str, tuple[str, Row]], column: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    values = []
    for where, row in group.values():
        value = _number(path, where, row, column)
        if not 0 <= value <= 1:
            shown = "empty" if np.isnan(value) else repr(row.get(column))[:60]
            raise InputError(f"{path}, {where}: {column} is {shown}, it should be true or false, or 0 to 1.")
        values.append(value >= RIGHT_AT)
    return np.array(values, dtype=np.bool_)


def _number(path: Path, where: str, row: Row, column: str) -> float:
    value = number(row.get(column))
    if value is None:
        raise InputError(f"{path}, {where}: {column} is {str(row.get(column))[:60]!r}, it should be a number or empty.")
    return value


def _text(path: Path, where: str, row: Row, column: str) -> str:
    value = _optional(row, column)
    if not value:
        raise InputError(f"{path}, {where}: {column} is empty, it should be text.")
    return value


def _optional(row: Row, column: str) -> str:
    value = row.get(column)
    return "" if value is None or isinstance(value, (list, dict)) else str(value).strip()
