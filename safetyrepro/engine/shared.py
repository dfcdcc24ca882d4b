"""The engine in shared mode: whatever waits is answered in one pass that computes common beginnings once."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Final

from safetyrepro.engine.api import ModelInfo
from safetyrepro.engine.packed import PackedShape
from safetyrepro.engine.queued import Job, QueuedEngine, Result
from safetyrepro.engine.requests import Answer, Request
from safetyrepro.engine.sharing import SharedPass
from safetyrepro.engine.tokenizer import FastTokenizer

QUIET: Final = 0.1
"""Seconds without a new request after which a pass that writes begins."""
LONGEST: Final = 1.0
"""Seconds after which it begins in any case."""


class SharedEngine(QueuedEngine):
    """`safetyrepro.engine.api.Engine` whose results depend on what else is asked, by rounding alone."""

    def __init__(self, info: ModelInfo, tokenizer: FastTokenizer, shape: PackedShape, threads: int) -> None:
        self._packed = shape
        super().__init__(info, tokenizer, shape, threads)

    def _key(self, job: Job) -> Hashable:
        return _request(job)

    def _gather(self) -> None:
        """Where texts are asked for, wait until no more come: whoever comes later waits for the longest of them."""
        until = time.monotonic() + LONGEST
        while not self._closed and any(job.decoding is not None for job in self._waiting):
            before, left = len(self._waiting), until - time.monotonic()
            if left <= 0:
                return
            self._wake.wait(min(QUIET, left))
            if len(self._waiting) == before:
                return

    def _take(self) -> list[Job]:
        """Everything."""
        self._gather()
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def _compute(self, batch: list[Job], deliver: Callable[[Job, Result], None]) -> None:
        alike: dict[Request, list[Job]] = {}
        for job in batch:
            alike.setdefault(_request(job), []).append(job)
        requests = list(alike)

        def answered(at: int, answer: Answer) -> None:
            for job in alike[requests[at]]:
                deliver(job, answer)

        def given_up(at: int) -> bool:
            return all(job.given_up() for job in alike[requests[at]])

        longest = self.info.max_length
        SharedPass(self._packed, self._fast, requests, longest, answered, lambda: self._closed, given_up).run()


def _request(job: Job) -> Request:
    return Request(job.ids, job.start, job.top, job.decoding)
