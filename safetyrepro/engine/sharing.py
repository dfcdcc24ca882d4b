"""One pass over many requests: what they have in common goes through the model once, and each branches off from there.

The token ids of all requests make a prefix tree. Its nodes go through the model in depth-first order, packed into
forward passes with the next tokens of the generations that have begun. Keys and values are held for as long as a node
or a generation to come looks at them. Requests that come while it runs grow the tree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch

from safetyrepro.engine.forward import Likeliest, check_finite, read, totals_of
from safetyrepro.engine.generation import PackedGeneration, Stops
from safetyrepro.engine.packed import PackedShape
from safetyrepro.engine.requests import Answer, PackedBranch, Request
from safetyrepro.engine.row import PackedRow
from safetyrepro.engine.sampling import Sampler
from safetyrepro.engine.scoring import Spans, none_likeliest
from safetyrepro.engine.tokenizer import FastTokenizer
from safetyrepro.engine.tree import EMPTY, Nodes
from safetyrepro.errors import InputError

BRANCHES: Final = 64
"""Generations that go on at once: enough for a pass over the weights to pay."""
MOST_NODES: Final = 1 << 20
"""Nodes from which on a pass takes nobody in, so that it ends some time and its tree is given up."""


@dataclass
class _Branch:
    """A generation under way."""

    request: int
    node: int
    """Of the prompt's last token."""
    room: int
    """Tokens that it may have."""
    sampler: Sampler | None
    stops: Stops
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    likeliest: list[Likeliest] = field(default_factory=list)
    text: str = ""
    reason: str | None = None

    @property
    def to_come(self) -> int:
        """Tokens that it may still put through the model."""
        return self.room - len(self.ids)


