"""Reading a continuation off what a model expects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from safetyrepro.engine.forward import Outlook, check_finite
from safetyrepro.engine.observing.view import Ids, Span


def read_span(outlook: Outlook, rows: torch.Tensor, ids: Sequence[int], support: Ids | None) -> Span:
    """One continuation of n tokens.

    Args:
        outlook: what the model expects at some positions.
        rows: (n,): which of them stand in place of the continuation's tokens.
        ids: its tokens.
        support: as in `Look`.

    Raises:
        InputError: log-probabilities are not finite.
    """
    logits, totals = outlook.logits, outlook.totals[rows]
    own = logits[rows, torch.tensor(list(ids), device=logits.device)].float() - totals
    likeliest = Outlook(logits, totals, outlook.ids[rows], outlook.logprobs[rows]).likeliest()
    logprobs = own.cpu().numpy()
    check_finite(logprobs, likeliest)
    asked = None
    if support is not None:
        tokens = torch.from_numpy(support).to(logits.device)
        known = tokens < logits.shape[-1]
        picked = logits[rows[:, None], tokens.where(known, 0)].float() - totals[:, None]
        asked = picked.where(known, -torch.inf).cpu().numpy()
    return Span(logprobs, likeliest.ids.astype(np.int64), likeliest.logprobs, asked)
