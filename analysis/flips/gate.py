"""A gate for releases: is the rate of negative flips shown to be below a margin?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from safetyrepro.analysis.flips.pairing import Bools
from safetyrepro.analysis.resampling import cluster_sums

ALPHA = 0.05
GateVerdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]


@dataclass(frozen=True)
class Gate:
    """One-sided non-inferiority of a rate of negative flips."""

    metric: str
    margin: float
    verdict: GateVerdict
    """PASS: shown to be below the margin. FAIL: shown to be above it. INCONCLUSIVE: neither."""
    rate: float | None
    upper: float
    """One-sided 1 - alpha upper confidence bound: PASS needs it below the margin."""
    lower: float
    """One-sided lower bound at the level of FAIL, which needs it above the margin."""
    p_below: float
    """p of "the rate is at least the margin"."""
    p_above: float
    """p of "the rate is at most the margin"."""
    items: int
    effective_items: float
    """Independent items that near copies are worth."""
    items_needed: int
    """Items that would pass the margin without a single flip."""
    alpha: float
    method: str


def non_inferiority(
    flips: Bools,
    clusters: Sequence[str],
    margin: float,
    *,
    metric: str = "nfr",
    alpha: float = ALPHA,
    failing: float | None = None,
) -> Gate:
    """Test a rate of negative flips against a margin, from both sides.

    Independent items: exact binomial bounds (Clopper and Pearson). Clusters: the same bounds at an effective number of
    items, `n / deff * (t[n-1] / t[G-1])^2` with the design effect of the linearised variance over G clusters, never
    more than n (Korn and Graubard). Without a flip no design effect can be estimated; then near copies count as
    one item, `(sum n_g)^2 / sum n_g^2`.

    Args:
        flips: shape (items,); for the rate relative to old-correct items, those items alone.
        clusters: the cluster of each item.
        margin: largest acceptable rate, in (0, 1).
        metric: what the rate is called.
        alpha: one-sided level of PASS, and of FAIL.
        failing: level of FAIL instead, where one of several tests that fail is enough.

    References:
        C. Clopper and E. Pearson (1934), Biometrika 26, 404-413.
        E. Korn and B. Graubard (1998), Confidence intervals for proportions with small expected number of positive
        counts estimated from survey data, Survey Methodology 24, 193-201.
    """
    if not 0 < margin < 1:
        raise ValueError(f"margin is {margin}: want a share between 0 and 1")
    n = len(flips)
    needed = math.ceil(math.log(alpha) / math.log1p(-margin))
    if not n:
        return Gate(metric, margin, "INCONCLUSIVE", None, 1.0, 0.0, 1.0, 1.0, 0, 0.0, needed, alpha, "none: no item")
    rate = float(flips.mean())
    clustered = len(set(clusters)) < n
    effective = _effective(flips, clusters, alpha) if clustered else float(n)
    hits = rate * effective
    misses = effective - hits
    upper = 1.0 if misses <= 0 else float(stats.beta.ppf(1 - alpha, hits + 1, misses))
    lower = 0.0 if hits <= 0 else float(stats.beta.ppf(alpha if failing is None else failing, hits, misses + 1))
    p_below = 1.0 if misses <= 0 else float(stats.beta.sf(margin, hits + 1, misses))
    p_above = 1.0 if hits <= 0 else float(stats.beta.cdf(margin, hits, misses + 1))
    verdict: GateVerdict = "PASS" if upper < margin else "FAIL" if lower > margin else "INCONCLUSIVE"
    method = "Clopper-Pearson at the effective number of items (Korn-Graubard)" if clustered else "Clopper-Pearson"
    return Gate(metric, margin, verdict, rate, upper, lower, p_below, p_above, n, effective, needed, alpha, method)


def _effective(flips: Bools, clusters: Sequence[str], alpha: float) -> float:
    sums, sizes = cluster_sums(flips.astype(np.float64)[np.newaxis, :], clusters)
    n, groups, rate = len(flips), len(sizes), float(flips.mean())
    alike = float(sizes.sum() ** 2 / (sizes**2).sum())
    if groups < 2 or rate in (0.0, 1.0):
        return alike
    variance = float(((sums[0] - rate * sizes) ** 2).sum()) * groups / (groups - 1) / n**2
    design = variance * n / (rate * (1 - rate))
    correction = float(stats.t.ppf(1 - alpha, n - 1) / stats.t.ppf(1 - alpha, groups - 1)) ** 2
    return min(float(n), n / max(design, 1e-12) * correction)