class SharedPass:
    """Answers all `requests`, which are distinct, and delivers each answer under its number as soon as it is there.

    Whatever `newcomers()` gives between two forward passes is answered too, numbered behind those before, and shares
    what is still held of the latest prompts. A generation for which `given_up(number)` is true ends without an answer.
    """

    def __init__(
        self,
        shape: PackedShape,
        tokenizer: FastTokenizer,
        requests: Sequence[Request],
        max_length: int,
        deliver: Callable[[int, Answer], None],
        stopped: Callable[[], bool] = lambda: False,
        given_up: Callable[[int], bool] = lambda _: False,
        newcomers: Callable[[], Sequence[Request]] = lambda: (),
    ) -> None:
        self._shape, self._tokenizer, self._max_length = shape, tokenizer, max_length
        self._deliver, self._stopped, self._given_up, self._newcomers = deliver, stopped, given_up, newcomers
        self._requests: list[Request] = []
        self._tree = EMPTY
        self._at = 0
        """Nodes that went through the model: all before this one."""
        self._begins: dict[int, list[int]] = {}
        """Per node to come the requests whose generations branch off it."""
        self._begun = np.zeros(1, dtype=np.int64)
        """Per node how many generations begin before it, and how many in all."""
        self._wanted = np.empty(0, dtype=np.bool_)
        """Whether something is read after a node."""
        self._spans: list[Spans] = []
        self._row = PackedRow(shape, EMPTY, [])
        self._most_active = min(BRANCHES, shape.pack_tokens)
        self._active: list[_Branch] = []
        """In the order of their rows."""
        self._waiting: deque[_Branch] = deque()
        """Generations that have begun and for whose tokens there is no room yet."""
        self._grow(requests)

    def _grow(self, requests: Sequence[Request]) -> None:
        """Take in further requests."""
        size, first = len(self._tree.tokens), len(self._requests)
        places = [ask.place for ask in requests]
        tree = self._tree.grown([ask.forwarded for ask in requests], places, self._row.kept(self._at))
        wanted = np.zeros(len(tree.tokens) - size, dtype=np.bool_)
        branches = np.zeros(len(tree.tokens) - size, dtype=np.int64)
        prompts: list[int] = []
        spans: list[tuple[int, Request, Nodes]] = []
        for number, (ask, path) in enumerate(zip(requests, tree.paths, strict=True), first):
            wanted[path - size] = True
            if ask.decoding is None:
                spans.append((number, ask, path))
                continue
            prompts.append(int(path[-1]))
            self._begins.setdefault(prompts[-1], []).append(number)
            branches[prompts[-1] - size] += 1
        self._requests += requests
        self._tree = tree
        self._begun = np.concatenate([self._begun, self._begun[-1] + branches.cumsum()])
        self._wanted = np.concatenate([self._wanted, wanted])
        self._row.grow(tree, prompts)
        if spans:
            self._spans.append(Spans(spans, self._shape.model.get_input_embeddings().weight.shape[0]))
        self._deliver_scores()

    @torch.inference_mode()
    def run(self) -> None:
        """Answer everything.

        Raises:
            InputError: a request does not fit into `cache_mb`, or its log-probabilities are not finite.
            RuntimeError: it was stopped.
        """
        while self._goes_on():
            if self._stopped():
                raise RuntimeError("the engine was closed")
            if len(self._tree.tokens) < MOST_NODES and (more := self._newcomers()):
                self._grow(more)
            self._activate()
            self._drop()
            nodes = np.arange(self._at, self._at + self._nodes_beside())
            if not self._active and not len(nodes):
                raise InputError("A request's keys and values need more room than cache_mb gives: raise cache_mb.")
            hidden = self._row.forward([branch.ids[-1] for branch in self._active], nodes)
            self._at += len(nodes)
            self._read(hidden, nodes)
            self._end()
            self._deliver_scores()

    def _goes_on(self) -> bool:
        """Whether anything is left, once generations for which nobody waits any more have ended undelivered."""
        for branch in self._active:
            if self._given_up(branch.request):
                branch.reason = "given up"
        self._end()
        self._waiting = deque(branch for branch in self._waiting if not self._given_up(branch.request))
        return self._at < len(self._tree.tokens) or bool(self._active or self._waiting)

    def _activate(self) -> None:
        while self._waiting and len(self._active) < self._most_active:
            branch = self._waiting[0]
            if not self._row.fits(branch.node, branch.room - 1):
                break
            self._row.begin(branch.node, branch.room - 1)
            self._active.append(self._waiting.popleft())

    def _drop(self) -> None:
        """Give up what no node and no generation to come looks at."""
        ahead = [branch.node for branch in self._waiting]
        ahead += [self._at] if self._at < len(self._tree.tokens) else []
        self._row.drop(ahead, must=self._row.room() < self._shape.pack_tokens)

    def _nodes_beside(self) -> int:
        """How many nodes go through the model with the newest tokens of the generations."""
        beside = self._shape.pack_tokens - len(self._active)
        most = min(beside, len(self._tree.tokens) - self._at, self._row.room())
        if self._waiting or most <= 0:
            return 0
        begun = self._begun[self._at :]
        may_begin = self._most_active - len(self._active)
        if not self._active:  # a prompt with more generations than that begins them all, and some wait
            next_begin = min(int(np.searchsorted(begun, begun[0], side="right")), len(begun) - 1)
            may_begin = max(may_begin, int(begun[next_begin] - begun[0]))
        within = int(np.searchsorted(begun, begun[0] + may_begin, side="right")) - 1
        return min(most, within)

    def _end(self) -> None:
        """Take the generations that have ended out of their rows."""
        for row in reversed(range(len(self._active))):
            if self._active[row].reason is not None:
                self._row.end(row)
                last = self._active.pop()
                if row < len(self._active):
                    self._active[row] = last

    def _read(self, hidden: torch.Tensor, nodes: Nodes) -> None:
        """Read what the model expects after the generations' tokens and after the wanted ones of `nodes`."""
        fed = self._active
        wanted = nodes[self._wanted[nodes]]
        rows = np.concatenate([np.arange(len(fed)), len(fed) + np.flatnonzero(self._wanted[nodes])])
        index = torch.from_numpy(rows).to(hidden.device)
        for start in range(0, len(rows), self._shape.logits_rows):
            piece = slice(start, min(start + self._shape.logits_rows, len(rows)))
            logits = self._shape.logits(hidden[index[piece]])
            totals = totals_of(logits)
            after = wanted[max(0, piece.start - len(fed)) : max(0, piece.stop - len(fed))]
            first = max(0, len(fed) - piece.start)
            for spans in self._spans:
                spans.read(after, logits[first:], totals[first:])
            continued = [(branch, row) for row, branch in enumerate(fed[piece])]
            begun = [
                (self._begin(at, int(node)), first + row)
                for row, node in enumerate(after)
                for at in self._begins.pop(int(node), ())
            ]
            self._advance([*continued, *begun], logits, totals)

    def _begin(self, at: int, node: int) -> _Branch:
        ask = self._requests[at]
        assert ask.decoding is not None
        return _Branch(
            at,
            node,
            min(ask.decoding.max_tokens, self._max_length - len(ask.ids)),
            Sampler(ask.ids, ask.decoding) if not ask.decoding.greedy else None,
            Stops(self._tokenizer, ask.decoding.stop),
        )

    def _advance(self, branches: list[tuple[_Branch, int]], logits: torch.Tensor, totals: torch.Tensor) -> None:
        """Give each branch the token that follows from its row of `logits`."""
        if not branches:
            return
        greedy = logits.argmax(dim=-1).tolist()
        for branch, row in branches:
            token = greedy[row] if branch.sampler is None else branch.sampler.token_quickly(logits[row])
            if self._requests[branch.request].top:
                branch.likeliest.append(read(logits[row : row + 1]).likeliest())
            branch.logprobs.append(float(logits[row, token].float() - totals[row]))
            begins = not branch.ids
            branch.ids.append(token)
            ended, branch.text = branch.stops.after(branch.ids)
            if ended or not branch.to_come:
                branch.reason = "stop" if ended else "length"
                self._deliver_generation(branch)
            elif begins:
                self._waiting.append(branch)

    def _deliver_generation(self, branch: _Branch) -> None:
        logprobs = np.array(branch.logprobs, dtype=np.float32)
        likeliest = _joined(branch.likeliest)
        check_finite(logprobs, likeliest)
        kind = PackedGeneration if branch.likeliest else PackedBranch
        assert branch.reason is not None
        self._deliver(branch.request, kind(tuple(branch.ids), branch.text, branch.reason, logprobs, likeliest))

    def _deliver_scores(self) -> None:
        """Deliver the spans whose tokens have all been read."""
        for spans in self._spans:
            for number, scored in spans.scored(self._at):
                self._deliver(number, scored)
        self._spans = [spans for spans in self._spans if not spans.done]


def _joined(pieces: Sequence[Likeliest]) -> Likeliest:
    if not pieces:
        return none_likeliest()
    return Likeliest(
        np.concatenate([piece.ids for piece in pieces]), np.concatenate([piece.logprobs for piece in pieces])
    )
