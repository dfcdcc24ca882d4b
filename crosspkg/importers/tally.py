"""Adds up the scores of a log as it streams by: per metric, a sum and a count for every item."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mean:
    """What the rows of one metric come to."""

    mean: float | None
    """Mean over the items of each item's mean over its rows, or by weight where rows have any; None without a score."""
    row_mean: float | None
    """Mean over the rows themselves; differs from the other where items have unlike numbers of rows."""
    n: int
    """Rows that hold a score."""
    items: int
    """Items that hold one."""
    not_finite: int
    """Rows that hold NaN or an infinity."""
    not_numbers: int
    """Rows that hold something that is no number."""


class _Column:
    """Sums and weights of one metric, item by item."""

    def __init__(self) -> None:
        self.sums, self.weights = array("d"), array("d")
        self.rows = self.not_finite = self.not_numbers = 0
        self.weighted = False

    def add(self, item: int, value: float, weight: float) -> None:
        missing = item + 1 - len(self.sums)
        if missing > 0:
            self.sums.frombytes(bytes(missing * self.sums.itemsize))
            self.weights.frombytes(bytes(missing * self.weights.itemsize))
        self.sums[item] += value * weight
        self.weights[item] += weight
        self.rows += 1
        self.weighted |= weight != 1


class Tally:
    """The scores of one run; memory grows by 16 bytes an item and metric, and by the items' ids."""

    def __init__(self) -> None:
        self._items: dict[str, int] = {}
        self._columns: dict[str, _Column] = {}

    @property
    def items(self) -> int:
        """Distinct items seen."""
        return len(self._items)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics in the order in which they were first seen."""
        return tuple(self._columns)

    def item(self, item_id: str) -> int:
        """The number of an item, a new one where it was not seen before."""
        return self._items.setdefault(item_id, len(self._items))

    def add(self, item: int, metric: str, value: float | None, weight: float = 1) -> None:
        """One row's value: None is no number, NaN and infinities count apart."""
        column = self._columns.get(metric)
        if column is None:
            column = self._columns[metric] = _Column()
        if value is None:
            column.not_numbers += 1
        elif math.isfinite(value):
            column.add(item, value, weight)
        else:
            column.not_finite += 1

    def mean(self, metric: str) -> Mean:
        """The mean of one metric over what has been added."""
        column = self._columns.get(metric, _Column())
        means = [total / weight for total, weight in zip(column.sums, column.weights, strict=True) if weight]
        by_row = _mean(column.sums, sum(column.weights))
        mean = by_row if column.weighted else _mean(means, len(means))
        return Mean(mean, by_row, column.rows, len(means), column.not_finite, column.not_numbers)


def _mean(values: Sequence[float], n: float) -> float | None:
    try:
        mean = math.fsum(values) / n if n else None
    except OverflowError:
        return None
    return mean if mean is not None and math.isfinite(mean) else None
