"""Whether "model A is ahead of model B" survives the suite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from safetyrepro.analysis.aggregate import Aggregate, aggregated, parity_parts
from safetyrepro.analysis.resampling import (
    DRAWS,
    LEVEL,
    SEED,
    TOLERANCE,
    Floats,
    cluster_sums,
    random_p,
    sign_flips,
)
from safetyrepro.analysis.simultaneous import difference_bands

Verdict = Literal["A ahead", "B ahead", "not told apart"]


@dataclass(frozen=True)
class SuiteOrder:
    """Two models under one suite."""

    suite: str
    difference_points: float
    """Score of A minus score of B, in points of 100."""
    ci_points: tuple[float, float] | None
    """Interval that holds for all suites at once."""
    p: float
    """Two-sided, adjusted over the suites."""
    p_a: float
    """One-sided for "A ahead", adjusted over the suites."""
    p_b: float
    a_better: int
    """Items on which A scores higher."""
    b_better: int
    testable: bool
    """Whether the clusters that favour either model are enough for p to reach the level at all."""
    both_at_chance: bool
    verdict: Verdict


@dataclass(frozen=True)
class ModelOrder:
    """Two models under several suites, on the items that every suite scored for both."""

    n_items: int
    n_clusters: int
    suites: tuple[SuiteOrder, ...]
    reversal_p: float
    """p of a certified reversal: the larger of the two directions' smallest adjusted one-sided p."""
    point_reversal: bool
    """Whether the point scores put A ahead in one suite and B in another (which noise alone does too)."""
    alpha: float
    draws: int
    seed: int

    def count(self, verdict: Verdict) -> int:
        """How many suites end with `verdict`."""
        return sum(suite.verdict == verdict for suite in self.suites)


