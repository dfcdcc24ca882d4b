"""What a targeted edit of an answer does to the judge's score: same answer, same opponent, one thing changed.

The edit is made, not observed, so that a change of score is caused by it. That is the claim that implicit weights
cannot carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.resampling import LEVEL, Floats
from safetyrepro.analysis.simultaneous import simultaneous_bands


@dataclass(frozen=True)
class Change:
    """Mean change, edited minus original, over paired calls of the same item and order."""

    n: int
    items: int
    mean: float | None
    ci: tuple[float, float] | None

    @property
    def established(self) -> bool:
        """Whether the interval excludes no change."""
        return self.ci is not None and (self.ci[0] > 0 or self.ci[1] < 0)


def paired_change(
    edited: Floats, original: Floats, items: Sequence[str], *, reach: float, family: int = 1, level: float = LEVEL
) -> Change:
    """Mean of edited minus original with an interval clustered by item.

    Formula: `simultaneous_bands` of the differences, at level `1 - (1 - level) / family`, so that the intervals of a
    family of edits hold together (Bonferroni).

    Args:
        edited: shape (pairs,); pairs in which a side has no number are left out.
        original: the same call without the edit.
        items: the item of each pair.
        reach: the largest possible absolute difference (4 for marks from 1 to 5, 1 for a win).
        family: how many edits are tested beside each other.
        level: coverage of all of them together.
    """
    known = np.isfinite(edited) & np.isfinite(original)
    kept = [item for item, keep in zip(items, known, strict=True) if keep]
    if not kept:
        return Change(0, 0, None, None)
    differences = (edited - original)[known] / reach
    bands = simultaneous_bands(differences[None, :], kept, level=1 - (1 - level) / family)
    ci = None if bands is None else (float(bands[0][0] * reach), float(bands[0][1] * reach))
    return Change(len(kept), len(set(kept)), float(differences.mean() * reach), ci)
