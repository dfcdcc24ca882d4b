"""Reading continuations off what a model expects, in pieces of bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from safetyrepro.engine.forward import Likeliest, Outlook, check_finite, read
from safetyrepro.engine.observing.view import Ids, Logprobs, Span


@dataclass(frozen=True)
class Asked:
    """One continuation of n tokens."""

    rows: NDArray[np.int64]
    """(n,): which hidden states stand in place of its tokens."""
    ids: Sequence[int]
    support: Ids | None
    """As in `Look`."""


def read_spans(
    asked: Sequence[Asked], hidden: torch.Tensor, logits: Callable[[torch.Tensor], torch.Tensor], at_once: int
) -> list[Span]:
    """Read continuations.

    Args:
        asked: the continuations.
        hidden: (rows, .): what `logits` takes.
        logits: (rows, vocabulary) of some of them.
        at_once: how many rows of logits are held together.

    Raises:
        InputError: log-probabilities are not finite.
    """
    own = [np.empty(len(one.ids), dtype=np.float32) for one in asked]
    supports = [None if one.support is None else np.empty(one.support.shape, dtype=np.float32) for one in asked]
    likeliest: list[Likeliest] = []
    for start in range(0, len(hidden), at_once):
        outlook = read(logits(hidden[start : start + at_once]))
        likeliest.append(outlook.likeliest())
        for one, logprobs, asked_logprobs in zip(asked, own, supports, strict=True):
            places = np.flatnonzero((one.rows >= start) & (one.rows < start + at_once))
            if not len(places):
                continue
            rows = one.rows[places] - start
            logprobs[places] = _among(outlook, rows, np.array(one.ids, dtype=np.int64)[places, None])[:, 0]
            if one.support is not None and asked_logprobs is not None:
                asked_logprobs[places] = _among(outlook, rows, one.support[places])
    top_ids = np.concatenate([piece.ids for piece in likeliest] or [np.empty((0, 0), dtype=np.int32)])
    top_logprobs = np.concatenate([piece.logprobs for piece in likeliest] or [np.empty((0, 0), dtype=np.float32)])
    spans = []
    for one, logprobs, asked_logprobs in zip(asked, own, supports, strict=True):
        top = Likeliest(top_ids[one.rows], top_logprobs[one.rows])
        check_finite(logprobs, top)
        spans.append(Span(logprobs, top.ids.astype(np.int64), top.logprobs, asked_logprobs))
    return spans


def _among(outlook: Outlook, rows: NDArray[np.int64], tokens: Ids) -> Logprobs:
    """Log-probabilities (n, k) of k tokens for each of n rows; -inf for one that the model does not have."""
    logits = outlook.logits
    at, asked = (torch.from_numpy(part).to(logits.device) for part in (rows, tokens))
    known = asked < logits.shape[-1]
    picked = logits[at[:, None], asked.where(known, 0)].float() - outlook.totals[at][:, None]
    found: Logprobs = picked.where(known, -torch.inf).cpu().numpy()
    return found