def model_order(
    scores_a: Floats,
    scores_b: Floats,
    clusters: Sequence[str],
    suites: Sequence[str],
    *,
    aggregate: Aggregate = "mean",
    at_chance: Sequence[bool] | None = None,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = SEED,
) -> ModelOrder:
    """Order of two models by suite, with one family-wise level over the suites.

    Formula: with D[g, c] the sum over cluster g of A's minus B's item scores under suite c,
    `T_c = sum_g D[g, c] / sqrt(sum_g D[g, c]^2)`. Under "no difference in any suite" a cluster's differences could as
    well have had the other sign, in all suites at once: signs are flipped by whole clusters jointly over suites, which
    keeps the suites' correlation and leaves the denominator as it is. The adjusted p of suite c is the share of draws
    whose largest T over the suites reaches T_c (single-step max-T), `(1 + b) / (B + 1)`; two-sided with |T|.

    Parity is no sum of item differences. Its difference has the sign of `u w`, two means that sign flips can test
    (`aggregate.parity_parts`): "A ahead" holds where both are above 0 or both below, and its p is
    `min(max(p_u+, p_w+), max(p_u-, p_w-))`, each p adjusted over the suites; two-sided it is twice the smaller one.

    "A ahead" needs both the adjusted p and the simultaneous interval, and is never said of two models that are both at
    chance. A reversal is certified where both directions hold (intersection-union: p is the larger of the two), each
    in a suite where not both are at chance; a reversal of point scores alone is only named.

    Args:
        scores_a: shape (suites, items), item scores of model A in [0, 1], no missing entries.
        scores_b: the same items for model B.
        clusters: the cluster of each item.
        suites: the suites.
        aggregate: how item scores make a suite's score.
        at_chance: per suite whether both models' intervals hold the chance level.
        level: 1 - alpha.
        draws: sign flips, and bootstrap draws.
        seed: seed of both, kept in the result.

    Raises:
        ValueError: shapes do not fit together, or an entry is no number.

    References:
        M. Gail and R. Simon (1985), Testing for Qualitative Interactions, Biometrics 41, 361-372 (signs of two means).
        R. Berger (1982), Multiparameter Hypothesis Testing and Acceptance Sampling, Technometrics 24, 295-300.
        P. Westfall and S. Young (1993), Resampling-Based Multiple Testing, chapter 2.
    """
    if scores_a.shape != scores_b.shape or scores_a.shape != (len(suites), len(clusters)) or not scores_a.size:
        raise ValueError(f"scores have shapes {scores_a.shape} and {scores_b.shape}: want (suites, items) for both")
    if not (np.isfinite(scores_a).all() and np.isfinite(scores_b).all()):
        raise ValueError("scores hold a value that is no number: keep only items that every suite scored for both")
    alpha = 1 - level
    chance = list(at_chance) if at_chance is not None else [False] * len(suites)
    by_item = scores_a - scores_b
    estimates = aggregated(aggregate, scores_a.mean(axis=1)) - aggregated(aggregate, scores_b.mean(axis=1))
    held = difference_bands(scores_a, scores_b, clusters, aggregate=aggregate, level=level, draws=draws, seed=seed)
    parts = (by_item,) if aggregate == "mean" else parity_parts(scores_a, scores_b)
    sums = [cluster_sums(part, clusters)[0] for part in parts]
    n_clusters = sums[0].shape[1]
    by_mean = len(sums) == 1
    p_above, p_below, p_both = _mean_p(sums[0], draws, seed) if by_mean else _parity_p(sums[0], sums[1], draws, seed)
    needed = math.ceil(1 - math.log2(alpha) - TOLERANCE)
    differing = np.min([(np.abs(part) > TOLERANCE).sum(axis=1) for part in sums], axis=0)
    rows = []
    for c, suite in enumerate(suites):
        p = float(p_both[c])
        band = None if held is None else held[c]
        testable = int(differing[c]) >= needed
        verdict: Verdict = "not told apart"
        if p <= alpha and testable and not chance[c] and band is not None:
            verdict = "A ahead" if band[0] > 0 else "B ahead" if band[1] < 0 else "not told apart"
        rows.append(
            SuiteOrder(
                suite=suite,
                difference_points=100 * float(estimates[c]),
                ci_points=None if band is None else (100 * band[0], 100 * band[1]),
                p=p,
                p_a=float(p_above[c]),
                p_b=float(p_below[c]),
                a_better=int((by_item[c] > TOLERANCE).sum()),
                b_better=int((by_item[c] < -TOLERANCE).sum()),
                testable=testable,
                both_at_chance=chance[c],
                verdict=verdict,
            )
        )
    eligible = [row for row in rows if not row.both_at_chance and row.testable]
    reversal_p = max(min(row.p_a for row in eligible), min(row.p_b for row in eligible)) if eligible else 1.0
    signs = {math.copysign(1, row.difference_points) for row in rows if abs(row.difference_points) > TOLERANCE}
    return ModelOrder(len(clusters), n_clusters, tuple(rows), reversal_p, len(signs) == 2, alpha, draws, seed)


def _mean_p(sums: Floats, draws: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Of each suite's mean over clusters, the adjusted p for above 0, for below 0 and for either, shape (suites,)."""
    norms = np.sqrt((sums**2).sum(axis=1))[:, np.newaxis]
    scaled = np.divide(sums, norms, out=np.zeros_like(sums), where=norms > TOLERANCE)
    observed, flipped = scaled.sum(axis=1), sign_flips(sums.shape[1], draws, seed) @ scaled.T
    highest, lowest, farthest = flipped.max(axis=1), flipped.min(axis=1), np.abs(flipped).max(axis=1)
    return (
        np.array([random_p(int((highest >= t - TOLERANCE).sum()), draws) for t in observed]),
        np.array([random_p(int((-lowest >= -t - TOLERANCE).sum()), draws) for t in observed]),
        np.array([random_p(int((farthest >= abs(t) - TOLERANCE).sum()), draws) for t in observed]),
    )


def _parity_p(u: Floats, w: Floats, draws: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """The same of a difference of parities, from the cluster sums of its two parts."""
    (u_above, u_below, _), (w_above, w_below, _) = _mean_p(u, draws, seed), _mean_p(w, draws, seed)
    above = np.minimum(np.maximum(u_above, w_above), np.maximum(u_below, w_below))
    below = np.minimum(np.maximum(u_above, w_below), np.maximum(u_below, w_above))
    return above, below, np.minimum(1.0, 2 * np.minimum(above, below))
