"""Forward passes in chunks that start at fixed places, so that sequences with a beginning in common share its cost.

A sequence is computed from position 0 in chunks of `CHUNK` tokens and a shorter last one, each with the keys and
values of the chunks before it. What a chunk gives follows from the token ids up to its end and from those shapes, and
it is the same operation on the same numbers whether the chunks before were computed just now or kept from an earlier
sequence: keeping them changes no bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from safetyrepro.engine.api import TOP
from safetyrepro.engine.forward import FixedShape, Likeliest, Outlook, PackedScore, check_finite
from safetyrepro.engine.memo import Memo

CHUNK: Final = 32
"""Tokens of a chunk: part of the numerics. Shorter ones share more, longer ones use the processor better."""
PREFIX_BYTES: Final = 512 * 1024 * 1024
"""How much of the latest chunks one engine keeps."""
_PROBE: Final = 8
"""Tokens of the trial that tells whether a model can continue from kept keys and values."""


@dataclass(frozen=True)
class _Reading:
    """What is kept of the logits of a chunk of n tokens."""

    own: NDArray[np.float32]
    """(n - 1,): log-probabilities of the chunk's tokens from the second on, nats."""
    likeliest: Likeliest
    """n rows: in place of the tokens from the second on, and of the one after the chunk."""
    last: Outlook
    """After the last token, logits included: the token that follows is not the chunk's to know."""


@dataclass
class _Chunk:
    """A forward pass over n tokens."""

    ids: tuple[int, ...]
    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    """Keys and values of these n positions, (1, heads, n, width)."""
    hidden: torch.Tensor
    """(1, n, width)"""
    nbytes: int
    """Memory it holds once it has been read, in bytes."""
    reading: _Reading | None = None
    """None until it is asked for: a prompt to be continued needs the logits of its last chunk only."""


class ChunkedShape(FixedShape):
    """One row at a time, in chunks. Used by one thread."""

    def __init__(self, model: Any, *, pad_id: int) -> None:
        super().__init__(model, rows=1, bucket=1, pad_id=pad_id)
        self.kept_chunks: Memo[_Chunk] = Memo(PREFIX_BYTES)

    @torch.inference_mode()
    def fits(self) -> bool:
        """Whether the model is one that gives the same in chunks, up to rounding.

        Refused are models that cannot be continued, see `FixedShape.continues`, and those that a trial finds to differ.
        """
        if not self.continues():
            return False
        ids = tuple(index % self.model.config.get_text_config().vocab_size for index in range(_PROBE))
        whole = self.hidden(torch.tensor([ids], device=self.device))
        first = self._forward(ids[: _PROBE // 2], [])
        if first is None or (second := self._forward(ids[_PROBE // 2 :], [first])) is None:
            return False
        parted = torch.cat([first.hidden, second.hidden], dim=1)
        return bool((parted - whole).float().norm() <= 0.05 * whole.float().norm())

    @torch.inference_mode()
    def score(self, sequences: Sequence[Sequence[int]]) -> list[PackedScore]:
        """As `FixedShape.score`."""
        return [self._score(tuple(sequence)) for sequence in sequences]

    def prefill(self, prompt: Sequence[int]) -> tuple[Outlook, Any]:
        """As `FixedShape.prefill`; the outlook is that of `score`, bit for bit."""
        chunks = self._chunks(tuple(prompt))
        return self._read(chunks[-1]).last, _cache(chunks)

    def _score(self, ids: tuple[int, ...]) -> PackedScore:
        chunks = self._chunks(ids)
        readings = [self._read(chunk) for chunk in chunks]
        own = [readings[0].own]
        for before, chunk, reading in zip(readings, chunks[1:], readings[1:], strict=False):
            first = before.last.logprobs_of(torch.tensor([chunk.ids[0]], device=self.device))
            own += [first.cpu().numpy(), reading.own]
        likeliest = Likeliest(
            np.concatenate([reading.likeliest.ids for reading in readings]),
            np.concatenate([reading.likeliest.logprobs for reading in readings]),
        )
        logprobs = np.concatenate(own)
        check_finite(logprobs, likeliest)
        return PackedScore(logprobs, likeliest)

    def _chunks(self, ids: tuple[int, ...]) -> list[_Chunk]:
        chunks: list[_Chunk] = []
        for start in range(0, len(ids), CHUNK):
            stop = min(start + CHUNK, len(ids))
            whole = stop - start == CHUNK
            chunk = self.kept_chunks.get(ids[:stop]) if whole else None
            if chunk is None:
                chunk = self._forward(ids[start:stop], chunks)
                assert chunk is not None, "an engine chunks only what fits"
                if whole:
                    self.kept_chunks.put(ids[:stop], chunk)
            chunks.append(chunk)
        return chunks

    def _forward(self, ids: tuple[int, ...], before: list[_Chunk]) -> _Chunk | None:
        """None where the model leaves a layer of the cache empty."""
        cache = _cache(before)
        hidden = self.hidden(torch.tensor([ids], device=self.device), cache)
        if not all(layer.is_initialized for layer in cache.layers):
            return None
        layers = tuple((_latest(layer.keys, len(ids)), _latest(layer.values, len(ids))) for layer in cache.layers)
        held = [hidden, *(tensor for layer in layers for tensor in layer)]
        vocabulary = self.model.config.get_text_config().vocab_size
        nbytes = sum(tensor.nbytes for tensor in held) + 8 * TOP * len(ids) + hidden.element_size() * vocabulary
        return _Chunk(ids, layers, hidden, nbytes)

    def _read(self, chunk: _Chunk) -> _Reading:
        if chunk.reading is None:
            outlook = self.outlook(chunk.hidden)
            targets = torch.tensor(chunk.ids[1:], dtype=torch.long, device=self.device)
            own = outlook.rows(0, len(targets)).logprobs_of(targets)
            last = outlook.rows(len(targets), len(chunk.ids)).copy()
            chunk.reading = _Reading(own.cpu().numpy(), outlook.likeliest(), last)
        return chunk.reading


def _cache(chunks: list[_Chunk]) -> Any:
    """A cache of its own that holds `chunks`; whole in every layer, as the attention mask narrows the windows."""
    from transformers import DynamicCache

    by_layer = zip(*(chunk.layers for chunk in chunks), strict=True)
    joined = [tuple(torch.cat(parts, dim=2) for parts in zip(*layer, strict=True)) for layer in by_layer]
    return DynamicCache(joined) if joined else DynamicCache()


def _latest(states: torch.Tensor, count: int) -> torch.Tensor:
    """The last `count` positions, in memory of their own."""
    return states[:, :, -count:].clone(memory_format=torch.contiguous_format)
