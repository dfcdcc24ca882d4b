"""The flip table of one update: accuracy before and after, flips both ways, rates with intervals, groups."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from safetyrepro.analysis.flips.mcnemar import McNemar, mcnemar
from safetyrepro.analysis.flips.pairing import Bools, LeftOut, PairedItems
from safetyrepro.analysis.flips.proportion import Proportion, proportion
from safetyrepro.analysis.resampling import LEVEL, TOLERANCE, Floats
from safetyrepro.analysis.simultaneous import simultaneous_bands


@dataclass(frozen=True)
class GroupFlips:
    """One group of items."""

    name: str
    items: int
    negative_flips: int
    positive_flips: int
    nfr: Proportion


@dataclass(frozen=True)
class FlipTable:
    """What an update does to the items of one configuration."""

    items: int
    clusters: int
    accuracy_old: Proportion
    accuracy_new: Proportion
    difference: float | None
    """Accuracy new minus old."""
    difference_ci: tuple[float, float] | None
    negative_flips: int
    positive_flips: int
    both_right: int
    both_wrong: int
    nfr: Proportion
    """Negative flips / items."""
    nfr_old_correct: Proportion
    """Negative flips / items that the old model had right."""
    positive_rate: Proportion
    """Positive flips / items."""
    mcnemar: McNemar
    unanimous_negative: int
    """Negative flips for which every repeat of the old model is right and every repeat of the new one wrong."""
    unanimous_positive: int
    repeats_old: tuple[int, int]
    """Fewest and most repeats of an item."""
    repeats_new: tuple[int, int]
    groups: tuple[GroupFlips, ...]
    """Most negative flips first."""
    left_out: LeftOut


def flip_table(paired: PairedItems) -> FlipTable:
    """Count flips and put intervals on their rates.

    `NFR = negative flips / items`, and relative to the items that could be lost, `/ old-correct`.
    """
    clusters = paired.clusters
    negative, positive, right = paired.negative, paired.positive, paired.old_right
    change = positive.astype(np.float64) - negative.astype(np.float64)
    return FlipTable(
        items=len(paired.items),
        clusters=len(set(clusters)),
        accuracy_old=proportion(right, clusters),
        accuracy_new=proportion(paired.new_right, clusters),
        difference=float(change.mean()) if paired.items else None,
        difference_ci=_difference_interval(paired),
        negative_flips=int(negative.sum()),
        positive_flips=int(positive.sum()),
        both_right=int((right & paired.new_right).sum()),
        both_wrong=int((~right & ~paired.new_right).sum()),
        nfr=proportion(negative, clusters),
        nfr_old_correct=proportion(negative[right], _of(clusters, right)),
        positive_rate=proportion(positive, clusters),
        mcnemar=mcnemar(negative, positive, clusters),
        unanimous_negative=int((negative & _all(paired.old_share, 1.0) & _all(paired.new_share, 0.0)).sum()),
        unanimous_positive=int((positive & _all(paired.old_share, 0.0) & _all(paired.new_share, 1.0)).sum()),
        repeats_old=_range(paired.old_repeats.tolist()),
        repeats_new=_range(paired.new_repeats.tolist()),
        groups=_groups(paired),
        left_out=paired.left_out,
    )


def _difference_interval(paired: PairedItems) -> tuple[float, float] | None:
    """Interval of new minus old accuracy: Bonett and Price's without clusters, by bootstrap of whole clusters else.

    References:
        D. Bonett and R. Price (2012), Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based
        on Paired Data, Journal of Educational and Behavioral Statistics 37, 479-488.
    """
    if paired.clustered:
        change = paired.positive.astype(np.float64) - paired.negative
        bands = simultaneous_bands(change[np.newaxis, :], paired.clusters)
        return None if bands is None else bands[0]
    n = len(paired.items)
    if not n:
        return None
    lost, won = (int(paired.negative.sum()) + 1) / (n + 2), (int(paired.positive.sum()) + 1) / (n + 2)
    difference = won - lost
    half = float(stats.norm.ppf((1 + LEVEL) / 2)) * math.sqrt((won + lost - difference**2) / (n + 2))
    return max(-1.0, difference - half), min(1.0, difference + half)


def _groups(paired: PairedItems) -> tuple[GroupFlips, ...]:
    names = np.array(paired.groups, dtype=object)
    if len(set(paired.groups)) in (0, 1, len(paired.items)):
        return ()
    rows = []
    for name in sorted(set(paired.groups)):
        mask: Bools = names == name
        rows.append(
            GroupFlips(
                name,
                int(mask.sum()),
                int(paired.negative[mask].sum()),
                int(paired.positive[mask].sum()),
                proportion(paired.negative[mask], _of(paired.clusters, mask)),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.negative_flips, row.name)))


def _of(clusters: tuple[str, ...], mask: Bools) -> list[str]:
    return [cluster for cluster, kept in zip(clusters, mask.tolist(), strict=True) if kept]


def _all(share: Floats, value: float) -> Bools:
    close: Bools = np.abs(share - value) <= TOLERANCE
    return close


def _range(repeats: list[int]) -> tuple[int, int]:
    return (min(repeats, default=0), max(repeats, default=0))
