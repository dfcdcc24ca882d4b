"""What a shared pass is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safetyrepro.engine.api import Decoding, Generated, Scored
from safetyrepro.engine.forward import Likeliest
from safetyrepro.engine.generation import PackedGeneration


@dataclass(frozen=True)
class Request:
    """What is asked of a pass: a span to score, or a prompt to continue."""

    ids: tuple[int, ...]
    start: int
    top: bool
    decoding: Decoding | None

    @property
    def forwarded(self) -> tuple[int, ...]:
        """The ids that have to go through the model."""
        return self.ids if self.top or self.decoding is not None else self.ids[:-1]

    @property
    def place(self) -> int:
        """Where the tokens begin whose outlook is wanted."""
        return self.start - 1 if self.decoding is None else len(self.ids) - 1


@dataclass(frozen=True)
class PackedSpan:
    """One scored sequence of which a span at the end was asked for."""

    start: int
    logprobs: NDArray[np.float32]
    """Of the span's tokens, nats."""
    likeliest: Likeliest | None
    """In place of the span's tokens, and of the one after the sequence; None where nobody asked."""

    @property
    def nbytes(self) -> int:
        """Memory it holds, in bytes."""
        return self.logprobs.nbytes + (0 if self.likeliest is None else self.likeliest.nbytes)

    def unpacked(self) -> Scored:
        """As the gateway reads it."""
        logprobs = (None,) * self.start + tuple(self.logprobs.tolist())
        if self.likeliest is None:
            return Scored(logprobs, ((),) * len(logprobs), ())
        *top, next_top = self.likeliest.pairs()
        return Scored(logprobs, ((),) * self.start + tuple(top), next_top)


@dataclass(frozen=True)
class PackedBranch(PackedGeneration):
    """One generation whose likeliest tokens nobody asked for."""

    def unpacked(self) -> Generated:
        """As the gateway reads it."""
        return Generated(self.ids, self.text, self.finish_reason, tuple(self.logprobs.tolist()), ())


Answer = PackedSpan | PackedGeneration
