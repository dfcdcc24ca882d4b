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
        waiting = _Waiting()

        def answered(number: int, answer: Answer) -> None:
            for job in waiting.end(number):
                deliver(job, answer)

        def newcomers() -> list[Request]:
            with self._wake:
                taken = self._all_waiting() if self._waiting and self._until_quiet() <= 0 else []
            wanted = still_wanted([job for job in taken if not self._remembered(job)])
            if wanted:
                batch[:] = [*(job for job in batch if not job.result.done()), *wanted]
            return waiting.admit(wanted)

        SharedPass(
            self._packed,
            self._fast,
            waiting.admit(batch),
            self.info.max_length,
            answered,
            lambda: self._closed,
            waiting.given_up,
            newcomers,
        ).run()


class _Waiting:
    """The jobs that wait for each request of a pass, by its number."""

    def __init__(self) -> None:
        self._numbers: dict[Request, int] = {}
        """Of the requests under way."""
        self._jobs: list[list[Job]] = []

    def admit(self, jobs: Sequence[Job]) -> list[Request]:
        """Take note of further jobs; the requests among them that are not under way yet."""
        fresh = []
        for job in jobs:
            request = _request(job)
            if request not in self._numbers:
                self._numbers[request] = len(self._jobs)
                self._jobs.append([])
                fresh.append(request)
            self._jobs[self._numbers[request]].append(job)
        return fresh

    def end(self, number: int) -> list[Job]:
        """Those that waited for a request, which is under way no more."""
        found, self._jobs[number] = self._jobs[number], []
        if found:
            del self._numbers[_request(found[0])]
        return found

    def given_up(self, number: int) -> bool:
        """Whether nobody waits for a request; it then ends."""
        if not all(job.given_up() for job in self._jobs[number]):
            return False
        give_up(self.end(number))
        return True


def _request(job: Job) -> Request:
    return Request(job.ids, job.start, job.top, job.decoding)
