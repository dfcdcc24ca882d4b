"""What is looked at in an item, and what is seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Logprobs = NDArray[np.float32]


@dataclass(frozen=True)
class Look:
    """One item to look at."""

    context: tuple[int, ...]
    """Token ids before the answer, at least one."""
    continuations: tuple[tuple[int, ...], ...]
    """Token ids of each continuation, at least one each."""
    supports: tuple[Ids | None, ...]
    """Per continuation of n tokens those (n, k) whose log-probabilities are wanted too, or None; one that the model
    does not have gets -inf."""

    @property
    def longest(self) -> int:
        """Tokens of the context with its longest continuation."""
        return len(self.context) + max(map(len, self.continuations), default=0)


@dataclass(frozen=True)
class Span:
    """One continuation of n tokens."""

    logprobs: Logprobs
    """(n,): of its tokens, nats."""
    top_ids: Ids
    """(n, TOP): the likeliest tokens in place of each, best first."""
    top_logprobs: Logprobs
    """(n, TOP), nats."""
    support_logprobs: Logprobs | None
    """(n, k): of the tokens that were asked for, nats."""


@dataclass(frozen=True)
class View:
    """One item as one model sees it."""

    state: Logprobs
    """(width,): the last layer's state at the context's last token, after the final norm."""
    attention_entropy: float | None
    """Nats; None where it cannot be read."""
    spans: tuple[Span, ...]
    """In the order of the continuations."""
