"""What a verdict goes with that is no content: the answers' length and layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.judge.consistency import Share
from safetyrepro.analysis.judge.weights import FEWEST_ITEMS, Weights, standardised_weights
from safetyrepro.analysis.mean import mean_score
from safetyrepro.analysis.resampling import Floats


@dataclass(frozen=True)
class SurfaceEffects:
    """Verdicts against surface features of the two answers."""

    more_wins: dict[str, Share]
    """Per feature: decided verdicts for the answer with more of it, of those where the answers differ in it."""
    joint: Weights | str
    """All features at once: standardised regression of the outcome (1 where a wins, 0.5 tie, 0) on their differences,
    or why there is none."""


def surface_effects(
    features_a: Floats,
    features_b: Floats,
    outcome: Floats,
    names: Sequence[str],
    items: Sequence[str],
    *,
    fewest: int = FEWEST_ITEMS,
) -> SurfaceEffects:
    """Length and style effects, clustered by item.

    Formula: a feature's difference is `(a - b) / (a + b)`, 0 where neither answer has any of it, so that a long
    comparison weighs no more than a short one. Descriptive: where longer answers are also better ones, an honest judge
    prefers them too. Padding and layout edits (`edits.py`) tell the two apart.

    Args:
        features_a: shape (rows, k), counts of each feature in answer a, not negative.
        features_b: the same of answer b.
        outcome: shape (rows,): 1 where a wins, 0.5 for a tie, 0 where b wins.
        names: the features.
        items: the item of each row.
        fewest: the number of items that the joint regression needs.

    References:
        T. Li, A. Angelopoulos, W.-L. Chiang (2024), Does style matter? Disentangling style and substance in Chatbot
        Arena: the normalised difference.
    """
    more = {}
    for k, name in enumerate(names):
        apart = (features_a[:, k] != features_b[:, k]) & (outcome != 0.5)
        hits = ((features_a[:, k] > features_b[:, k]) == (outcome == 1.0))[apart]
        inside = [item for item, kept in zip(items, apart, strict=True) if kept]
        result = mean_score([float(hit) for hit in hits], inside)
        more[name] = Share(int(hits.sum()), len(hits), result.score, result.ci, None)
    total = features_a + features_b
    differences = np.divide(features_a - features_b, total, out=np.zeros_like(total), where=total > 0)
    return SurfaceEffects(more, standardised_weights(differences, outcome, names, items, fewest=fewest))
