"""Items looked at one by one, so that an item's numbers depend on the item alone."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from safetyrepro.engine.attention import Watch, watchable, watching
from safetyrepro.engine.forward import LOGITS_AT_ONCE, FixedShape, read
from safetyrepro.engine.observing.spans import read_span
from safetyrepro.engine.observing.view import Logprobs, Look, Span, View


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


class Alone:
    """Each item by itself: its context computed once, its continuations side by side from the context's keys on."""

    def __init__(self, shape: FixedShape) -> None:
        self._network: Any = shape.model
        self._device = shape.device
        self._continues = shape.continues()
        self._watchable = watchable(self._network)
        called = inspect.signature(self._network.forward).parameters
        self._cache_name = "cache" if "cache" in called else "past_key_values"
        self._keeps = "logits_to_keep" in called
        self._latest: _Context | None = None

    def views(self, looks: Sequence[Look]) -> list[View]:
        """As `Observer.views`."""
        return [self._view(look) for look in looks]

    def _view(self, look: Look) -> View:
        seen = self._seen(look.context)
        spans: list[Span] = []
        for start, stop in self._batches(look.continuations):
            logits = self._following(seen, look.continuations[start:stop])
            rows = zip(look.continuations[start:stop], look.supports[start:stop], logits, strict=True)
            for ids, support, row in rows:
                places = torch.arange(len(ids), device=self._device)
                spans.append(read_span(read(row[: len(ids)]), places, ids, support))
        return View(seen.state, seen.attention_entropy, tuple(spans))

    def _seen(self, context: tuple[int, ...]) -> _Context:
        """A context, computed unless it was the latest one."""
        if self._latest is None or self._latest.ids != context:
            self._latest = None
            if self._watchable:
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
