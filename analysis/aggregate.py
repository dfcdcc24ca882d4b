"""How a cell's score is made of its items' scores: their mean, or the parity of a share.

Parity is for pairs of sentences of which a fair model prefers neither: with m the mean item score, the share p of
items on which the other sentence wins is `1 - m`, and the cell's score is `1 - |2p - 1| = 1 - |2m - 1|`, which is 1 at
an even split and 0 where one side always wins. It has a fold at an even split, where a bootstrap of parity itself goes
wrong: every draw lies below 1, and its differences are no longer centred. So everything here stays with means, which
bootstrap and sign flips are made for, and folds their intervals.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from safetyrepro.analysis.resampling import Floats

Aggregate = Literal["mean", "parity"]
Interval = tuple[float, float]


def aggregated(kind: Aggregate, means: Floats) -> Floats:
    """Cell scores in [0, 1] from mean item scores in [0, 1], of any shape."""
    return means if kind == "mean" else 1 - np.abs(2 * means - 1)


def cell_score(kind: Aggregate, mean: float) -> float:
    """One cell's score in [0, 1] from its mean item score."""
    return float(aggregated(kind, np.array(mean)))


def folded(kind: Aggregate, interval: Interval) -> Interval:
    """The cell scores that an interval of mean item scores reaches, and so covers at least as often."""
    if kind == "mean":
        return interval
    ends = [cell_score(kind, end) for end in interval]
    return min(ends), 1.0 if interval[0] <= 0.5 <= interval[1] else max(ends)


def parity_parts(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Two item values whose means tell the difference of two parities.

    With x a mean item score less 1/2, a parity is `1 - 2|x|`, and the difference of two is
    `2 (|x2| - |x1|) = |u + w| - |u - w|`, where `u = x2 - x1` and `w = x1 + x2`: it is positive exactly where u and w
    have the same sign, and 0 where one of them is.

    Args:
        first: item scores in [0, 1], of any shape.
        second: the same items under another suite or model.

    Returns:
        Items' parts of u and of w, each in [-1, 1].
    """
    return second - first, first + second - 1


def folded_difference(u: Interval, w: Interval) -> Interval:
    """The differences of two parities that intervals of u and w reach (`parity_parts`).

    For a given w it rises or falls with u throughout, and the other way about, so that its extremes are at corners.
    No two parities are further apart than 1.
    """
    corners = [abs(a + b) - abs(a - b) for a in u for b in w]
    return max(-1.0, min(corners)), min(1.0, max(corners))
