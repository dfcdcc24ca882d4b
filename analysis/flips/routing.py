"""Routing the riskiest items back to the old model: curves, their areas, thresholds and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safetyrepro.analysis.flips.crossvalidation import FOLDS, SEEDS, Fold, repeated_folds
from safetyrepro.analysis.flips.pairing import Bools
from safetyrepro.analysis.flips.signals import Needs
from safetyrepro.analysis.resampling import TOLERANCE, Floats

FEWEST_ITEMS = 10 * FOLDS
"""Under this many items no threshold is chosen out of fold."""


@dataclass(frozen=True)
class RoutingCurve:
    """What the system does as more items go to the old model; straight lines between the points."""

    fraction: tuple[float, ...]
    """Share of items routed to the old model, from 0 to 1."""
    nfr: tuple[float, ...]
    """Negative flips left / items."""
    accuracy: tuple[float, ...]
    """Accuracy of new and old model together."""
    area: float
    """Area under NFR against the fraction routed: smaller is better."""
    aurc: float
    """Area under the risk-coverage curve: the share of flips among the items kept, averaged over coverages."""


@dataclass(frozen=True)
class Threshold:
    """Which risks go to the old model: those above `value`, of those equal to it a share, and the undefined ones."""

    value: float | None
    """None: none but the undefined ones."""
    tie_share: float
    """Share in [0, 1] of the items whose risk equals `value`."""


@dataclass(frozen=True)
class OutOfFold:
    """A threshold chosen on some items and applied to others, averaged over folds and seeds."""

    target: float
    fraction: float
    """Share of items routed."""
    nfr: float
    accuracy: float
    items: int
    repetitions: int


def routing_curve(risk: Floats, old_right: Bools, new_right: Bools) -> RoutingCurve:
    """NFR and accuracy of the system against the share of items routed, riskiest first.

    A routed item is answered by the old model, so that its negative flip is undone and its positive one lost. Items of
    equal risk are routed in no particular order: within a tie everything is its expectation, a straight line. Items
    whose risk is undefined are routed first, as nobody can vouch for them.

    Args:
        risk: shape (items,), high means risk, NaN where undefined.
        old_right: shape (items,).
        new_right: shape (items,).

    References:
        R. El-Yaniv and Y. Wiener (2010), On the Foundations of Noise-free Selective Classification, JMLR 11, 1605-1641.
    """
    n = len(risk)
    flips = old_right & ~new_right
    ends, order = _tie_ends(risk)
    undone = np.concatenate([[0.0], np.cumsum(flips[order])[ends - 1]])
    gained = np.cumsum(old_right[order].astype(np.float64) - new_right[order])[ends - 1]
    routed = np.concatenate([[0.0], ends.astype(np.float64)])
    left = float(flips.sum()) - undone
    fraction, nfr = routed / n, left / n
    accuracy = (float(new_right.sum()) + np.concatenate([[0.0], gained])) / n
    kept = np.arange(1, n + 1)
    expected = np.interp(n - kept, routed, left)
    return RoutingCurve(
        tuple(fraction.tolist()),
        tuple(nfr.tolist()),
        tuple(accuracy.tolist()),
        float(np.trapezoid(nfr, fraction)),
        float((expected / kept).mean()),
    )


def oracle_curve(old_right: Bools, new_right: Bools) -> RoutingCurve:
    """The curve of a signal that knows the flips, and gives up a positive flip last."""
    return routing_curve(old_right.astype(np.float64) - new_right, old_right, new_right)


def random_curve(old_right: Bools, new_right: Bools) -> RoutingCurve:
    """The curve of a signal that knows nothing: one tie of everything."""
    return routing_curve(np.zeros(len(old_right)), old_right, new_right)


def fraction_for(curve: RoutingCurve, target: float) -> float:
    """Smallest share of items to route so that the NFR is at most `target`, on the items of the curve itself."""
    if curve.nfr[0] <= target + TOLERANCE:
        return 0.0
    # NFR falls along the curve; np.interp wants its argument to rise.
    falling = np.array(curve.nfr)
    first = int(np.argmax(falling <= target + TOLERANCE))
    before, after = curve.nfr[first - 1], curve.nfr[first]
    share = (before - target) / (before - after)
    return float(curve.fraction[first - 1] + min(1.0, share) * (curve.fraction[first] - curve.fraction[first - 1]))


def threshold_for(risk: Floats, flips: Bools, target: float) -> Threshold:
    """The highest threshold that brings the NFR of these items to `target`."""
    n = len(risk)
    ends, order = _tie_ends(risk)
    ranked = risk[order]
    left = float(flips.sum())
    start = 0
    for end in ends.tolist():
        hits = float(flips[order[start:end]].sum())
        undefined = bool(np.isnan(ranked[start]))
        if not undefined and left / n <= target + TOLERANCE:
            break
        if not undefined and (left - hits) / n <= target + TOLERANCE:
            share = (left - target * n) / hits
            return Threshold(float(ranked[start]), float(min(1.0, max(0.0, share))))
        left -= hits
        start = end
    return Threshold(None, 0.0)


def route_weights(risk: Floats, threshold: Threshold) -> Floats:
    """Probability that each item goes to the old model, shape (items,)."""
    weights = np.isnan(risk).astype(np.float64)
    if threshold.value is not None:
        weights[risk > threshold.value] = 1.0
        weights[risk == threshold.value] = threshold.tie_share
    return weights


def routing_folds(old_right: Bools, new_right: Bools, clusters: Sequence[str]) -> list[Fold] | None:
    """Stratified 5-fold under 5 seeds, whole clusters together; None with too few items or clusters."""
    n = len(old_right)
    if n < FEWEST_ITEMS or len(set(clusters)) < 2 * FOLDS:
        return None
    flips = old_right & ~new_right
    return repeated_folds(flips, clusters)


def out_of_fold(risk: Floats, old_right: Bools, new_right: Bools, folds: Sequence[Fold], target: float) -> OutOfFold:
    """What a threshold reaches on items it was not chosen on.

    The threshold comes from a fold's training items, its effect from the others: on the items it was chosen on it
    would look better than it is.
    """
    flips = old_right & ~new_right
    fraction = nfr = accuracy = total = 0.0
    for train, test in folds:
        weights = route_weights(risk[test], threshold_for(risk[train], flips[train], target))
        total += len(test)
        fraction += float(weights.sum())
        nfr += float(((1 - weights) * flips[test]).sum())
        accuracy += float((weights * old_right[test] + (1 - weights) * new_right[test]).sum())
    return OutOfFold(target, fraction / total, nfr / total, accuracy / total, len(risk), len(SEEDS))


def model_runs(needs: Needs, fraction: float) -> tuple[float, float]:
    """Fewest and most model runs per item: a signal that needs both models has paid for both before it routes."""
    if needs == "new":
        return (1 + fraction, 1 + fraction)
    if needs == "old":
        return (2 - fraction, 2 - fraction)
    return (2.0, 2.0) if needs == "both" else (1.0 + min(fraction, 1 - fraction), 2.0)


def _tie_ends(risk: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """How many items are routed after each group of equal risk, and the items in that order."""
    keyed = np.where(np.isnan(risk), np.inf, np.minimum(risk, np.finfo(np.float64).max))
    order = np.argsort(-keyed, kind="stable")
    ranked = keyed[order]
    changes = np.flatnonzero(ranked[1:] != ranked[:-1]) + 1
    return np.append(changes, len(risk)), order
