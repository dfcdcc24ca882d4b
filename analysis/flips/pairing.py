"""Two models on the same items of one configuration: who was right, over repeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safetyrepro.analysis.resampling import TOLERANCE, Floats

if TYPE_CHECKING:
    import pandas as pd

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

RIGHT_AT = 0.5
"""An item counts as right from this score on, unless said otherwise."""
NOT_ANSWERED = ("error", "missing", "undefined")
"""Statuses without an answer: such a row is in no denominator, whatever its score."""
ANSWERED_WRONG = ("unparsed", "refused", "truncated")
"""Statuses of an answer that came back; without a score they count 0."""


@dataclass(frozen=True)
class Configuration:
    """One task under one configuration; suite and arm are part of it."""

    benchmark: str
    config_id: str
    suite: str = ""
    arm: str = ""


@dataclass(frozen=True)
class LeftOut:
    """Items that cannot be compared."""

    only_old: int
    """Asked of the old model alone."""
    only_new: int
    without_score: int
    """Asked of both, but at least one has no score."""


@dataclass(frozen=True)
class PairedItems:
    """The items that both models scored."""

    items: tuple[str, ...]
    clusters: tuple[str, ...]
    groups: tuple[str, ...]
    """What each item is grouped by in the table of groups."""
    old: Floats
    """Mean score over repeats, shape (items,)."""
    new: Floats
    old_share: Floats
    """Share of the repeats that are right, shape (items,)."""
    new_share: Floats
    old_repeats: Ints
    """Repeats with a score, shape (items,)."""
    new_repeats: Ints
    right_at: float
    left_out: LeftOut

    @property
    def old_right(self) -> Bools:
        """Whether the old model is right: its mean score over repeats reaches `right_at`."""
        return self.old >= self.right_at - TOLERANCE

    @property
    def new_right(self) -> Bools:
        """The same for the new model."""
        return self.new >= self.right_at - TOLERANCE

    @property
    def negative(self) -> Bools:
        """Negative flips: `z(x) = 1[old right and new wrong]`."""
        return self.old_right & ~self.new_right

    @property
    def positive(self) -> Bools:
        """Positive flips: old wrong and new right."""
        return ~self.old_right & self.new_right

    @property
    def clustered(self) -> bool:
        """Whether any two items are near copies of each other."""
        return len(set(self.clusters)) < len(self.clusters)


@dataclass(frozen=True)
class _Outcomes:
    """One model's items, all of them and those with a score."""

    asked: Mapping[str, None]
    score: Mapping[str, float]
    share: Mapping[str, float]
    repeats: Mapping[str, int]
    clusters: Mapping[str, str]
    groups: Mapping[str, str]


def configurations(frame: pd.DataFrame) -> tuple[Configuration, ...]:
    """The configurations that a table holds, in its order."""
    columns = [name for name in ("benchmark", "config_id", "suite", "arm") if name in frame]
    rows = frame[columns].drop_duplicates().to_dict("records")
    return tuple(Configuration(**{str(name): str(value) for name, value in row.items()}) for row in rows)


def rows_of(frame: pd.DataFrame, model: str, configuration: Configuration) -> pd.DataFrame:
    """The rows of one model under one configuration."""
    mask = frame["model"] == model
    for name in ("benchmark", "config_id", "suite", "arm"):
        if name in frame:
            mask &= frame[name] == getattr(configuration, name)
    return frame[mask]


def pair_items(old: pd.DataFrame, new: pd.DataFrame, *, right_at: float = RIGHT_AT, by: str = "cluster") -> PairedItems:
    """Pair two models' rows by item.

    With repeats an item's value is the mean of its scores, so that one lucky sample does not make an item right. Items
    that only one model was asked, or that have no score for one of them, are left out and counted.

    Args:
        old: rows of the old model with `item_id`, `cluster`, `score`, and where present `status` and `by`.
        new: the same for the new model.
        right_at: an item is right from this score on.
        by: the column that groups items.
    """
    a, b = _outcomes(old, right_at, by), _outcomes(new, right_at, by)
    both = [item for item in a.asked if item in b.asked]
    kept = [item for item in both if item in a.score and item in b.score]
    return PairedItems(
        items=tuple(kept),
        clusters=tuple(a.clusters[item] for item in kept),
        groups=tuple(a.groups[item] for item in kept),
        old=np.array([a.score[item] for item in kept], dtype=np.float64),
        new=np.array([b.score[item] for item in kept], dtype=np.float64),
        old_share=np.array([a.share[item] for item in kept], dtype=np.float64),
        new_share=np.array([b.share[item] for item in kept], dtype=np.float64),
        old_repeats=np.array([a.repeats[item] for item in kept], dtype=np.int64),
        new_repeats=np.array([b.repeats[item] for item in kept], dtype=np.int64),
        right_at=right_at,
        left_out=LeftOut(len(a.asked) - len(both), len(b.asked) - len(both), len(both) - len(kept)),
    )


def counted_scores(frame: pd.DataFrame) -> pd.Series[float]:
    """Scores as they count: NaN where no answer came back, 0 where one came back that gave no score."""
    scores = frame["score"].astype("float64")
    if "status" in frame:
        scores = scores.mask(frame["status"].isin(ANSWERED_WRONG) & scores.isna(), 0.0)
        scores = scores.mask(frame["status"].isin(NOT_ANSWERED))
    return scores


def _outcomes(frame: pd.DataFrame, right_at: float, by: str) -> _Outcomes:
    scores = counted_scores(frame)
    first = frame.drop_duplicates("item_id").set_index("item_id")
    scored = frame.assign(value=scores, right=(scores >= right_at - TOLERANCE).astype("float64"))[scores.notna()]
    grouped = scored.groupby("item_id", sort=False)
    groups = first[by] if by in first else first["cluster"]
    return _Outcomes(
        asked=dict.fromkeys(map(str, first.index)),
        score=_by_item(grouped["value"].mean()),
        share=_by_item(grouped["right"].mean()),
        repeats=_by_item(grouped.size()),
        clusters=_by_item(first["cluster"]),
        groups=_by_item(groups.fillna("").astype(str)),
    )


def _by_item(values: pd.Series[Any]) -> dict[str, Any]:
    return {str(item): value for item, value in values.items()}
