"""Text generation: one prompt at a time with a cache of its own, greedy or sampled from a generator of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from safetyrepro.engine.api import Decoding, Generated, GivenUp
from safetyrepro.engine.forward import FixedShape, Likeliest, check_finite
from safetyrepro.engine.sampling import Sampler
from safetyrepro.engine.tokenizer import FastTokenizer


@dataclass(frozen=True)
class PackedGeneration:
    """One generation of n tokens."""

    ids: tuple[int, ...]
    text: str
    finish_reason: str
    logprobs: NDArray[np.float32]
    """(n,): the model's own, before temperature and top_p, in nats."""
    likeliest: Likeliest
    """n rows."""

    @property
    def nbytes(self) -> int:
        """Memory it holds, in bytes."""
        return 8 * len(self.ids) + 4 * len(self.text) + self.logprobs.nbytes + self.likeliest.nbytes

    def unpacked(self) -> Generated:
        """As the gateway reads it."""
        return Generated(self.ids, self.text, self.finish_reason, tuple(self.logprobs.tolist()), self.likeliest.pairs())


@torch.inference_mode()
def generate(
    shape: FixedShape,
    tokenizer: FastTokenizer,
    prompt: Sequence[int],
    decoding: Decoding,
    max_length: int,
    given_up: Callable[[], bool] = lambda: False,
) -> PackedGeneration:
    """Continue `prompt` until an end token, a stop string, `max_tokens`, or the model's `max_length`.

    The prompt is computed as scoring computes it, so that at one row and a bucket of one the first greedy token is
    the scored sequence's likeliest next token, bit for bit.

    Raises:
        GivenUp: `given_up()` after a token.
    """
    sampler = Sampler(prompt, decoding) if not decoding.greedy else None
    stops = Stops(tokenizer, decoding.stop)
    outlook, cache = shape.prefill(prompt)
    ids: list[int] = []
    rows: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
    text, reason = "", "length"
    for left in reversed(range(min(decoding.max_tokens, max_length - len(prompt)))):
        token = int(outlook.ids[0, 0]) if sampler is None else sampler.token(outlook.logits[0])
        fed = torch.tensor([token], device=shape.device)
        own = outlook.logprobs[:, 0] if sampler is None else outlook.logprobs_of(fed)
        rows.append((own, outlook.ids, outlook.logprobs))
        ids.append(token)
        ended, text = stops.after(ids)
        if ended:
            reason = "stop"
            break
        if given_up():
            raise GivenUp
        if left:
            outlook = shape.outlook(shape.hidden(fed[None], cache))
    logprobs, likely, likely_logprobs = (torch.cat(parts).cpu().numpy() for parts in zip(*rows, strict=True))
    likeliest = Likeliest(likely, likely_logprobs)
    check_finite(logprobs, likeliest)
    return PackedGeneration(tuple(ids), text, reason, logprobs, likeliest)


class Stops:
    """Where a generation ends, and the text up to there."""

    def __init__(self, tokenizer: FastTokenizer, stop: tuple[str, ...]) -> None:
        self.tokenizer = tokenizer
        as_ids = {text: tokenizer.encode(text) for text in stop}
        special = {ids[0] for ids in as_ids.values() if len(ids) == 1 and not tokenizer.decode(ids, skip_special=True)}
        self.ids = tokenizer.eos_ids | special
        self.texts = stop

    def after(self, ids: list[int]) -> tuple[bool, str]:
        """Whether `ids` end here, and their text without end token or stop string."""
        if ids[-1] in self.ids:
            return True, self.tokenizer.decode(ids[:-1], skip_special=True)
        text = self.tokenizer.decode(ids, skip_special=True)
        found = [at for at in (text.find(stop) for stop in self.texts) if at >= 0]
        return bool(found), text[: min(found)] if found else text
