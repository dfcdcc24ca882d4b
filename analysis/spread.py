"""How far suites disagree: max - min of their scores, what equal suites would show, and which pairs differ."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.aggregate import Aggregate, aggregated
from safetyrepro.analysis.resampling import DRAWS, LEVEL, SEED, TOLERANCE, Floats, cluster_sums, random_p
from safetyrepro.analysis.simultaneous import difference_bands


@dataclass(frozen=True)
class PairDifference:
    """Two suites on the same items."""

    a: str
    b: str
    difference_points: float
    """Score of `a` minus score of `b`, in points of 100."""
    ci_points: tuple[float, float] | None
    """Interval that holds for all pairs at once."""
    discordant: int
    """Items whose score differs."""
    a_higher: int
    b_higher: int


@dataclass(frozen=True)
class Spread:
    """The spread between suites on the items that all of them scored."""

    labels: tuple[str, ...]
    n_items: int
    n_clusters: int
    scores: tuple[float, ...]
    """Score of each suite on these items, in [0, 1]."""
    points: float
    """Largest minus smallest, in points of 100."""
    ci_points: tuple[float, float] | None
    null_mean: float
    """Mean spread, in points, if the suites were equal."""
    null_q95: float
    """95% quantile of it."""
    p: float
    """Share of draws with equal suites that show at least this spread."""
    pairs: tuple[PairDifference, ...]
    level: float
    draws: int
    seed: int

    def summary(self) -> str:
        """The result in words."""
        return (
            f"{self.points:.1f} points apart on {self.n_items} items "
            f"(equal suites: {self.null_mean:.1f} on average, {self.null_q95:.1f} in 95% of draws; p = {self.p:.4f})"
        )


def suite_spread(
    scores: Floats,
    clusters: Sequence[str],
    labels: Sequence[str],
    *,
    aggregate: Aggregate = "mean",
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Spread:
    """Spread between suites with its null distribution and simultaneous pairwise intervals.

    Formula: `max - min` over suites of the score (the mean, or parity). The null permutes the suites' labels within
    each item, whole clusters together, which is what makes equal suites indistinguishable; `p = (1 + b) / (B + 1)`.

    A maximum minus a minimum is positive for equal suites too, and its bootstrap distribution lies above it: a
    percentile interval would exclude 0 although nothing differs. The interval here is read off the simultaneous
    intervals of all pairwise differences instead: the spread is the largest absolute difference, so that, while all of
    them hold, it lies between the largest of their distances from 0 and the largest of their far ends. Where the
    permutation test does not reject equal suites at this level the interval is let down to 0, so that the two never
    say opposite things.

    Args:
        scores: shape (suites, items), every entry a number in [0, 1]: only items that all suites scored.
        clusters: the cluster of each item.
        labels: the suites.
        aggregate: how item scores make a suite's score.
        level: coverage of all pairwise intervals together.
        draws: permutations, and bootstrap draws.
        seed: seed of both, kept in the result.

    Raises:
        ValueError: fewer than two suites, no item, or an entry that is no number.
    """
    if scores.ndim != 2 or scores.shape != (len(labels), len(clusters)) or len(labels) < 2 or not len(clusters):
        raise ValueError(f"scores have shape {scores.shape}: want (suites >= 2, items >= 1)")
    if not np.isfinite(scores).all():
        raise ValueError("scores hold a value that is no number: keep only items that all suites scored")
    sums, sizes = cluster_sums(scores, clusters)
    n_items, own = len(clusters), aggregated(aggregate, scores.mean(axis=1))
    points = 100 * float(own.max() - own.min())
    null = 100 * permuted_spreads(sums, draws, seed, items=n_items, aggregate=aggregate)
    indices = list(itertools.combinations(range(len(labels)), 2))
    left, right = (list(side) for side in zip(*indices, strict=True))
    held = difference_bands(
        scores[left], scores[right], clusters, aggregate=aggregate, level=level, draws=draws, seed=seed
    )
    by_item = scores[left] - scores[right]
    pairs = tuple(
        PairDifference(
            labels[i],
            labels[j],
            100 * float(own[i] - own[j]),
            None if held is None else (100 * held[k][0], 100 * held[k][1]),
            int((np.abs(by_item[k]) > TOLERANCE).sum()),
            int((by_item[k] > TOLERANCE).sum()),
            int((by_item[k] < -TOLERANCE).sum()),
        )
        for k, (i, j) in enumerate(indices)
    )
    p = random_p(int((null >= points - TOLERANCE).sum()), draws)
    ci: tuple[float, float] | None = None
    if held is not None:
        nearest = max(max(low, -high, 0.0) for low, high in held) if p <= 1 - level else 0.0
        farthest = max(max(-low, high) for low, high in held)
        ci = (100 * nearest, 100 * farthest)
    return Spread(
        labels=tuple(labels),
        n_items=n_items,
        n_clusters=len(sizes),
        scores=tuple(float(score) for score in own),
        points=points,
        ci_points=ci,
        null_mean=float(null.mean()),
        null_q95=float(np.quantile(null, 0.95)),
        p=p,
        pairs=pairs,
        level=level,
        draws=draws,
        seed=seed,
    )


def permuted_spreads(sums: Floats, draws: int, seed: int, *, items: int = 1, aggregate: Aggregate = "mean") -> Floats:
    """Max - min of the suites' scores with their labels permuted within every cluster.

    Args:
        sums: shape (suites, clusters): total score of a suite on a cluster.
        draws: how many permutations of everything.
        seed: seed of the permutations.
        items: what totals are divided by; 1 leaves totals.
        aggregate: how item scores make a suite's score.

    Returns:
        Shape (draws,), in score units. Clusters on which all suites agree are not permuted: no label moves them.
    """
    alike = np.ptp(sums, axis=0) <= TOLERANCE
    moving, fixed = sums[:, ~alike].T, float(sums[0, alike].sum())
    clusters, suites = moving.shape
    spreads = np.zeros(draws)
    if not clusters:
        return spreads
    generator = np.random.default_rng(seed)
    chunk = max(1, 2_000_000 // (clusters * suites))
    for start in range(0, draws, chunk):
        rows = min(chunk, draws - start)
        order = np.argsort(generator.random((rows, clusters, suites), dtype=np.float32), axis=2)
        totals = np.take_along_axis(np.broadcast_to(moving, (rows, clusters, suites)), order, axis=2).sum(axis=1)
        spreads[start : start + rows] = np.ptp(aggregated(aggregate, (totals + fixed) / items), axis=1)
    return spreads
