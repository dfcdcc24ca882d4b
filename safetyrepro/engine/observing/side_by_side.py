"""Items looked at together, in packed rows: common beginnings go through the model once.

What was looked at in the latest call is kept as hidden states, which are small beside logits: to ask for other tokens'
likelihoods in the same place costs the output embedding alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from safetyrepro.engine.observing.spans import Asked, read_spans
from safetyrepro.engine.observing.view import Look, Span, View
from safetyrepro.engine.packed import PackedShape, Watched
from safetyrepro.engine.row import PackedRow
from safetyrepro.engine.tree import Nodes, prefix_tree
from safetyrepro.errors import InputError

_Sequence = tuple[tuple[int, ...], tuple[int, ...]]
"""A context and a continuation; an empty one is the context alone."""


@dataclass
class _Kept:
    """What the latest call computed."""

    states: dict[tuple[int, ...], torch.Tensor] = field(default_factory=dict)
    """Per context (1, width): what `logits` takes, after its last token."""
    entropies: dict[tuple[int, ...], float] = field(default_factory=dict)
    """Per context."""
    behind: dict[_Sequence, torch.Tensor] = field(default_factory=dict)
    """Per continuation of n tokens (n - 1, width): after all of them but the last."""


class SideBySide:
    """All items of a call in one prefix tree."""

    def __init__(self, shape: PackedShape) -> None:
        self._shape = shape
        self._kept = _Kept()

    def views(self, looks: Sequence[Look]) -> list[View]:
        """As `Observer.views`."""
        self._keep(looks)
        spans = iter(self._spans(looks))
        found = []
        for look in looks:
            state = self._kept.states[look.context][0].float().cpu().numpy()
            own = tuple(next(spans) for _ in look.continuations)
            found.append(View(state, self._kept.entropies[look.context], own))
        return found

    def _keep(self, looks: Sequence[Look]) -> None:
        """Compute what these looks need and the latest ones did not, and keep what these need."""
        before, kept = self._kept, _Kept()
        wanted = dict.fromkeys((look.context, ids) for look in looks for ids in ((), *look.continuations))
        missing = [key for key in wanted if key not in before.behind]
        if missing:
            self._compute(missing, before)
        for context, ids in wanted:
            kept.states[context], kept.entropies[context] = before.states[context], before.entropies[context]
            kept.behind[context, ids] = before.behind[context, ids]
        self._kept = kept

    def _compute(self, missing: Sequence[_Sequence], kept: _Kept) -> None:
        tree = prefix_tree([(*context, *ids[:-1]) for context, ids in missing], [len(key[0]) - 1 for key in missing])
        wanted = np.unique(np.concatenate(tree.paths))
        row_of = np.zeros(len(tree.tokens), dtype=np.int64)
        row_of[wanted] = np.arange(len(wanted))
        row = PackedRow(self._shape, tree, [])
        ends = np.unique([path[0] for path in tree.paths])
        entropies = np.zeros(len(tree.tokens))
        pieces, at = [], 0
        while at < len(tree.tokens):
            row.drop([at], must=row.room() < self._shape.pack_tokens)
            most = min(self._shape.pack_tokens, row.room())
            if most <= 0:
                raise InputError("An item's keys and values need more room than cache_mb gives: raise cache_mb.")
            nodes: Nodes = np.arange(at, min(at + most, len(tree.tokens)))
            watched = Watched(self._shape.layers - 1, np.flatnonzero(np.isin(nodes, ends)))
            hidden = row.forward([], nodes, watched)
            pieces.append(hidden[torch.from_numpy(np.flatnonzero(np.isin(nodes, wanted))).to(hidden.device)])
            entropies[nodes[watched.tokens]] = watched.entropies
            at += len(nodes)
        hidden = torch.cat(pieces)
        for (context, ids), path in zip(missing, tree.paths, strict=True):
            rows = torch.from_numpy(row_of[path]).to(hidden.device)
            kept.states[context], kept.entropies[context] = hidden[rows[:1]], float(entropies[path[0]])
            kept.behind[context, ids] = hidden[rows[1:]]

    def _spans(self, looks: Sequence[Look]) -> list[Span]:
        """All continuations, in order."""
        contexts = list(dict.fromkeys(look.context for look in looks))
        first = {context: at for at, context in enumerate(contexts)}
        states, asked, at = [self._kept.states[context] for context in contexts], [], len(contexts)
        for look in looks:
            for ids, support in zip(look.continuations, look.supports, strict=True):
                states.append(self._kept.behind[look.context, ids])
                rows = np.array([first[look.context], *range(at, at + len(ids) - 1)], dtype=np.int64)
                asked.append(Asked(rows, ids, support))
                at += len(ids) - 1
        if not asked:
            return []
        return read_spans(asked, torch.cat(states), self._shape.logits, self._shape.logits_rows)
