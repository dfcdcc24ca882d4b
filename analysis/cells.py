"""Cell scores: a model in a configuration, two models on the items that both scored, all models on shared items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from safetyrepro.analysis.aggregate import Aggregate, aggregated
from safetyrepro.analysis.resampling import DRAWS, LEVEL, SEED, TOLERANCE, Floats, alike_slack, cluster_sums, expansion

TIE = 1e-12
"""Cell scores closer than this are tied; sums of whole item scores are compared exactly, being exact as floats."""
FEWEST_SHARED = 5
"""Where two models were given different items, fewer shared ones than this are no comparison."""
CHUNK = 4_000_000
"""Numbers of a block of draws: 32 MB."""


@dataclass(frozen=True)
class PairCells:
    """Two models over the configurations, each compared on the items that both scored in it."""

    difference: Floats
    """Shape (configurations,): cell score of A minus that of B; NaN where the configuration is dropped."""
    n_items: NDArray[np.int64]
    """Items that both scored."""
    left_out: NDArray[np.int64]
    """Items that only one of them scored."""
    reasons: tuple[str | None, ...]
    """Why a configuration is dropped; None where it is compared."""

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which configurations are compared."""
        return np.array([reason is None for reason in self.reasons], dtype=np.bool_)


def pair_cells(a: Floats, b: Floats, *, kind: Aggregate = "mean", min_shared: int = FEWEST_SHARED) -> PairCells:
    """Compare two models configuration by configuration.

    Args:
        a: shape (configurations, items), item scores of model A, NaN where there is none.
        b: the same for model B.
        kind: how item scores make a cell's score.
        min_shared: where the two were given different items, fewer shared ones than this drop the configuration.
    """
    has_a, has_b = ~np.isnan(a), ~np.isnan(b)
    shared = has_a & has_b
    n, left_out = shared.sum(axis=1), (has_a ^ has_b).sum(axis=1)
    items_a, items_b = has_a.sum(axis=1), has_b.sum(axis=1)
    reasons = tuple(
        _reason(int(count), int(out), bool(of_a), bool(of_b), min_shared)
        for count, out, of_a, of_b in zip(n, left_out, items_a, items_b, strict=True)
    )
    kept = np.array([reason is None for reason in reasons])
    return PairCells(_differences(a, b, shared, n, kept, kind), n, left_out, reasons)


def _differences(
    a: Floats, b: Floats, shared: NDArray[np.bool_], n: NDArray[np.int64], kept: NDArray[np.bool_], kind: Aggregate
) -> Floats:
    count = np.where(kept, n, 1)
    if kind == "mean":
        difference: Floats = np.where(shared, a - b, 0.0).sum(axis=1) / count
    else:
        first, second = (aggregated(kind, np.where(shared, x, 0.0).sum(axis=1) / count) for x in (a, b))
        difference = first - second
    return np.where(kept, difference, np.nan)


def _reason(shared: int, left_out: int, has_a: bool, has_b: bool, min_shared: int) -> str | None:
    if not has_a or not has_b:
        return "neither has a score" if not (has_a or has_b) else f"{'b' if has_a else 'a'} has no score"
    if not shared:
        return "no item was scored for both"
    if left_out and shared < min_shared:
        return f"{shared} shared items, {min_shared} are the least"
    return None


def common_cells(scores: Floats, *, kind: Aggregate = "mean", min_shared: int = FEWEST_SHARED) -> Floats:
    """Cell scores on the items that all models scored, by which the models are ranked.

    Args:
        scores: shape (models, configurations, items), NaN where there is none.
        kind: how item scores make a cell's score.
        min_shared: as in `pair_cells`.

    Returns:
        Shape (models, configurations); a configuration without a valid score for every model is NaN throughout.
    """
    has = ~np.isnan(scores)
    shared = has.all(axis=0)
    n = shared.sum(axis=1)
    kept = (n > 0) & ((n >= min_shared) | (has.any(axis=0).sum(axis=1) == n))
    means = np.where(shared, scores, 0.0).sum(axis=2) / np.where(kept, n, 1)
    return np.where(kept, aggregated(kind, means), np.nan)


def own_cells(scores: Floats, *, kind: Aggregate = "mean") -> Floats:
    """Cell scores of each model on all items that it was scored on, shape (models, configurations); NaN without any."""
    has = ~np.isnan(scores)
    n = has.sum(axis=2)
    means = np.divide(np.where(has, scores, 0.0).sum(axis=2), n, out=np.full(n.shape, np.nan), where=n > 0)
    return aggregated(kind, means)


def masked_sums(values: Floats, clusters: tuple[str, ...]) -> tuple[Floats, Floats]:
    """Sums and numbers of present values by cluster.

    Args:
        values: shape (k, items), NaN where missing.
        clusters: the cluster of each item.

    Returns:
        Both of shape (clusters, k), clusters in sorted order.
    """
    has = ~np.isnan(values)
    sums, _ = cluster_sums(np.where(has, values, 0.0), clusters)
    sizes, _ = cluster_sums(has.astype(np.float64), clusters)
    return sums.T.copy(), sizes.T.copy()


def mean_intervals(
    scores: Floats, clusters: tuple[str, ...], *, level: float = LEVEL, draws: int = DRAWS, seed: int = SEED
) -> Floats:
    """Intervals of many means at once, each as `mean.mean_score` makes it (expanded percentile, cluster bootstrap).

    Args:
        scores: shape (k, items), NaN where missing.
        clusters: the cluster of each item.
        level: coverage of each interval by itself.
        draws: bootstrap draws.
        seed: their seed.

    Returns:
        Shape (k, 2), NaN where there is no score or only one cluster.
    """
    sums, sizes = masked_sums(scores, clusters)
    groups, k = sums.shape
    found = np.full((k, 2), np.nan)
    scored = (sizes > 0).sum(axis=0)
    if groups < 2:
        return found
    generator = np.random.default_rng(seed)
    means = np.full((draws, k), np.nan)
    rows = max(1, CHUNK // groups)
    weights = sizes[:, :1] if (sizes == sizes[:, :1]).all() else sizes
    for start in range(0, draws, rows):
        block = min(rows, draws - start)
        counts = generator.multinomial(groups, np.full(groups, 1 / groups), size=block).astype(np.float64)
        weight = np.broadcast_to(counts @ weights, (block, k))
        np.divide(counts @ sums, weight, out=means[start : start + block], where=weight > 0)
    for column in range(k):
        count = int(scored[column])
        if count < 2:
            continue
        own = means[~np.isnan(means[:, column]), column]
        centre = float(sums[:, column].sum() / sizes[:, column].sum())
        if float(np.ptp(own)) <= TOLERANCE:
            slack = alike_slack(count, level)
            found[column] = centre * (1 - slack), centre * (1 - slack) + slack
            continue
        tail = float(stats.norm.cdf(stats.norm.ppf((1 - level) / 2) * expansion(count, level)))
        found[column] = np.quantile(own, [tail, 1 - tail])
    return found
