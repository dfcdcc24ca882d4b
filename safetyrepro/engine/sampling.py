"""Draws of a next token: from a generator of the request's own, so that they do not depend on who else asks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import torch

from safetyrepro.engine.api import Decoding

_LIKELY: Final = 64
"""Tokens among which a draw nearly always falls."""


class Sampler:
    """Draws the tokens of one generation; the draws follow from prompt and decoding alone."""

    def __init__(self, prompt: Sequence[int], decoding: Decoding) -> None:
        self.decoding = decoding
        source = f"{decoding.seed} {decoding.choice} {decoding.repeat} {','.join(map(str, prompt))}"
        self._generator = torch.Generator()
        self._generator.manual_seed(int.from_bytes(hashlib.sha256(source.encode()).digest()[:8], "big") >> 1)

    def token(self, logits: torch.Tensor) -> int:
        """The next token, drawn from logits (vocabulary,)."""
        return _place(logits, self.decoding, self._drawn())

    def token_quickly(self, logits: torch.Tensor) -> int:
        """As `token`, from the likeliest alone where the draw falls among them; the same but for rounding."""
        drawn = self._drawn()
        found = _among_likeliest(logits.float().cpu(), self.decoding, drawn)
        return _place(logits, self.decoding, drawn) if found is None else found

    def _drawn(self) -> float:
        return float(torch.rand((), generator=self._generator, dtype=torch.float64))


def _place(logits: torch.Tensor, decoding: Decoding, drawn: float) -> int:
    """The token at the share `drawn` of the mass, the likeliest first."""
    wide = (logits.double() / decoding.temperature).cpu()
    chances, order = wide.softmax(-1).sort(descending=True, stable=True)
    reached = chances.cumsum(-1)
    if decoding.top_p < 1:
        chances = chances.masked_fill(reached - chances >= decoding.top_p, 0.0)
        reached = chances.cumsum(-1)
    place = int(torch.searchsorted(reached, drawn * reached[-1], right=True))
    return int(order[min(place, int((chances > 0).sum()) - 1)])


def _among_likeliest(logits: torch.Tensor, decoding: Decoding, drawn: float) -> int | None:
    """As `_place`, or None where the token is not among the `_LIKELY` likeliest."""
    values, order = logits.topk(min(_LIKELY, len(logits)))
    by_id = order.argsort()
    best_first = by_id[values[by_id].argsort(descending=True, stable=True)]
    values, order = values[best_first].double() / decoding.temperature, order[best_first]
    total = ((logits / decoding.temperature) - float(values[0])).exp().sum(dtype=torch.float64)
    reached = (values - values[0]).exp().cumsum(-1) / total
    mass = 1.0
    if decoding.top_p < 1:
        inside = int((reached < decoding.top_p).sum())
        if inside == len(reached):
            return None
        mass = float(reached[inside])
    place = int(torch.searchsorted(reached, drawn * mass, right=True))
    return None if place == len(reached) else int(order[place])
