"""The engine in shared mode: what is asked for is answered in one pass that computes common beginnings once."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from safetyrepro.engine.api import ModelInfo
from safetyrepro.engine.packed import PackedShape
from safetyrepro.engine.queued import Job, QueuedEngine, Result, give_up, still_wanted
from safetyrepro.engine.requests import Answer, Request
from safetyrepro.engine.sharing import SharedPass
from safetyrepro.engine.tokenizer import FastTokenizer

QUIET: Final = 0.1
"""Seconds without a new request after which texts that wait are begun: together they share more."""
LONGEST: Final = 1.0
"""Seconds after which they are begun in any case."""


class SharedEngine(QueuedEngine):
    """`safetyrepro.engine.api.Engine` whose results depend on what else is asked, by rounding alone."""

    def __init__(self, info: ModelInfo, tokenizer: FastTokenizer, shape: PackedShape, threads: int) -> None:
        self._packed = shape
        super().__init__(info, tokenizer, shape, threads)

    def _key(self, job: Job) -> Hashable:
        return _request(job)

    def _until_quiet(self) -> float:
        """Seconds after which those that wait are taken: where texts are among them, once no more come."""
        if not any(job.decoding is not None for job in self._waiting):
            return 0.0
        return min(self._waiting[-1].asked + QUIET, self._waiting[0].asked + LONGEST) - time.monotonic()

    def _take(self) -> list[Job]:
        """Everything."""
        while not self._closed and (left := self._until_quiet()) > 0:
            self._wake.wait(left)
        return self._all_waiting()

    def _all_waiting(self) -> list[Job]:
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def _compute(self, batch: list[Job], deliver: Callable[[Job, Result], None]) -> None:
        """As `QueuedEngine._compute`; whoever comes meanwhile is added to `batch`."""
        under_way: dict[Request, int] = {}
        jobs: list[list[Job]] = []
        """Per number of a request those that wait for its answer."""

        def admitted(more: Sequence[Job]) -> list[Request]:
            fresh = []
            for job in more:
                request = _request(job)
                if request not in under_way:
                    under_way[request] = len(jobs)
                    jobs.append([])
                    fresh.append(request)
                jobs[under_way[request]].append(job)
            return fresh

        def ended(number: int) -> list[Job]:
            found, jobs[number] = jobs[number], []
            if found:
                del under_way[_request(found[0])]
            return found

        def answered(number: int, answer: Answer) -> None:
            for job in ended(number):
                deliver(job, answer)

        def given_up(number: int) -> bool:
            if not all(job.given_up() for job in jobs[number]):
                return False
            give_up(ended(number))
            return True

        def newcomers() -> list[Request]:
            with self._wake:
                taken = self._all_waiting() if self._waiting and self._until_quiet() <= 0 else []
            wanted = still_wanted([job for job in taken if not self._remembered(job)])
            if wanted:
                batch[:] = [*(job for job in batch if not job.result.done()), *wanted]
            return admitted(wanted)

        SharedPass(
            self._packed,
            self._fast,
            admitted(batch),
            self.info.max_length,
            answered,
            lambda: self._closed,
            given_up,
            newcomers,
        ).run()


def _request(job: Job) -> Request:
    return Request(job.ids, job.start, job.top, job.decoding)
