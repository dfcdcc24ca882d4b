"""How far a suite is from itself: its score run by run, and what running again alone can put between two means."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from safetyrepro.analysis.aggregate import Aggregate, aggregated
from safetyrepro.analysis.resampling import LEVEL, TOLERANCE, Floats


@dataclass(frozen=True)
class WithinSpread:
    """One suite's repeats on the items that all of them scored."""

    scores: tuple[float, ...]
    """Score of each repeat, in [0, 1]."""
    points: float
    """Largest minus smallest of them, in points of 100."""
    n_items: int
    changed: tuple[int, ...]
    """Places of the items whose score is not the same in all repeats."""
    variance: float
    """Variance of the mean over repeats that comes from running again, in squares of a share."""


def within_spread(scores: Floats, *, aggregate: Aggregate = "mean") -> WithinSpread:
    """The spread of one suite's repeats.

    Formula: with `s_i^2` an item's variance over its R repeats (divisor R - 1), running again moves the mean of n items
    over R repeats with variance `sum_i s_i^2 / (R n^2)`. Items are run independently of each other, so that their
    clusters play no part in it. A parity `1 - |2p - 1|` moves by at most twice what p does, and its variance here is
    that bound.

    Args:
        scores: shape (repeats, items), every entry a number in [0, 1].
        aggregate: how item scores make the suite's score.

    Raises:
        ValueError: fewer than two repeats, no item, or an entry that is no number.
    """
    if scores.ndim != 2 or scores.shape[0] < 2 or not scores.shape[1] or not np.isfinite(scores).all():
        raise ValueError(f"scores have shape {scores.shape}: want (repeats >= 2, items >= 1), all of them numbers")
    repeats, items = scores.shape
    own = aggregated(aggregate, scores.mean(axis=1))
    slope = 1.0 if aggregate == "mean" else 2.0
    return WithinSpread(
        scores=tuple(float(score) for score in own),
        points=100 * float(own.max() - own.min()),
        n_items=items,
        changed=tuple(int(place) for place in np.flatnonzero(np.ptp(scores, axis=0) > TOLERANCE)),
        variance=slope**2 * float(scores.var(axis=0, ddof=1).sum()) / (repeats * items**2),
    )


@dataclass(frozen=True)
class WithinVerdict:
    """A difference between two suites beside what each differs from itself."""

    points: float
    """Largest of the two suites' own spreads, in points of 100."""
    noise_points: float
    """Difference of the two means that running again alone stays under in `level` of all cases, in points of 100."""
    inside: bool
    """Whether the difference is no larger than one of both."""
    level: float = LEVEL


def within_verdict(
    difference_points: float, *suites: WithinSpread, comparisons: int = 1, level: float = LEVEL
) -> WithinVerdict:
    """Whether a difference between two suites lies inside their spread within themselves **(ours)**.

    It does where it is no larger than what one of them differs from itself from one repeat to another, or than what
    running both again would put between their means. The first is what somebody sees who runs each once; the second
    holds where two repeats happen to score alike.

    Args:
        difference_points: difference of the two means over repeats, in points of 100.
        suites: those of the two that were repeated, one or both; one that was not is taken to be as steady as can be.
        comparisons: differences that are looked at together; the level holds for all at once (Bonferroni).
        level: coverage.

    Raises:
        ValueError: neither was repeated.
    """
    if not suites:
        raise ValueError("without a repeat there is no spread within a suite")
    quantile = float(stats.norm.ppf(1 - (1 - level) / (2 * max(comparisons, 1))))
    noise = 100 * quantile * math.sqrt(sum(suite.variance for suite in suites))
    largest = max(suite.points for suite in suites)
    return WithinVerdict(
        points=largest,
        noise_points=noise,
        inside=abs(difference_points) <= max(largest, noise) + TOLERANCE,
        level=level,
    )
