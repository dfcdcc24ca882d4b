"""Implicit weights: what a judge's overall mark goes with, among its own marks on the factors.

Descriptive, not causal: one judge's marks share a halo. Targeted edits (`edits.py`) carry the causal claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from safetyrepro.analysis.resampling import (
    DRAWS,
    LEVEL,
    SEED,
    TOLERANCE,
    Floats,
    bootstrap_counts,
    cluster_sums,
    expansion,
)

FEWEST_ITEMS = 20
"""Below this the weights of five factors are not estimated (ours)."""
COLLINEAR = 10.0
"""A variance inflation over this is called collinear, as is usual."""
_CHUNK = 1_000


@dataclass(frozen=True)
class Weight:
    """One predictor's standardised coefficient."""

    estimate: float | None
    """Standard deviations of the outcome per standard deviation of the predictor; None where it does not vary."""
    ci: tuple[float, float] | None
    alone: float | None
    """Its plain correlation with the outcome, the others left out of account."""
    inflation: float | None
    """Variance inflation: 1 / (1 - R2) of this predictor on the others; over 10 its weight is hardly its own."""


@dataclass(frozen=True)
class Weights:
    """A standardised regression, clustered by item."""

    rows: int
    items: int
    weights: dict[str, Weight]
    r_squared: float
    halo: float | None
    """Share of the predictors' variance on their first principal axis; 1 / k where they are unrelated, 1 where they
    are one and the same mark. None with a single predictor."""
    constant: tuple[str, ...]
    """Predictors that do not vary: their weight is undefined."""
    singular_draws: int
    level: float
    draws: int
    seed: int

    @property
    def collinear(self) -> tuple[str, ...]:
        """Predictors whose inflation is over `COLLINEAR`."""
        return tuple(n for n, w in self.weights.items() if w.inflation is not None and w.inflation > COLLINEAR)


def standardised_weights(
    predictors: Floats,
    outcome: Floats,
    names: Sequence[str],
    clusters: Sequence[str],
    *,
    fewest: int = FEWEST_ITEMS,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Weights | str:
    """Standardised least-squares coefficients with a cluster bootstrap.

    Formula: `beta = Rxx^-1 rxy` from the correlations over rows, both orders pooled. Items are drawn with replacement,
    all rows of an item together; every draw is standardised anew, so that the interval holds the uncertainty of the
    standard deviations too. Percentile interval with the widening for few items (`resampling.expansion`).

    Args:
        predictors: shape (rows, k), no missing entries.
        outcome: shape (rows,).
        names: the predictors.
        clusters: the item of each row.
        fewest: the number of items that is needed.
        level: coverage of each interval by itself.
        draws: bootstrap draws.
        seed: their seed.

    Returns:
        The weights, or the reason why there are none: too few items, an outcome that does not vary, or predictors of
        which one is a sum of the others.
    """
    items = len(set(clusters))
    if items < fewest:
        return f"{items} items with all marks; at least {fewest} are needed"
    if float(np.ptp(outcome)) <= TOLERANCE:
        return "the overall mark is the same in all rows"
    moving = [k for k in range(predictors.shape[1]) if float(np.ptp(predictors[:, k])) > TOLERANCE]
    if not moving:
        return "no factor's mark varies"
    x = predictors[:, moving]
    moments = _moments(x, outcome, clusters)
    beta, r_squared, correlations = _solve(moments.sum(axis=0)[None, :], len(moving))
    if not np.isfinite(beta).all():
        return "the factors' marks are not independent: one is a sum of others, so that weights cannot be told apart"
    counts = bootstrap_counts(items, draws, seed)
    solved = [_solve(counts[s : s + _CHUNK] @ moments, len(moving))[0] for s in range(0, draws, _CHUNK)]
    drawn = np.concatenate(solved)
    defined = drawn[np.isfinite(drawn).all(axis=1)]
    lost = draws - len(defined)
    tail = float(stats.norm.cdf(stats.norm.ppf((1 - level) / 2) * expansion(items, level)))
    inverse = np.linalg.inv(correlations[0][:-1, :-1])
    weights = {name: Weight(None, None, None, None) for name in names}
    for j, k in enumerate(moving):
        low, high = np.quantile(defined[:, j], [tail, 1 - tail]) if lost < draws / 2 else (np.nan, np.nan)
        weights[names[k]] = Weight(
            estimate=float(beta[0, j]),
            ci=None if np.isnan(low) else (float(low), float(high)),
            alone=float(correlations[0][j, -1]),
            inflation=float(inverse[j, j]),
        )
    axes = np.linalg.eigvalsh(correlations[0][:-1, :-1])
    return Weights(
        rows=len(outcome),
        items=items,
        weights=weights,
        r_squared=float(r_squared[0]),
        halo=float(axes[-1] / axes.sum()) if len(moving) > 1 else None,
        constant=tuple(name for k, name in enumerate(names) if k not in moving),
        singular_draws=lost,
        level=level,
        draws=draws,
        seed=seed,
    )


def _moments(x: Floats, y: Floats, clusters: Sequence[str]) -> Floats:
    """Per item: rows, sums and sums of products of (x, y), centred first; shape (items, 1 + p + p * p)."""
    z = np.column_stack([x, y])
    z = z - z.mean(axis=0)
    products = (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)
    sums, sizes = cluster_sums(np.column_stack([z, products]).T, clusters)
    return np.column_stack([sizes, sums.T])


def _solve(totals: Floats, k: int) -> tuple[Floats, Floats, Floats]:
    """Coefficients (draws, k), R2 (draws,) and correlations (draws, k + 1, k + 1); NaN where they are undefined."""
    p = k + 1
    n = totals[:, 0][:, None]
    means = totals[:, 1 : 1 + p] / n
    covariance = (totals[:, 1 + p :] / n).reshape(-1, p, p) - means[:, :, None] * means[:, None, :]
    sds = np.sqrt(np.clip(np.diagonal(covariance, axis1=1, axis2=2), 0, None))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations = covariance / (sds[:, :, None] * sds[:, None, :])
    good = np.asarray((sds > TOLERANCE).all(axis=1))
    safe = np.where(good[:, None, None], correlations, np.eye(p))
    good &= np.linalg.det(safe[:, :k, :k]) > TOLERANCE
    safe = np.where(good[:, None, None], safe, np.eye(p))
    beta = np.linalg.solve(safe[:, :k, :k], safe[:, :k, k:])[:, :, 0]
    r_squared = (beta * safe[:, :k, k]).sum(axis=1)
    return np.where(good[:, None], beta, np.nan), np.where(good, r_squared, np.nan), safe
