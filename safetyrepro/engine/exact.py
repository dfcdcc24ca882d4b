"""The engine in exact mode: every sequence at a shape of its own, so that a result depends on its token ids alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from safetyrepro.engine.api import ModelInfo
from safetyrepro.engine.forward import FixedShape
from safetyrepro.engine.generation import generate
from safetyrepro.engine.queued import Job, QueuedEngine, Result
from safetyrepro.engine.tokenizer import FastTokenizer


class ExactEngine(QueuedEngine):
    """`safetyrepro.engine.api.Engine` whose results depend on the token ids and the decoding alone."""

    def __init__(self, info: ModelInfo, tokenizer: FastTokenizer, shape: FixedShape, threads: int) -> None:
        self._shape = shape
        super().__init__(info, tokenizer, shape, threads)

    def _take(self) -> list[Job]:
        """The oldest job, with others of its shape where a forward pass has room."""
        first = self._waiting.popleft()
        if first.decoding is not None:
            return [first]
        length = self._shape.padded(len(first.ids))
        fits = (job for job in self._waiting if job.decoding is None and self._shape.padded(len(job.ids)) == length)
        batch = [first, *(job for job, _ in zip(fits, range(self._shape.rows - 1), strict=False))]
        chosen = {id(job) for job in batch}
        self._waiting = deque(job for job in self._waiting if id(job) not in chosen)
        return batch

    def _compute(self, batch: list[Job], deliver: Callable[[Job, Result], None]) -> None:
        first = batch[0]
        if first.decoding is not None:
            longest = self.info.max_length
            deliver(first, generate(self._shape, self._fast, first.ids, first.decoding, longest, first.given_up))
            return
        for job, result in zip(batch, self._shape.score([job.ids for job in batch]), strict=True):
            deliver(job, result)
