"""What a model makes of an item: what it expects along continuations, its last state, where it looks.

The context is computed once and its continuations go on from its keys and values, side by side.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from safetyrepro.engine.api import Engine
from safetyrepro.engine.attention import Watch, watchable, watching
from safetyrepro.engine.forward import LOGITS_AT_ONCE, read
from safetyrepro.engine.queued import QueuedEngine
from safetyrepro.errors import InputError

Ids = NDArray[np.int64]
Logprobs = NDArray[np.float32]


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
class _Context:
    """A context that was computed."""

    ids: tuple[int, ...]
    cache: Any
    """Its keys and values; None where the model cannot go on from them."""
    state: Logprobs
    first: torch.Tensor
    """(1, vocabulary): logits after it."""
    attention_entropy: float | None


@dataclass(frozen=True)
class View:
    """One item as one model sees it."""

    state: Logprobs
    """(width,): the last layer's state at the context's last token, after the final norm."""
    attention_entropy: float | None
    """Nats; None where it cannot be read."""
    spans: tuple[Span, ...]
    """In the order of the continuations."""


class Observer:
    """Looks into an engine's model, in the thread that calls; do not let the engine compute meanwhile."""

    def __init__(self, engine: Engine) -> None:
        if not isinstance(engine, QueuedEngine):
            raise InputError("Signals are read inside a model: an upstream server cannot give them.")
        shape = engine._model
        self._network: Any = shape.model
        self._device = shape.device
        self._continues = shape.continues()
        self._max_length = engine.info.max_length
        self.watchable = watchable(self._network)
        called = inspect.signature(self._network.forward).parameters
        self._cache_name = "cache" if "cache" in called else "past_key_values"
        self._keeps = "logits_to_keep" in called
        self._latest: _Context | None = None

    def view(
        self,
        context: Sequence[int],
        continuations: Sequence[Sequence[int]],
        supports: Sequence[Ids | None] | None = None,
    ) -> View:
        """Observe an item.

        Args:
            context: token ids before the answer, at least one.
            continuations: token ids of each continuation, at least one each.
            supports: per continuation the tokens (n, k) whose log-probabilities are wanted too, or None; one that the
                model does not have gets -inf.

        Raises:
            InputError: a sequence is longer than the model takes, or log-probabilities are not finite.
        """
        longest = len(context) + max((len(ids) for ids in continuations), default=0)
        if longest > self._max_length:
            raise InputError(f"An item has {longest} tokens, the model takes {self._max_length}.")
        with torch.inference_mode():
            seen = self._seen(tuple(context))
            wanted = supports or [None] * len(continuations)
            spans: list[Span] = []
            for start, stop in self._batches(continuations):
                logits = self._following(seen, continuations[start:stop])
                rows = zip(continuations[start:stop], wanted[start:stop], logits, strict=True)
                spans += [_span(ids, support, row[: len(ids)]) for ids, support, row in rows]
        return View(seen.state, seen.attention_entropy, tuple(spans))

    def _seen(self, context: tuple[int, ...]) -> _Context:
        """A context, computed unless it was the latest one."""
        if self._latest is None or self._latest.ids != context:
            self._latest = None
            if self.watchable:
                with watching(self._network) as watch:
                    self._latest = self._computed(context, watch)
            else:
                self._latest = self._computed(context, None)
        return self._latest

    def _computed(self, context: tuple[int, ...], watch: Watch | None) -> _Context:
        from transformers import DynamicCache

        cache = DynamicCache(config=self._network.config) if self._continues else None
        output = self._forward([list(context)], cache, keep=1)
        state = output.hidden_states[-1][0, -1].float().cpu().numpy()
        return _Context(context, cache, state, output.logits[:, -1], None if watch is None else watch.entropy)

    def _following(self, seen: _Context, continuations: Sequence[Sequence[int]]) -> torch.Tensor:
        """Logits (rows, longest, vocabulary) in place of every continuation's tokens."""
        rows, longest = len(continuations), max(map(len, continuations))
        opening = seen.first.expand(rows, -1)[:, None]
        if longest == 1:
            return opening
        # What stands behind a row's end is never seen by its own tokens, so that any token pads.
        padded = [[*ids[:-1], *[0] * (longest - len(ids))] for ids in continuations]
        if seen.cache is None:
            whole = self._forward([[*seen.ids, *ids] for ids in padded], None, keep=longest)
            logits: torch.Tensor = whole.logits[:, -longest:]
            return logits
        cache = copy.deepcopy(seen.cache)
        cache.batch_repeat_interleave(rows)
        return torch.cat([opening, self._forward(padded, cache, keep=0).logits], dim=1)

    def _batches(self, continuations: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
        """Runs of continuations whose logits fit into one piece of memory."""
        vocabulary = int(self._network.config.get_text_config().vocab_size)
        longest = max(map(len, continuations), default=1)
        rows = max(1, 4 * LOGITS_AT_ONCE // (vocabulary * longest))
        return [(start, min(start + rows, len(continuations))) for start in range(0, len(continuations), rows)]

    def _forward(self, rows: list[list[int]], cache: Any, *, keep: int) -> Any:
        options: dict[str, Any] = {
            "input_ids": torch.tensor(rows, device=self._device),
            "use_cache": cache is not None,
            "output_hidden_states": keep == 1,
            self._cache_name: cache,
        }
        if self._keeps:
            options["logits_to_keep"] = keep
        return self._network(**options)


def _span(ids: Sequence[int], support: Ids | None, logits: torch.Tensor) -> Span:
    outlook = read(logits)
    own = outlook.logprobs_of(torch.tensor(list(ids), device=logits.device)).cpu().numpy()
    if not np.isfinite(own).all():
        raise InputError("The model's log-probabilities are not finite at this compute_dtype; set it to float32.")
    asked = None
    if support is not None:
        tokens = torch.from_numpy(support).to(logits.device)
        known = tokens < logits.shape[-1]
        picked = logits.gather(-1, tokens.where(known, 0)).float() - outlook.totals[:, None]
        asked = picked.where(known, -torch.inf).cpu().numpy()
    likeliest = outlook.likeliest()
    return Span(own, likeliest.ids.astype(np.int64), likeliest.logprobs, asked)
