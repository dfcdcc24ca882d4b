"""Items looked at one by one, so that an item's numbers depend on the item alone."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from safetyrepro.engine.attention import Watch, watchable, watching
from safetyrepro.engine.forward import LOGITS_AT_ONCE, FixedShape
from safetyrepro.engine.observing.spans import Asked, read_spans
from safetyrepro.engine.observing.view import Logprobs, Look, Span, View


@dataclass(frozen=True)
class _Context:
    """A context that was computed."""

    ids: tuple[int, ...]
    cache: Any
    """Its keys and values; None where the model cannot go on from them."""
    state: Logprobs
    last: torch.Tensor
    """(1, .): what `logits` takes, after its last token."""
    attention_entropy: float | None


class Alone:
    """Each item by itself: its context computed once, its continuations side by side from the context's keys on."""

    def __init__(self, shape: FixedShape) -> None:
        self._shape = shape
        self._continues = shape.continues()
        self._watchable = watchable(shape.model)
        vocabulary = int(shape.model.config.get_text_config().vocab_size)
        self._logits_rows = max(1, LOGITS_AT_ONCE // vocabulary)
        self._latest: _Context | None = None

    def views(self, looks: Sequence[Look]) -> list[View]:
        """As `Observer.views`."""
        return [self._view(look) for look in looks]

    def _view(self, look: Look) -> View:
        seen = self._seen(look.context)
        spans: list[Span] = []
        for start, stop in self._batches(look.continuations):
            hidden = self._following(seen, look.continuations[start:stop])
            asked = [
                Asked(row * hidden.shape[1] + np.arange(len(ids)), ids, support)
                for row, (ids, support) in enumerate(
                    zip(look.continuations[start:stop], look.supports[start:stop], strict=True)
                )
            ]
            spans += read_spans(asked, hidden.flatten(0, 1), self._shape.logits, self._logits_rows)
        return View(seen.state, seen.attention_entropy, tuple(spans))

    def _seen(self, context: tuple[int, ...]) -> _Context:
        """A context, computed unless it was the latest one."""
        if self._latest is None or self._latest.ids != context:
            self._latest = None
            if self._watchable:
                with watching(self._shape.model) as watch:
                    self._latest = self._computed(context, watch)
            else:
                self._latest = self._computed(context, None)
        return self._latest

    def _computed(self, context: tuple[int, ...], watch: Watch | None) -> _Context:
        from transformers import DynamicCache

        cache = DynamicCache(config=self._shape.model.config) if self._continues else None
        last, state = self._shape.hidden_and_state(self._ids([context]), cache)
        entropy = None if watch is None else watch.entropy
        return _Context(context, cache, state[0].float().cpu().numpy(), last, entropy)

    def _following(self, seen: _Context, continuations: Sequence[Sequence[int]]) -> torch.Tensor:
        """What `logits` takes, (rows, longest, .), in place of every continuation's tokens."""
        rows, longest = len(continuations), max(map(len, continuations))
        opening = seen.last.expand(rows, -1)[:, None]
        if longest == 1:
            return opening
        # What stands behind a row's end is never seen by its own tokens, so that any token pads.
        padded = [[*ids[:-1], *[0] * (longest - len(ids))] for ids in continuations]
        if seen.cache is None:
            return self._shape.hidden(self._ids([[*seen.ids, *ids] for ids in padded]))[:, -longest:]
        cache = copy.deepcopy(seen.cache)
        cache.batch_repeat_interleave(rows)
        return torch.cat([opening, self._shape.hidden(self._ids(padded), cache)], dim=1)

    def _batches(self, continuations: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
        """Runs of continuations, each of about four pieces of logits."""
        longest = max(map(len, continuations), default=1)
        rows = max(1, 4 * self._logits_rows // longest)
        return [(start, min(start + rows, len(continuations))) for start in range(0, len(continuations), rows)]

    def _ids(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        return torch.tensor([list(row) for row in rows], device=self._shape.device)
