"""Intervals of several differences of scores that hold all at once (max-T bootstrap over clusters)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from safetyrepro.analysis.aggregate import Aggregate, folded_difference, parity_parts
from safetyrepro.analysis.resampling import (
    DRAWS,
    LEVEL,
    SEED,
    TOLERANCE,
    Floats,
    alike_slack,
    bootstrap_counts,
    cluster_sums,
    expansion,
)


def simultaneous_bands(
    differences: Floats,
    clusters: Sequence[str],
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = SEED,
) -> list[tuple[float, float]] | None:
    """Intervals for k mean differences on the same items, which hold together with probability `level`.

    Formula: `d_j +/- q * f * se_j`, where q is the `level` quantile over draws of `max_j |d*_j - d_j| / se_j`, se_j
    the bootstrap's standard error and f the widening for few clusters (`resampling.expansion`). Joint draws keep the
    correlation between the differences, so that the intervals are no wider than they must be.

    Differences that are the same on every cluster have no bootstrap width. They get `d (1 - m) +/- m`, with m the share
    of clusters unlike these in any of them that could have stayed unseen, and as a group their part of the error (1 / k
    each); the others keep the rest.

    Args:
        differences: shape (k, items), in [-1, 1].
        clusters: the cluster of each item.
        level: probability that all k intervals hold.
        draws: bootstrap draws.
        seed: their seed.

    Returns:
        (low, high) per difference, within [-1, 1]; None with fewer than two clusters.

    References:
        P. Westfall and S. Young (1993), Resampling-Based Multiple Testing, chapter 2.
    """
    sums, sizes = cluster_sums(differences, clusters)
    groups = len(sizes)
    if groups < 2:
        return None
    centre = differences.mean(axis=1)
    counts = bootstrap_counts(groups, draws, seed)
    deviations = (counts @ sums.T) / (counts @ sizes)[:, np.newaxis] - centre
    errors = deviations.std(axis=0)
    moving = errors > TOLERANCE
    alpha_each = (1 - level) / len(differences)
    half = np.zeros(len(differences))
    if moving.any():
        level_moving = 1 - alpha_each * int(moving.sum())
        largest = (np.abs(deviations[:, moving]) / errors[moving]).max(axis=1)
        half[moving] = np.quantile(largest, level_moving) * expansion(groups, level_moving) * errors[moving]
    slack = 0.0 if moving.all() else alike_slack(groups, 1 - alpha_each * int((~moving).sum()))
    middle = np.where(moving, centre, centre * (1 - slack))
    half[~moving] = slack
    return [(float(max(-1.0, m - h)), float(min(1.0, m + h))) for m, h in zip(middle, half, strict=True)]


def difference_bands(
    first: Floats,
    second: Floats,
    clusters: Sequence[str],
    *,
    aggregate: Aggregate = "mean",
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = SEED,
) -> list[tuple[float, float]] | None:
    """Intervals for k differences of cell scores on the same items, which hold together with probability `level`.

    Parities: simultaneous intervals of all 2k means that they are made of (`aggregate.parity_parts`), and what those
    reach. Away from an even split this is twice the interval of the difference in means, a little widened.

    Args:
        first: shape (k, items), item scores in [0, 1].
        second: shape (k, items), the same items under another suite or model.
        clusters: the cluster of each item.
        aggregate: how item scores make a cell's score.
        level: probability that all k intervals hold.
        draws: bootstrap draws.
        seed: their seed.

    Returns:
        (low, high) per difference `first - second`, within [-1, 1]; None with fewer than two clusters.
    """
    if aggregate == "mean":
        return simultaneous_bands(first - second, clusters, level=level, draws=draws, seed=seed)
    held = simultaneous_bands(np.vstack(parity_parts(first, second)), clusters, level=level, draws=draws, seed=seed)
    if held is None:
        return None
    return [folded_difference(u, w) for u, w in zip(held[: len(first)], held[len(first) :], strict=True)]
