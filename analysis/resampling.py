"""Draws that every interval and test of this package shares: whole clusters, recorded seeds, reproducible.

Items of one cluster are near copies of each other, so that a draw takes or flips whole clusters; with one item a
cluster this is the ordinary bootstrap and the ordinary sign-flip test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]

DRAWS = 9_999
"""Draws of every test and interval: the smallest p that can be printed is 1 / 10,000."""
SEED = 20_260_101
LEVEL = 0.95
TOLERANCE = 1e-9
"""Scores are sums of a few floats: what is closer than this is equal."""


def cluster_sums(values: Floats, clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """Sum values over the items of each cluster.

    Args:
        values: shape (k, items).
        clusters: the cluster of each item.

    Returns:
        Sums of shape (k, clusters) and the clusters' sizes of shape (clusters,), clusters in sorted order.
    """
    names, index = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    membership = np.zeros((len(clusters), len(names)))
    membership[np.arange(len(clusters)), index] = 1.0
    return values @ membership, membership.sum(axis=0)


@lru_cache(maxsize=2)
def bootstrap_counts(clusters: int, draws: int = DRAWS, seed: int = SEED) -> Floats:
    """How often each cluster is drawn, shape (draws, clusters); every row sums to `clusters`."""
    generator = np.random.default_rng(seed)
    counts = generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=draws).astype(np.float64)
    counts.flags.writeable = False
    return counts


@lru_cache(maxsize=2)
def sign_flips(clusters: int, draws: int = DRAWS, seed: int = SEED) -> Floats:
    """A sign for each cluster, shape (draws, clusters), +1 or -1 with equal chance."""
    generator = np.random.default_rng(seed)
    signs = generator.integers(0, 2, size=(draws, clusters)).astype(np.float64) * 2 - 1
    signs.flags.writeable = False
    return signs


def expansion(clusters: int, level: float = LEVEL) -> float:
    """By how much a bootstrap interval of a mean over few clusters has to be widened.

    The bootstrap uses the plug-in variance (too small by (G - 1) / G) and has no term for estimating it. The factor
    `sqrt(G / (G - 1)) * t[G - 1] / z` makes up for both: for a symmetric distribution the interval is then Student's.

    References:
        T. Hesterberg (2015), What Teachers Should Know About the Bootstrap, The American Statistician 69(4), 3.2.
    """
    tail = (1 + level) / 2
    return float(math.sqrt(clusters / (clusters - 1)) * stats.t.ppf(tail, clusters - 1) / stats.norm.ppf(tail))


def alike_slack(clusters: int, level: float = LEVEL) -> float:
    """How much of the population may be unlike what all `clusters` drawn clusters showed without exception.

    Where nothing varies a bootstrap has no width, which would claim certainty. If a share m of all clusters were
    unlike these, none among G would be seen with probability (1 - m) ** G; this is the m at which that is 1 - level
    (the "rule of three": about 3 / G at 95%).
    """
    return float(1 - (1 - level) ** (1 / clusters))


def random_p(exceeding: int, draws: int) -> float:
    """Random test: p = (1 + b) / (B + 1): the observed arrangement is one of the draws, so that p is never 0."""
    return (1 + exceeding) / (draws + 1)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjusted p values, in the order given.

    References:
        S. Holm (1979), A Simple Sequentially Rejective Multiple Test Procedure, Scand. J. Statistics 6, 65-70.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    worst = 0.0
    for rank, i in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = worst
    return tuple(adjusted)
