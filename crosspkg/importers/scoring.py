"""From a row's scores to a record's one score: which metric it is, and what becomes of values that are no score."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

from safetyrepro.crosspkg.importers.values import MAX_KEPT
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.crosspkg.importers.base import Notes, Row, Run

METRIC = "metric:"
"""Prefix in a record's `extra` of the row's values of further metrics."""


def choose_metric(run: Run, rows: Sequence[Row], wanted: str | None) -> str | None:
    """The metric whose value is the records' score.

    It is the wanted one; else the first, in the run's order of preference and then in the log's, whose values all lie
    in [0, 1]; else the first that holds numbers; None where no row holds any.

    Raises:
        InputError: no row holds the wanted one.
    """
    names = dict.fromkeys(name for row in rows for name in row.values)
    if wanted is not None:
        if rows and wanted not in names:
            raise InputError(
                f"{run.source}: no row holds the metric {wanted!r}; there are {', '.join(names) or 'none'}."
            )
        return wanted
    ordered = [name for name in run.headline if name in names]
    ordered += [name for name in names if name not in ordered and name not in run.passed_over]
    with_numbers = [name for name in ordered if _values(rows, name)]
    fits = (name for name in with_numbers if all(0.0 <= value <= 1.0 for value in _values(rows, name)))
    return next(fits, with_numbers[0] if with_numbers else None)


def _values(rows: Sequence[Row], name: str) -> list[float]:
    found = (row.values.get(name) for row in rows)
    return [value for value in found if value is not None and math.isfinite(value)]


class Outcome:
    """Gives every row of a run its score."""

    def __init__(self, task: str, metric: str | None, passed_over: Set[str]) -> None:
        self._task, self._metric, self._passed_over = task, metric, passed_over
        self._outside: Counter[str] = Counter()

    def of(self, row: Row) -> dict[str, Any]:
        """The row's fields with metric, score and status; the values of other metrics stand in `extra`."""
        name = self._metric
        value = row.values.get(name) if name is not None else None
        facts = row.facts
        others = {
            f"{METRIC}{other}": "" if held is None else repr(held)
            for other, held in row.values.items()
            if other != name and other not in self._passed_over
        }
        facts["metric"] = name or ""
        facts["extra"] = {key: text[:MAX_KEPT] for key, text in {**facts["extra"], **others}.items()}
        facts["reason"] = facts["reason"] or row.failure
        if value is not None and math.isfinite(value):
            facts["suite_score"] = value
            # What a failed request is scored says nothing of the model.
            if 0.0 <= value <= 1.0 and facts["status"] != "error":
                facts["score"] = value
        if facts["score"] is None and facts["status"] == "ok":
            held = name in row.values
            facts["status"], facts["reason"] = ("undefined", self._why(value)) if held else ("missing", self._lacks())
        return facts

    def report(self, notes: Notes) -> None:
        """Say how many rows have a value that is no score."""
        for what, n in self._outside.items():
            notes.say(f"{self._task}: {self._metric} {what} in {n} rows; they have no score, the value is kept.")

    def _why(self, value: float | None) -> str:
        if value is None:
            return f"{self._metric} holds no number"
        if not math.isfinite(value):
            return f"{self._metric} is {value}"
        self._outside["lies outside [0, 1]"] += 1
        return f"{self._metric} is {value!r}, no score in [0, 1]"

    def _lacks(self) -> str:
        return f"the log holds no {self._metric or 'score'} for this item"
