"""Records of one cell as item scores: what counts, what does not, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safetyrepro.crosspkg.facts import CellOutcome
from safetyrepro.records import STATUSES, Record

READABLE = ("ok", "unparsed", "refused", "truncated")
"""Statuses of an answer that came back: they are in the denominator, with 0 where the suite gave no score."""


@dataclass(frozen=True)
class ItemScores:
    """One cell's scores by item."""

    scores: Mapping[str, float | None]
    """Mean over repeats; None where no repeat came back. In item order."""
    clusters: Mapping[str, str]
    statuses: Mapping[str, int]
    """Records by status; items without any record are `missing`."""
    records: Mapping[str, tuple[Record, ...]]


def record_score(record: Record) -> float | None:
    """What a record adds to the sum; None where it is not in the denominator."""
    if record.status not in READABLE:
        return None
    return 0.0 if record.score is None else record.score


def item_scores(cell: CellOutcome, planned: int) -> ItemScores:
    """Scores by item of a finished cell.

    Args:
        cell: the cell with its records.
        planned: items of the config; those without a record are counted as `missing`.
    """
    grouped: dict[str, list[Record]] = {}
    for record in cell.records:
        grouped.setdefault(record.item_id, []).append(record)
    scores: dict[str, float | None] = {}
    for item_id, records in grouped.items():
        values = [value for value in map(record_score, records) if value is not None]
        scores[item_id] = sum(values) / len(values) if values else None
    statuses: Counter[str] = Counter(record.status for record in cell.records)
    unrecorded = planned - len(grouped)
    if unrecorded > 0:
        statuses["missing"] += unrecorded
    return ItemScores(
        scores,
        {item_id: records[0].cluster for item_id, records in grouped.items()},
        {status: statuses[status] for status in STATUSES if statuses[status]},
        {item_id: tuple(records) for item_id, records in grouped.items()},
    )


def shared_items(cells: Sequence[ItemScores]) -> tuple[str, ...]:
    """Items that every cell scored, in the first cell's order."""
    if not cells:
        return ()
    return tuple(item_id for item_id in cells[0].scores if all(cell.scores.get(item_id) is not None for cell in cells))


def score_matrix(cells: Sequence[ItemScores], items: Sequence[str]) -> NDArray[np.float64]:
    """Scores of shape (cells, items)."""
    return np.array([[cell.scores[item_id] for item_id in items] for cell in cells], dtype=np.float64)
