"""What a paired comparison can show: the smallest difference it detects, and the items that a difference needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from safetyrepro.analysis.resampling import TOLERANCE, Floats

ALPHA = 0.05
POWER = 0.8
ROUNDING = 1e-6
"""A number of items this little over a whole one is that whole one."""


@dataclass(frozen=True)
class Discordance:
    """How much two models' item scores differ, averaged over configurations."""

    n_items: float
    share: float
    """Mean squared item difference: for right and wrong, the share of items on which exactly one model is right."""
    reach: float
    """Mean absolute item difference: the difference of means if all of them pointed the same way."""
    design_effect: float
    """Variance of cluster sums over that of independent items (1 where each item is its own cluster)."""


def discordance(items: Floats, sums: Floats) -> Discordance | None:
    """Summarise two models' differences over configurations; None where no item was scored for both.

    Args:
        items: shape (configurations, items): item differences, NaN where missing.
        sums: shape (clusters, configurations): their sums by cluster.
    """
    n = (~np.isnan(items)).sum(axis=1)
    if not (n > 0).any():
        return None
    kept = n > 0
    squares, size = np.nansum(items**2, axis=1)[kept], n[kept]
    by_cluster = (sums**2).sum(axis=0)[kept]
    total = float(squares.sum())
    return Discordance(
        n_items=float(size.mean()),
        share=float((squares / size).mean()),
        reach=float((np.nansum(np.abs(items), axis=1)[kept] / size).mean()),
        design_effect=float(by_cluster.sum()) / total if total > TOLERANCE else 1.0,
    )


def minimum_detectable(found: Discordance, *, critical: float | None = None, power: float = POWER) -> float | None:
    """Smallest difference of means that a two-sided paired test detects with `power`, in score units.

    Formula: the difference d that solves `d sqrt(n) = z_crit sqrt(psi) + z_power sqrt(psi - d^2)`, psi the discordant
    share and n the items over the design effect; with 0 and 1 as scores it is McNemar's test.

    Args:
        found: the pair's own discordance.
        critical: critical value of the test, NaN where there is none; None takes 1.96 (alpha 0.05, unadjusted).
        power: probability to detect it.

    Returns:
        None where even all discordance pointing the same way would not reach the power, or there is no test.

    References:
        R. Connor (1987), Sample Size for Testing Differences in Proportions for the Paired-Sample Design, Biometrics
        43, 207-211.
    """
    z_crit = float(stats.norm.ppf(1 - ALPHA / 2)) if critical is None else critical
    z_power = float(stats.norm.ppf(power))
    n, psi = found.n_items / max(found.design_effect, TOLERANCE), found.share

    def short(d: float) -> float:
        return d * math.sqrt(n) - z_crit * math.sqrt(psi) - z_power * math.sqrt(max(psi - d * d, 0.0))

    if found.reach <= TOLERANCE or math.isnan(z_crit) or short(found.reach) < 0:
        return None
    return float(optimize.brentq(short, 0.0, found.reach))


def items_needed(
    difference: float,
    discordant: float,
    *,
    design_effect: float = 1.0,
    critical: float | None = None,
    power: float = POWER,
) -> int:
    """Items that a two-sided paired test needs to detect `difference` with `power`.

    Formula: `(z_crit sqrt(psi) + z_power sqrt(psi - d^2))^2 / d^2`, times the design effect (Connor 1987).

    Args:
        difference: difference of means to detect, in score units, over 0.
        discordant: share of items on which exactly one model is right (mean squared item difference), at least
            `difference`.
        design_effect: how many clustered items are worth one independent item.
        critical: critical value of the test; None takes 1.96.
        power: probability to detect it.

    Raises:
        ValueError: the difference is not over 0, or larger than the discordant share allows.
    """
    if not 0 < difference <= discordant <= 1:
        raise ValueError(f"difference is {difference:g}: want over 0 and at most the discordant share, {discordant:g}")
    z_crit = float(stats.norm.ppf(1 - ALPHA / 2)) if critical is None else critical
    z_power = float(stats.norm.ppf(power))
    root = z_crit * math.sqrt(discordant) + z_power * math.sqrt(discordant - difference**2)
    return math.ceil(design_effect * root**2 / difference**2 - ROUNDING)
