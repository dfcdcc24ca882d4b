"""What a suite scores a model: the cell's score, its interval, and what was left out of the denominator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from safetyrepro.analysis.aggregate import Aggregate, cell_score, folded
from safetyrepro.analysis.resampling import (
    DRAWS,
    LEVEL,
    SEED,
    TOLERANCE,
    alike_slack,
    bootstrap_counts,
    cluster_sums,
    expansion,
)


@dataclass(frozen=True)
class MeanScore:
    """A cell's score in [0, 1], the mean of its items' or its parity, with its interval and its denominator."""

    n: int
    """Items in the denominator: all that hold a score; an unparsed answer holds 0."""
    n_items: int
    """Items asked."""
    n_clusters: int
    score: float | None
    """Over the `n` items; None where there is none."""
    ci: tuple[float, float] | None
    """Interval by cluster bootstrap; None with fewer than two clusters."""
    score_over_all: float | None
    """The same sum over all items asked: what a mean is if an error counts as wrong; None for parity."""
    method: str
    level: float
    draws: int
    seed: int
    aggregate: Aggregate = "mean"
    item_mean: float | None = None
    """Mean item score, which `score` is made of."""
    item_ci: tuple[float, float] | None = None
    """Its interval."""

    @property
    def other_share(self) -> tuple[float, tuple[float, float] | None] | None:
        """What parity is made of: the share p of items that score 0 (a tie counts half), and its interval."""
        if self.aggregate == "mean" or self.item_mean is None:
            return None
        interval = None if self.item_ci is None else (1 - self.item_ci[1], 1 - self.item_ci[0])
        return 1 - self.item_mean, interval

    def holds(self, value: float) -> bool:
        """Whether the interval holds `value` (without an interval nothing is ruled out)."""
        return self.ci is None or self.ci[0] - TOLERANCE <= value <= self.ci[1] + TOLERANCE

    def summary(self) -> str:
        """The result in words."""
        if self.score is None:
            return f"no item of {self.n_items} holds a score"
        interval = "" if self.ci is None else f" ({100 * self.ci[0]:.0f} to {100 * self.ci[1]:.0f})"
        return f"{100 * self.score:.0f} of 100{interval} on {self.n} of {self.n_items} items"


def mean_score(
    scores: Sequence[float | None],
    clusters: Sequence[str],
    *,
    aggregate: Aggregate = "mean",
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = SEED,
) -> MeanScore:
    """Mean score, or parity, with an expanded percentile interval by cluster bootstrap.

    Formula: clusters are drawn with replacement, the mean of a draw is (sum of scores) / (number of items) in it, and
    the interval runs between the quantiles at `Phi(-expansion * z)` on either side.

    The percentile interval is chosen over BCa: it stays within [0, 1] and can be recomputed by anybody from the
    draws, while BCa's acceleration from a jackknife over the few clusters of a small run is itself mostly noise. Its
    one known fault with few items, being too narrow, is what the expansion corrects. Where all clusters score alike a
    bootstrap has no width; the interval then allows for the share of unlike clusters that could have stayed unseen.

    Parity's interval is what the mean's interval reaches (`aggregate.folded`).

    Args:
        scores: one per item, in [0, 1]; None where the item holds no score (error, missing, undefined).
        clusters: the cluster of each item.
        aggregate: how item scores make the score.
        level: coverage of the interval.
        draws: bootstrap draws.
        seed: seed of the draws, kept in the result.

    References:
        T. Hesterberg (2015), What Teachers Should Know About the Bootstrap, The American Statistician 69(4).
    """
    kept = [(score, cluster) for score, cluster in zip(scores, clusters, strict=True) if score is not None]
    if not kept:
        return MeanScore(0, len(scores), 0, None, None, None, "none", level, draws, seed, aggregate)
    values = np.array([score for score, _ in kept], dtype=np.float64)
    sums, sizes = cluster_sums(values[np.newaxis, :], [cluster for _, cluster in kept])
    groups = len(sizes)
    mean = float(values.mean())
    ci: tuple[float, float] | None = None
    method = "none: a single cluster"
    if groups > 1:
        counts = bootstrap_counts(groups, draws, seed)
        means = (counts @ sums[0]) / (counts @ sizes)
        if float(np.ptp(means)) <= TOLERANCE:
            slack = alike_slack(groups, level)
            ci = (mean * (1 - slack), mean * (1 - slack) + slack)
            method = "all clusters alike: bound on what could have stayed unseen"
        else:
            tail = float(stats.norm.cdf(stats.norm.ppf((1 - level) / 2) * expansion(groups, level)))
            low, high = np.quantile(means, [tail, 1 - tail])
            ci = (float(low), float(high))
            method = "expanded percentile, cluster bootstrap"
    return MeanScore(
        n=len(kept),
        n_items=len(scores),
        n_clusters=groups,
        score=cell_score(aggregate, mean),
        ci=None if ci is None else folded(aggregate, ci),
        score_over_all=float(values.sum()) / len(scores) if aggregate == "mean" else None,
        method=method,
        level=level,
        draws=draws,
        seed=seed,
        aggregate=aggregate,
        item_mean=mean,
        item_ci=ci,
    )
