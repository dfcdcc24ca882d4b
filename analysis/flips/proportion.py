"""A share of items with its interval: Wilson's, or by cluster bootstrap where items are near copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from safetyrepro.analysis.flips.pairing import Bools
from safetyrepro.analysis.mean import mean_score
from safetyrepro.analysis.resampling import LEVEL


@dataclass(frozen=True)
class Proportion:
    """A share in [0, 1] of `n` items."""

    count: int
    n: int
    value: float | None
    """None where there is no item."""
    ci: tuple[float, float] | None
    method: str


def proportion(hits: Bools, clusters: Sequence[str], *, level: float = LEVEL) -> Proportion:
    """Share of hits with a two-sided interval.

    Wilson's score interval where every item is its own cluster; else the expanded percentile interval by cluster
    bootstrap (`analysis.mean`), since near copies hold less information than their number says.

    Args:
        hits: shape (items,).
        clusters: the cluster of each item.
        level: coverage.

    References:
        E. Wilson (1927), Probable Inference, the Law of Succession, and Statistical Inference, JASA 22, 209-212.
    """
    count, n = int(hits.sum()), len(hits)
    if not n:
        return Proportion(0, 0, None, None, "none: no item")
    if len(set(clusters)) == n:
        interval = stats.binomtest(count, n).proportion_ci(level, method="wilson")
        return Proportion(count, n, count / n, (float(interval.low), float(interval.high)), "Wilson")
    mean = mean_score(list(hits.astype(np.float64)), clusters, level=level)
    return Proportion(count, n, mean.score, mean.ci, mean.method)
