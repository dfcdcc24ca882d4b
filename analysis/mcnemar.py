"""McNemar's exact test: two models on the same right-or-wrong items, by themselves in one configuration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from safetyrepro.analysis.resampling import Floats


def mcnemar_exact(a_only: NDArray[np.int64], b_only: NDArray[np.int64]) -> Floats:
    """Two-sided exact p for each pair of discordant counts: `min(1, 2 P(X <= min))`, X binomial with share 1/2.

    It is unadjusted and takes items for independent: a description beside the adjusted tests, not one of them.

    Args:
        a_only: items that only the first model has right, any shape.
        b_only: items that only the second has right.

    References:
        Q. McNemar (1947), Note on the Sampling Error of the Difference Between Correlated Proportions, Psychometrika
        12, 153-157.
    """
    p: Floats = np.minimum(1.0, 2 * stats.binom.cdf(np.minimum(a_only, b_only), a_only + b_only, 0.5))
    return p
