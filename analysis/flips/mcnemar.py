"""McNemar's question, whether an update changes accuracy, with near copies kept together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.flips.pairing import Bools
from safetyrepro.analysis.mcnemar import mcnemar_exact
from safetyrepro.analysis.resampling import DRAWS, SEED, TOLERANCE, cluster_sums, random_p, sign_flips


@dataclass(frozen=True)
class McNemar:
    """Whether negative and positive flips balance."""

    p: float
    """Two-sided."""
    method: str
    discordant: int
    """Items that flip either way."""
    moving_clusters: int
    """Clusters whose flips do not cancel; all flips where nothing is clustered."""


def mcnemar(negative: Bools, positive: Bools, clusters: Sequence[str]) -> McNemar:
    """Test that negative and positive flips are equally likely.

    Without clusters the exact test: given the flips, the negative ones are binomial with probability 1/2. With
    clusters the flips of near copies come together, so that the exact test rejects too often; there whole clusters'
    net flips have their signs drawn, `p = (1 + b) / (B + 1)` over |sum|.

    Args:
        negative: shape (items,).
        positive: shape (items,).
        clusters: the cluster of each item.

    References:
        Q. McNemar (1947), Note on the Sampling Error of the Difference Between Correlated Proportions or Percentages,
        Psychometrika 12, 153-157.
    """
    lost, won = int(negative.sum()), int(positive.sum())
    if len(set(clusters)) == len(clusters):
        p = float(mcnemar_exact(np.array(lost), np.array(won)))
        return McNemar(p, "exact binomial", lost + won, lost + won)
    net, _ = cluster_sums((positive.astype(np.float64) - negative.astype(np.float64))[np.newaxis, :], clusters)
    moving = net[0][np.abs(net[0]) > TOLERANCE]
    method = "sign flips of whole clusters"
    if not len(moving):
        return McNemar(1.0, method, lost + won, 0)
    drawn = np.abs(sign_flips(len(moving), DRAWS, SEED) @ moving)
    exceeding = int((drawn >= abs(moving.sum()) - TOLERANCE).sum())
    return McNemar(random_p(exceeding, DRAWS), method, lost + won, len(moving))
