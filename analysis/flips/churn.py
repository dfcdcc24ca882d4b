"""Same-model churn: how often the old model loses an item to itself, which no update is to blame for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.flips.pairing import Bools, PairedItems
from safetyrepro.analysis.mean import mean_score
from safetyrepro.analysis.resampling import Floats
from safetyrepro.analysis.simultaneous import simultaneous_bands


@dataclass(frozen=True)
class Churn:
    """The update's rate of negative flips beside the old model's own, both of single draws on the same items."""

    source: str
    """`repeats`, or the name under which the same model ran again."""
    items: int
    """Items for which churn is known."""
    rate: float
    """Probability that a draw of the old model is right and another of its draws wrong, averaged over items."""
    rate_ci: tuple[float, float] | None
    update_rate: float
    """Probability that a draw of the old model is right and a draw of the new one wrong."""
    excess: float
    """`update_rate - rate`: what the update adds."""
    excess_ci: tuple[float, float] | None


def churn_of_repeats(paired: PairedItems) -> Churn | None:
    """Churn from the old model's repeats; None where no item has two.

    With p the share of an item's R repeats that are right, `p (1 - p) R / (R - 1)` is the share of ordered pairs of
    different repeats that go from right to wrong, and `p_old (1 - p_new)` the share of pairs across the update.
    """
    known: Bools = paired.old_repeats >= 2
    if not known.any():
        return None
    share, repeats = paired.old_share[known], paired.old_repeats[known]
    own = share * (1 - share) * repeats / (repeats - 1)
    return _churn("repeats", own, share * (1 - paired.new_share[known]), _kept(paired.clusters, known))


def churn_of_second_run(paired: PairedItems, again: PairedItems, name: str) -> Churn | None:
    """Churn from a second run of the old model; None where it shares no item.

    Neither run is the earlier one, so that an item's churn is the mean over both orders of right to wrong.

    Args:
        paired: old model against new one.
        again: old model against its second run.
        name: what the second run is called.
    """
    index = {item: number for number, item in enumerate(again.items)}
    known: Bools = np.array([item in index for item in paired.items], dtype=np.bool_)
    if not known.any():
        return None
    order = [index[item] for item in paired.items if item in index]
    first, second = again.old_share[order], again.new_share[order]
    own = (first * (1 - second) + second * (1 - first)) / 2
    update = paired.old_share[known] * (1 - paired.new_share[known])
    return _churn(name, own, update, _kept(paired.clusters, known))


def _churn(source: str, own: Floats, update: Floats, clusters: list[str]) -> Churn:
    rate = mean_score(own.tolist(), clusters)
    excess = update - own
    bands = simultaneous_bands(excess[np.newaxis, :], clusters)
    return Churn(
        source=source,
        items=len(own),
        rate=float(own.mean()),
        rate_ci=rate.ci,
        update_rate=float(update.mean()),
        excess=float(excess.mean()),
        excess_ci=None if bands is None else bands[0],
    )


def _kept(clusters: tuple[str, ...], mask: Bools) -> list[str]:
    return [cluster for cluster, kept in zip(clusters, mask.tolist(), strict=True) if kept]
