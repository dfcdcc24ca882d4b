"""Items that flip under every configuration, and items that flip under some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.flips.pairing import PairedItems


@dataclass(frozen=True)
class FlipStability:
    """Negative flips of one benchmark over its configurations."""

    benchmark: str
    configurations: int
    items: int
    """Items that both models scored under all of them."""
    left_out: int
    """Items scored under some of them only."""
    stable: tuple[str, ...]
    """Items that flip under every configuration: the update itself made them worse."""
    fragile: tuple[str, ...]
    """Items that flip under some and not under others: the configuration decides."""
    never: int
    counts: tuple[int, ...]
    """How many items flip under k configurations, k = 0 .. configurations."""


def flip_stability(benchmark: str, pairs: Sequence[PairedItems]) -> FlipStability | None:
    """Split flipping items into config-stable and config-fragile ones; None with fewer than two configurations."""
    if len(pairs) < 2:
        return None
    flips = [dict(zip(paired.items, paired.negative.tolist(), strict=True)) for paired in pairs]
    everywhere = [item for item in flips[0] if all(item in other for other in flips[1:])]
    seen = set().union(*flips)
    times = {item: sum(flip[item] for flip in flips) for item in everywhere}
    total = len(pairs)
    return FlipStability(
        benchmark=benchmark,
        configurations=total,
        items=len(everywhere),
        left_out=len(seen) - len(everywhere),
        stable=tuple(item for item, k in times.items() if k == total),
        fragile=tuple(item for item, k in times.items() if 0 < k < total),
        never=sum(k == 0 for k in times.values()),
        counts=tuple(np.bincount(list(times.values()), minlength=total + 1).tolist()),
    )
