"""Log-probabilities of spans, read while the nodes that they stand on go through the model."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from safetyrepro.engine.api import TOP
from safetyrepro.engine.forward import Likeliest, check_finite, read
from safetyrepro.engine.requests import PackedSpan, Request
from safetyrepro.engine.tree import Nodes


class Spans:
    """The spans of requests that came together."""

    def __init__(self, asks: Sequence[tuple[int, Request, Nodes]], vocabulary: int) -> None:
        """Take note of what is to be read.

        Args:
            asks: Numbers, requests that score, and their paths.
            vocabulary: Of the model.
        """
        self._asks = {number: (ask, path) for number, ask, path in asks}
        nodes = [path[: len(ask.ids) - ask.start] for _, ask, path in asks]
        targets = [token for _, ask, _ in asks for token in ask.ids[ask.start :]]
        by_request = np.concatenate([np.empty(0, dtype=np.int64), *nodes])
        self._order = by_request.argsort(kind="stable")
        self._nodes = by_request[self._order]
        self._targets = np.array(targets, dtype=np.int64)[self._order]
        self._values = np.full(len(by_request), np.nan, dtype=np.float32)
        starts = np.cumsum([0, *map(len, nodes)]).tolist()
        self._places = {
            number: slice(start, stop) for (number, _, _), start, stop in zip(asks, starts, starts[1:], strict=False)
        }
        topped = [path for _, ask, path in asks if ask.top]
        self._topped = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *topped]))
        """Nodes whose likeliest tokens are wanted."""
        shape = (len(self._topped), min(TOP, vocabulary))
        self._likeliest = Likeliest(np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.float32))
        self._ends = deque(sorted((int(path.max(initial=-1)), number) for number, _, path in asks))
        """(node after which its span is scored, request)"""

    def read(self, nodes: Nodes, logits: torch.Tensor, totals: torch.Tensor) -> None:
        """Read from the rows of `nodes` what is wanted after them: ascending ones, all that are wanted of a run."""
        if not len(nodes):
            return
        reads = slice(*np.searchsorted(self._nodes, [nodes[0], nodes[-1] + 1]))
        rows = torch.from_numpy(np.searchsorted(nodes, self._nodes[reads])).to(logits.device)
        targets = torch.from_numpy(self._targets[reads]).to(logits.device)
        self._values[self._order[reads]] = (logits[rows, targets].float() - totals[rows]).cpu().numpy()
        topped = slice(*np.searchsorted(self._topped, [nodes[0], nodes[-1] + 1]))
        if topped.start < topped.stop:
            rows = torch.from_numpy(np.searchsorted(nodes, self._topped[topped])).to(logits.device)
            likeliest = read(logits[rows]).likeliest()
            self._likeliest.ids[topped] = likeliest.ids
            self._likeliest.logprobs[topped] = likeliest.logprobs

    def scored(self, before: int) -> Iterator[tuple[int, PackedSpan]]:
        """Spans all of whose nodes, those before a certain one, have been read; each comes once.

        Raises:
            InputError: a log-probability is not finite.
        """
        while self._ends and self._ends[0][0] < before:
            _, number = self._ends.popleft()
            ask, path = self._asks[number]
            logprobs = self._values[self._places[number]].copy()
            likeliest = None
            if ask.top:
                rows = np.searchsorted(self._topped, path)
                likeliest = Likeliest(self._likeliest.ids[rows], self._likeliest.logprobs[rows])
            check_finite(logprobs, likeliest or none_likeliest())
            yield number, PackedSpan(ask.start, logprobs, likeliest)

    @property
    def done(self) -> bool:
        """Whether all have been scored."""
        return not self._ends


def none_likeliest() -> Likeliest:
    """Of no place."""
    return Likeliest(np.zeros((0, TOP), dtype=np.int32), np.zeros((0, TOP), dtype=np.float32))
