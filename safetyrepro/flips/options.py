"""Signals over the options of a multiple-choice item, from their summed logprobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from safetyrepro.analysis.resampling import Floats


def option_probabilities(logprobs: Sequence[float]) -> Floats:
    """Softmax of the options' summed logprobs, shape (options,)."""
    probabilities: Floats = special.softmax(np.array(logprobs, dtype=np.float64))
    return probabilities


def kl_divergence(p: Floats, q: Floats) -> float:
    """`KL(p || q) = sum p log(p / q)` in nats; infinite where q rules out what p holds possible."""
    return float(special.rel_entr(p, q).sum())


def jensen_shannon(p: Floats, q: Floats) -> float:
    """Jensen-Shannon divergence in nats, between 0 and log 2: the mean KL of both to their mixture.

    References:
        J. Lin (1991), Divergence Measures Based on the Shannon Entropy, IEEE Trans. Information Theory 37, 145-151.
    """
    middle = (p + q) / 2
    return (kl_divergence(p, middle) + kl_divergence(q, middle)) / 2
