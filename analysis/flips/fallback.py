"""Which signal to route by: curves of every signal between oracle and chance, and what a threshold reaches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.flips.added_value import FEWEST_FLIPS
from safetyrepro.analysis.flips.crossvalidation import Fold
from safetyrepro.analysis.flips.routing import (
    OutOfFold,
    RoutingCurve,
    Threshold,
    fraction_for,
    model_runs,
    oracle_curve,
    out_of_fold,
    random_curve,
    routing_curve,
    routing_folds,
    threshold_for,
)
from safetyrepro.analysis.flips.signals import Needs, SignalTable, kind_of


@dataclass(frozen=True)
class SignalFallback:
    """Routing by one signal."""

    signal: str
    needs: Needs
    undefined: int
    """Items on which it is not defined; they go to the old model first."""
    curve: RoutingCurve
    excess: float | None
    """`(area - oracle) / (random - oracle)`: 0 knows the flips, 1 knows nothing."""
    fraction_in_sample: float
    """Share to route for the target on these very items: too good to be true."""
    threshold: Threshold
    out_of_fold: OutOfFold | None
    """What a threshold reaches on other items; None with too few flips or items."""
    model_runs: tuple[float, float]
    """Fewest and most model runs per item at the out-of-fold fraction (else the in-sample one)."""


@dataclass(frozen=True)
class Fallback:
    """Routing for one task and update."""

    items: int
    flips: int
    target: float
    accuracy_old: float
    accuracy_new: float
    oracle: RoutingCurve
    random: RoutingCurve
    signals: tuple[SignalFallback, ...]
    """Smallest area first."""
    reason: str | None
    """Why no threshold is tried out of fold."""


def fallback(table: SignalTable, target: float | None = None) -> Fallback | None:
    """Curves and thresholds of every signal; None where nothing flips.

    Args:
        table: the signals of one task and update.
        target: NFR to bring the system to; by default half of what it is.
    """
    flips = int(table.negative.sum())
    if not flips:
        return None
    n = len(table.items)
    wanted = flips / n / 2 if target is None else target
    oracle, chance = oracle_curve(table.old_right, table.new_right), random_curve(table.old_right, table.new_right)
    folds = routing_folds(table.old_right, table.new_right, table.clusters) if flips >= FEWEST_FLIPS else None
    rows = [_signal(table, name, wanted, oracle, chance, folds) for name in table.signals]
    reason = None
    if flips < FEWEST_FLIPS:
        reason = f"{flips} negative flip{'' if flips == 1 else 's'}: under {FEWEST_FLIPS} no threshold is chosen"
    elif folds is None:
        reason = f"{n} items in {len(set(table.clusters))} clusters are too few to choose a threshold on other items"
    return Fallback(
        n,
        flips,
        wanted,
        float(table.old_right.mean()),
        float(table.new_right.mean()),
        oracle,
        chance,
        tuple(sorted(rows, key=lambda row: (row.curve.area, row.signal))),
        reason,
    )


def _signal(
    table: SignalTable,
    name: str,
    target: float,
    oracle: RoutingCurve,
    chance: RoutingCurve,
    folds: list[Fold] | None,
) -> SignalFallback:
    risk = table.risk(name)
    curve = routing_curve(risk, table.old_right, table.new_right)
    width = chance.area - oracle.area
    flips = table.negative
    reached = None if folds is None else out_of_fold(risk, table.old_right, table.new_right, folds, target)
    fraction = fraction_for(curve, target)
    needs = kind_of(name).needs
    return SignalFallback(
        signal=name,
        needs=needs,
        undefined=int(np.isnan(risk).sum()),
        curve=curve,
        excess=(curve.area - oracle.area) / width if width > 0 else None,
        fraction_in_sample=fraction,
        threshold=threshold_for(risk, flips, target),
        out_of_fold=reached,
        model_runs=model_runs(needs, fraction if reached is None else reached.fraction),
    )
