"""Whether "model A is ahead of model B" survives the suite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

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
from safetyrepro.analysis.simultaneous import simultaneous_bands

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

    "A ahead" needs both the adjusted p and the simultaneous interval, and is never said of two models that are both at
    chance. A reversal is certified where both directions hold (intersection-union: p is the larger of the two), each
    in a suite where not both are at chance; a reversal of point scores alone is only named.

    Args:
        scores_a: shape (suites, items), item scores of model A in [0, 1], no missing entries.
        scores_b: the same items for model B.
        clusters: the cluster of each item.
        suites: the suites.
        at_chance: per suite whether both models' intervals hold the chance level.
        level: 1 - alpha.
        draws: sign flips, and bootstrap draws.
        seed: seed of both, kept in the result.

    Raises:
        ValueError: shapes do not fit together, or an entry is no number.

    References:
        R. Berger (1982), Multiparameter Hypothesis Testing and Acceptance Sampling, Technometrics 24, 295-300.
        P. Westfall and S. Young (1993), Resampling-Based Multiple Testing, chapter 2.
    """
    if scores_a.shape != scores_b.shape or scores_a.shape != (len(suites), len(clusters)) or not scores_a.size:
        raise ValueError(f"scores have shapes {scores_a.shape} and {scores_b.shape}: want (suites, items) for both")
    if not (np.isfinite(scores_a).all() and np.isfinite(scores_b).all()):
        raise ValueError("scores hold a value that is no number: keep only items that every suite scored for both")
    alpha = 1 - level
    chance = list(at_chance) if at_chance is not None else [False] * len(suites)
    differences = scores_a - scores_b
    sums, sizes = cluster_sums(differences, clusters)
    norms = np.sqrt((sums**2).sum(axis=1))
    scaled = np.divide(sums, norms[:, np.newaxis], out=np.zeros_like(sums), where=norms[:, np.newaxis] > TOLERANCE)
    observed = scaled.sum(axis=1)
    flipped = sign_flips(len(sizes), draws, seed) @ scaled.T
    highest, lowest = flipped.max(axis=1), flipped.min(axis=1)
    farthest = np.abs(flipped).max(axis=1)
    bands = simultaneous_bands(differences, clusters, level=level, draws=draws, seed=seed)
    needed = math.ceil(1 - math.log2(alpha) - TOLERANCE)
    rows = []
    for c, suite in enumerate(suites):
        p = random_p(int((farthest >= abs(observed[c]) - TOLERANCE).sum()), draws)
        band = None if bands is None else bands[c]
        testable = int((np.abs(sums[c]) > TOLERANCE).sum()) >= needed
        verdict: Verdict = "not told apart"
        if p <= alpha and testable and not chance[c] and band is not None:
            verdict = "A ahead" if band[0] > 0 else "B ahead" if band[1] < 0 else "not told apart"
        rows.append(
            SuiteOrder(
                suite=suite,
                difference_points=100 * float(differences[c].mean()),
                ci_points=None if band is None else (100 * band[0], 100 * band[1]),
                p=p,
                p_a=random_p(int((highest >= observed[c] - TOLERANCE).sum()), draws),
                p_b=random_p(int((-lowest >= -observed[c] - TOLERANCE).sum()), draws),
                a_better=int((differences[c] > TOLERANCE).sum()),
                b_better=int((differences[c] < -TOLERANCE).sum()),
                testable=testable,
                both_at_chance=chance[c],
                verdict=verdict,
            )
        )
    eligible = [row for row in rows if not row.both_at_chance and row.testable]
    reversal_p = max(min(row.p_a for row in eligible), min(row.p_b for row in eligible)) if eligible else 1.0
    signs = {math.copysign(1, row.difference_points) for row in rows if abs(row.difference_points) > TOLERANCE}
    return ModelOrder(len(clusters), len(sizes), tuple(rows), reversal_p, len(signs) == 2, alpha, draws, seed)
