"""Forward passes at a fixed shape, and what is kept of their logits.

Adding numbers in another order rounds otherwise, and libraries choose the order by the shape of a batch. Here a
sequence's shape follows from its own length (`rows` by the next multiple of `bucket`), whoever else is asked for, and
rows that nobody needs are padded: a result depends on the token ids alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from safetyrepro.engine.api import TOP, Scored
from safetyrepro.errors import InputError

LOGITS_AT_ONCE: Final = 1 << 24
"""Logits computed in one piece (64 MB at fp32)."""
_FEW: Final = 64
"""Below so many rows, and above one, libraries multiply by a weight faster from its other side."""
_READ_AT_ONCE: Final = 1 << 20
"""Logits read in one piece (4 MB at fp32): what is made of them on the way stays in the processor's cache."""


@dataclass(frozen=True)
class Likeliest:
    """The `TOP` likeliest tokens at n positions, best first; equal ones by the lower id."""

    ids: NDArray[np.int32]
    """(n, TOP)"""
    logprobs: NDArray[np.float32]
    """(n, TOP), nats"""

    @property
    def nbytes(self) -> int:
        """Memory it holds, in bytes."""
        return self.ids.nbytes + self.logprobs.nbytes

    def pairs(self) -> tuple[tuple[tuple[int, float], ...], ...]:
        """The same as (id, logprob) pairs."""
        rows = zip(self.ids.tolist(), self.logprobs.tolist(), strict=True)
        return tuple(tuple(zip(ids, logprobs, strict=True)) for ids, logprobs in rows)


@dataclass(frozen=True)
class PackedScore:
    """One sequence of n tokens, scored."""

    logprobs: NDArray[np.float32]
    """(n - 1,): of the tokens from the second on, nats."""
    likeliest: Likeliest
    """n rows: in place of the tokens from the second on, and of the one after the sequence."""

    @property
    def nbytes(self) -> int:
        """Memory it holds, in bytes."""
        return self.logprobs.nbytes + self.likeliest.nbytes

    def unpacked(self) -> Scored:
        """As the gateway reads it."""
        *top, next_top = self.likeliest.pairs()
        return Scored(logprobs=(None, *self.logprobs.tolist()), top=((), *top), next_top=next_top)


@dataclass(frozen=True)
class Outlook:
    """What a model expects after each of n positions."""

    logits: torch.Tensor
    """(n, vocabulary), compute dtype."""
    totals: torch.Tensor
    """(n,): log-sum-exp of the logits at fp32."""
    ids: torch.Tensor
    """(n, TOP), int32: the likeliest tokens, best first, equal ones by the lower id."""
    logprobs: torch.Tensor
    """(n, TOP): of `ids`, nats, fp32."""

    def rows(self, start: int, stop: int) -> Outlook:
        """The positions from `start` to before `stop`."""
        return Outlook(
            self.logits[start:stop], self.totals[start:stop], self.ids[start:stop], self.logprobs[start:stop]
        )

    def copy(self) -> Outlook:
        """The same in memory of its own."""
        return Outlook(self.logits.clone(), self.totals.clone(), self.ids.clone(), self.logprobs.clone())

    def logprobs_of(self, tokens: torch.Tensor) -> torch.Tensor:
        """Log-probabilities (n,) of one token per position, nats, fp32."""
        return self.logits.gather(-1, tokens[:, None])[:, 0].float() - self.totals

    def likeliest(self) -> Likeliest:
        """The likeliest tokens, as results hold them."""
        return Likeliest(self.ids.cpu().numpy(), self.logprobs.cpu().numpy())


