"""Signals between two versions along what either of them writes, from what both expect there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.floating]


def nll_per_token(logprobs: Real) -> float:
    """Mean negative log-likelihood of the tokens, nats."""
    return -float(np.mean(logprobs, dtype=np.float64))


def nll_per_byte(logprobs: Real, text: str) -> float:
    """Negative log-likelihood per byte of UTF-8, nats: comparable between tokenizers."""
    return -float(np.sum(logprobs, dtype=np.float64)) / len(text.encode("utf-8", "replace"))


def likelihood_drift(nll_new: float, nll_old: float) -> float:
    """`NLL_new - NLL_old` on one trajectory: above 0 where the new version finds it less likely."""
    return nll_new - nll_old


def top_k_kl(generator: Real, other: Real) -> float:
    """KL(generator || other) over the generator's k likeliest tokens, both renormalised there, mean over positions.

    Args:
        generator: (positions, k) log-probabilities of its own likeliest tokens, nats.
        other: (positions, k) of the same tokens under the other version.

    Returns:
        Nats; never below 0.
    """
    p = _renormalised(generator)
    q = _renormalised(other)
    return max(0.0, float((np.exp(p) * (p - q)).sum(axis=-1).mean()))


def representation_drift(old: Real, new: Real) -> float | None:
    """`1 - cosine` of two states of one width; None where one of them is zero."""
    a, b = old.astype(np.float64), new.astype(np.float64)
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return None if size == 0 else max(0.0, 1.0 - float(a @ b) / size)


def _renormalised(logprobs: Real) -> NDArray[np.float64]:
    wide = logprobs.astype(np.float64)
    shift = wide.max(axis=-1, keepdims=True)
    scaled: NDArray[np.float64] = wide - shift - np.log(np.exp(wide - shift).sum(axis=-1, keepdims=True))
    return scaled