class FixedShape:
    """A model whose forward passes have one shape per length bucket."""

    def __init__(self, model: Any, *, rows: int, bucket: int, pad_id: int) -> None:
        self.model = model
        self.rows = rows
        self.bucket = bucket
        self.pad_id = pad_id
        self.forwarded = 0
        """Tokens that went through the model, padding included."""
        self.device = model.get_input_embeddings().weight.device
        self._body, self._head = model.base_model, model.get_output_embeddings()
        self._split = self._head is not None and self._body is not model
        self._split = self._split and self._splits_cleanly()
        called = inspect.signature((self._body if self._split else model).forward).parameters
        self._cache_name = "cache" if "cache" in called else "past_key_values"  # renamed within transformers 5

    def padded(self, length: int) -> int:
        """The length that a sequence of `length` tokens is computed at."""
        return -(-length // self.bucket) * self.bucket

    @torch.inference_mode()
    def score(self, sequences: Sequence[Sequence[int]]) -> list[PackedScore]:
        """Score up to `rows` sequences of one bucket.

        Raises:
            InputError: a sequence's log-probabilities are not finite, as when a compute dtype overflows.
        """
        length = self.padded(max(map(len, sequences)))
        ids = torch.full((self.rows, length), self.pad_id, dtype=torch.long)
        for row, sequence in enumerate(sequences):
            ids[row, : len(sequence)] = torch.tensor(sequence)
        ids = ids.to(self.device)
        hidden = self.hidden(ids)
        targets = ids.roll(-1, dims=1)
        span = max(1, LOGITS_AT_ONCE // (self.rows * self.model.config.get_text_config().vocab_size))
        pieces = []
        for start in range(0, length, span):
            stop = min(start + span, length)
            outlook = self.outlook(hidden[:, start:stop])
            own = outlook.logprobs_of(targets[:, start:stop].flatten())
            flat = (own, outlook.ids, outlook.logprobs)
            pieces.append([part.reshape(self.rows, stop - start, *part.shape[1:]) for part in flat])
        own_logprobs, top_ids, top_logprobs = (
            torch.cat(parts, dim=1).cpu().numpy() for parts in zip(*pieces, strict=True)
        )
        results = []
        for row, sequence in enumerate(sequences):
            last = len(sequence) - 1
            following = self.outlook(hidden[row : row + 1, last : last + 1]).likeliest()
            likeliest = Likeliest(
                np.concatenate([top_ids[row, :last], following.ids]),
                np.concatenate([top_logprobs[row, :last], following.logprobs]),
            )
            check_finite(own_logprobs[row, :last], likeliest)
            results.append(PackedScore(own_logprobs[row, :last].copy(), likeliest))
        return results

    def hidden(self, ids: torch.Tensor, cache: Any = None) -> torch.Tensor:
        """What `logits` takes, for every position of `ids` (rows, length)."""
        self.forwarded += ids.numel()
        options = {"input_ids": ids, "use_cache": cache is not None, self._cache_name: cache}
        hidden: torch.Tensor = self._body(**options).last_hidden_state if self._split else self.model(**options).logits
        return hidden

    def hidden_and_state(self, ids: torch.Tensor, cache: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
        """What `logits` takes, and the last layer's state after the final norm, both (rows, .), at the last tokens."""
        if self._split:
            last = self.hidden(ids, cache)[:, -1]
            return last, last
        self.forwarded += ids.numel()
        options = {"input_ids": ids, "use_cache": cache is not None, self._cache_name: cache}
        if "logits_to_keep" in inspect.signature(self.model.forward).parameters:
            options["logits_to_keep"] = 1
        output = self.model(**options, output_hidden_states=True)
        return output.logits[:, -1], output.hidden_states[-1][:, -1]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The vocabulary's logits in the compute dtype."""
        return self._head(hidden) if self._split else hidden

    def outlook(self, hidden: torch.Tensor) -> Outlook:
        """What the model expects after every position of `hidden` (rows, length, ...), row after row."""
        return read(self.logits(hidden).flatten(0, 1))

    def prefill(self, prompt: Sequence[int]) -> tuple[Outlook, Any]:
        """What the model expects after `prompt`, and a new cache that holds it."""
        from transformers import DynamicCache

        cache = DynamicCache(config=self.model.config)
        hidden = self.hidden(torch.tensor([list(prompt)], device=self.device), cache)
        return self.outlook(hidden[:, -1:]), cache

    def quicken(self) -> None:
        """Let plain linear layers multiply few rows from the weight's side, which rounds otherwise; on CPUs at fp32."""
        layers = [layer for layer in self.model.modules() if type(layer) is torch.nn.Linear]
        for layer in layers:
            if layer.weight.device.type == "cpu" and layer.weight.dtype == torch.float32:
                layer.forward = partial(_linear, layer)  # type: ignore[method-assign]

    def continues(self) -> bool:
        """Whether the model can go on from kept keys and values, as far as its settings tell.

        Refused are models whose cache holds more than keys and values by position, whose logits are more than an
        output embedding, or whose positions are encoded by the sequence's length.
        """
        config = self.model.config.get_text_config()
        kinds = set(getattr(config, "layer_types", None) or ())
        takes_cache = self._cache_name in inspect.signature(self._body.forward).parameters
        by_length = any(kind in str(getattr(config, "rope_parameters", None)) for kind in ("longrope", "dynamic"))
        return self._split and takes_cache and kinds <= {"full_attention", "sliding_attention"} and not by_length

    @torch.inference_mode()
    def _splits_cleanly(self) -> bool:
        """Whether body and output embedding, one after the other, are the whole model (some scale or cap logits)."""
        ids = torch.arange(8, device=self.device)[None] % self.model.config.get_text_config().vocab_size
        whole = self.model(input_ids=ids, use_cache=False).logits
        hidden = getattr(self._body(input_ids=ids, use_cache=False), "last_hidden_state", None)
        return hidden is not None and torch.equal(self._head(hidden), whole)


def check_finite(logprobs: NDArray[np.float32], likeliest: Likeliest) -> None:
    """Raise InputError where the model's numbers overflowed."""
    if not (np.isfinite(logprobs).all() and np.isfinite(likeliest.logprobs).all()):
        raise InputError("The model's log-probabilities are not finite at this compute_dtype; set it to float32.")


def read(logits: torch.Tensor) -> Outlook:
    """What `logits` (n, vocabulary) say, as log-softmax at fp32."""
    found = [_read(piece) for piece in torch.split(logits, max(1, _READ_AT_ONCE // logits.shape[-1]))]
    return Outlook(logits, *(torch.cat(parts) for parts in zip(*found, strict=True)))


def totals_of(logits: torch.Tensor) -> torch.Tensor:
    """Log-sum-exp of `logits` (n, vocabulary) at fp32, (n,)."""
    pieces = torch.split(logits, max(1, _READ_AT_ONCE // logits.shape[-1]))
    return torch.cat([piece.float().logsumexp(dim=-1) for piece in pieces])


def _read(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`Outlook`'s totals, ids and logprobs."""
    wide = logits.float()
    totals = wide.logsumexp(dim=-1)
    values, ids = wide.topk(min(TOP, wide.shape[-1]), dim=-1)
    by_id = ids.argsort(dim=-1)
    by_value = values.gather(-1, by_id).argsort(dim=-1, descending=True, stable=True)
    order = by_id.gather(-1, by_value)
    return totals, ids.gather(-1, order).int(), values.gather(-1, order) - totals[:, None]


def _linear(layer: torch.nn.Linear, rows: torch.Tensor) -> torch.Tensor:
    flat = rows.flatten(0, -2)
    if not 1 < len(flat) < _FEW:
        return torch.nn.functional.linear(rows, layer.weight, layer.bias)
    product: torch.Tensor = (layer.weight @ flat.T).T.contiguous()
    if layer.bias is not None:
        product += layer.bias
    return product.reshape(*rows.shape[:-1], -1)
