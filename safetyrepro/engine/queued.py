"""An engine's outside: one thread owns the model and takes jobs from every other thread."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import torch

from safetyrepro.engine.api import (
    Decoding,
    Generated,
    GenerateRequest,
    GivenUp,
    ModelInfo,
    Scored,
    ScoreRequest,
    Tokenizer,
    given_up,
)
from safetyrepro.engine.forward import FixedShape
from safetyrepro.engine.generation import PackedGeneration
from safetyrepro.engine.memo import Memo
from safetyrepro.engine.tokenizer import FastTokenizer
from safetyrepro.errors import InputError

MEMO_BYTES: Final = 512 * 1024 * 1024
"""How much the memo of one engine holds: about 16,000 scored sequences of 200 tokens."""


class ScoreResult(Protocol):
    """A score as the memo keeps it."""

    @property
    def nbytes(self) -> int:
        """Memory it holds, in bytes."""
        ...

    def unpacked(self) -> Scored:
        """As the gateway reads it."""
        ...


Result = ScoreResult | PackedGeneration


@dataclass
class Job:
    """One sequence to score or prompt to continue, and where the result goes."""

    ids: tuple[int, ...]
    decoding: Decoding | None
    """None scores the ids; otherwise they are continued."""
    memo: bool
    start: int = 1
    top: bool = True
    given_up: Callable[[], bool] = field(default_factory=given_up.get)
    """Whether nobody waits for it any more."""
    asked: float = field(default_factory=time.monotonic)
    result: Future[Result] = field(default_factory=Future)
    from_memo: bool = False

    def scored(self) -> Scored:
        """The result of a job that scores, once it is there."""
        result = self.result.result()
        assert not isinstance(result, PackedGeneration)
        return replace(narrowed(result.unpacked(), self.start, self.top), from_memo=self.from_memo)

    def generated(self) -> Generated:
        """The result of a job that generates, once it is there."""
        result = self.result.result()
        assert isinstance(result, PackedGeneration)
        whole = result.unpacked()
        return replace(whole, top=whole.top if self.top else (), from_memo=self.from_memo)


def narrowed(scored: Scored, start: int, top: bool) -> Scored:
    """The part of `scored` that a request asked for: its span, and the likeliest tokens only where `top`."""
    if start <= 1 and top:
        return scored
    logprobs = (None,) * start + scored.logprobs[start:]
    if not top:
        return Scored(logprobs, ((),) * len(logprobs), ())
    return Scored(logprobs, ((),) * start + scored.top[start:], scored.next_top)


class QueuedEngine(ABC):
    """`safetyrepro.engine.api.Engine` less the computation itself."""

    def __init__(self, info: ModelInfo, tokenizer: FastTokenizer, shape: FixedShape, threads: int) -> None:
        self.info = info
        self.tokenizer: Tokenizer = tokenizer
        self._fast = tokenizer
        self._model = shape
        self._threads = threads
        self.vocabulary = int(shape.model.get_input_embeddings().weight.shape[0])
        """Token ids are below this."""
        self._memo: Memo[Result] = Memo(MEMO_BYTES)
        self._waiting: deque[Job] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._asked = 0
        self._worker = threading.Thread(target=self._work, name="engine", daemon=True)
        self._worker.start()

    @abstractmethod
    def _take(self) -> list[Job]:
        """Remove from `_waiting`, which holds at least one, the jobs that are computed next; `_wake` is held."""

    @abstractmethod
    def _compute(self, batch: list[Job], deliver: Callable[[Job, Result], None]) -> None:
        """Compute `batch`, to which others that wait may be added, and deliver every result but of those given up."""

    def _key(self, job: Job) -> Hashable:
        """Of the memo; an engine has a memo of its own, so that numerics need no place in it."""
        return (job.ids, job.decoding)

    def score(self, sequences: Sequence[Sequence[int]], *, memo: bool = True) -> list[Scored]:
        """Score whole sequences.

        Raises:
            InputError: a sequence is empty, longer than the model takes, or holds an id outside its vocabulary.
        """
        jobs = [Job(tuple(sequence), None, memo) for sequence in sequences]
        self._ask(jobs)
        return [job.scored() for job in jobs]

    def generate(self, prompts: Sequence[Sequence[int]], decoding: Decoding, *, memo: bool = True) -> list[Generated]:
        """Continue each prompt.

        Raises:
            InputError: as for `score`, or a prompt leaves no room for a token, or `max_tokens` is below 1.
        """
        jobs = [Job(tuple(prompt), decoding, memo) for prompt in prompts]
        self._ask(jobs)
        return [job.generated() for job in jobs]

    def answer(
        self,
        scores: Sequence[ScoreRequest] = (),
        generations: Sequence[GenerateRequest] = (),
        *,
        memo: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> tuple[list[Scored], list[Generated]]:
        """As `safetyrepro.engine.api.Engine.answer`; `progress` is called in the engine's thread.

        Raises:
            InputError: as for `score` and `generate`, or a span starts outside its sequence.
        """
        to_score = [Job(tuple(ask.ids), None, memo, ask.start, ask.top) for ask in scores]
        to_continue = [Job(tuple(ask.ids), ask.decoding, memo, top=ask.top) for ask in generations]
        for job in to_score:
            if not 1 <= job.start < max(2, len(job.ids)):
                raise InputError(
                    f"A span starts at token {job.start} of {len(job.ids)}: it starts at 1 or later, and holds a token."
                )
        if progress is not None:
            _count([*to_score, *to_continue], progress)
        self._ask([*to_score, *to_continue])
        return [job.scored() for job in to_score], [job.generated() for job in to_continue]

    def memo_hits(self) -> int:
        """How many sequences were answered from the memo since the load."""
        return self._memo.hits

    @property
    def tokens_asked(self) -> int:
        """Tokens of the sequences and prompts asked for since the load, answers from the memo included."""
        return self._asked

    @property
    def tokens_forwarded(self) -> int:
        """Tokens that went through the model since the load: padding, generated ones and the trial at load included."""
        return self._model.forwarded

    def close(self) -> None:
        """End the engine's thread; jobs that still wait fail. May be called twice."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self._worker.join()

    def _ask(self, jobs: Sequence[Job]) -> None:
        """Put the jobs that the memo cannot answer before the engine's thread."""
        for job in jobs:
            self._check(job)
        fresh = [job for job in jobs if not self._remembered(job)]
        with self._wake:
            if self._closed:
                raise RuntimeError("the engine is closed")
            self._asked += sum(len(job.ids) for job in jobs)
            self._waiting.extend(fresh)
            self._wake.notify_all()

    def _check(self, job: Job) -> None:
        ids, decoding = job.ids, job.decoding
        room = self.info.max_length if decoding is None else self.info.max_length - 1
        if decoding is not None and decoding.max_tokens < 1:
            raise InputError(f"max_tokens is {decoding.max_tokens}: ask for at least one token.")
        if not ids:
            raise InputError("A sequence holds no token; send at least one.")
        if len(ids) > room:
            raise InputError(f"A sequence has {len(ids)} tokens, the model takes at most {room} here; shorten it.")
        check_ids(ids, self.vocabulary)

    def _remembered(self, job: Job) -> bool:
        found = self._memo.get(self._key(job)) if job.memo else None
        if found is not None:
            job.from_memo = True
            job.result.set_result(found)
        return found is not None

    def _work(self) -> None:
        torch.set_num_threads(self._threads)
        while batch := self._next_batch():
            fresh = [job for job in batch if not self._remembered(job)]
            if wanted := still_wanted(fresh):
                self._settle(wanted)

    def _next_batch(self) -> list[Job]:
        """What is computed next; nothing once closed."""
        with self._wake:
            while not self._waiting and not self._closed:
                self._wake.wait()
            if self._closed:
                for job in self._waiting:
                    job.result.set_exception(RuntimeError("the engine was closed"))
                self._waiting.clear()
                return []
            return self._take()

    def _settle(self, batch: list[Job]) -> None:
        try:
            self._compute(batch, self._deliver)
        except Exception as error:
            left = [job for job in batch if not job.result.done()]
            if len(batch) == 1 or self._closed:
                for job in left:
                    job.result.set_exception(error)
                return
            # A sequence that fails must not take along those that happened to come with it.
            for half in (left[: len(left) // 2], left[len(left) // 2 :]):
                if half:
                    self._settle(half)
            return
        give_up(batch)

    def _deliver(self, job: Job, result: Result) -> None:
        if job.memo:
            self._memo.put(self._key(job), result)
        job.result.set_result(result)


def still_wanted(jobs: Sequence[Job]) -> list[Job]:
    """Those that somebody waits for; the others end."""
    wanted = [job for job in jobs if not job.given_up()]
    kept = {id(job) for job in wanted}
    give_up(job for job in jobs if id(job) not in kept)
    return wanted


def give_up(jobs: Iterable[Job]) -> None:
    """End those of `jobs` that have no result."""
    for job in jobs:
        if not job.result.done():
            job.result.set_exception(GivenUp())


def check_ids(ids: Sequence[int], vocabulary: int) -> None:
    """Refuse token ids that a model has no embedding for.

    Raises:
        InputError: naming the first one.
    """
    if min(ids) < 0 or max(ids) >= vocabulary:
        outside = next(token for token in ids if not 0 <= token < vocabulary)
        raise InputError(f"Token id {outside} is outside the model's vocabulary of {vocabulary}.")


def _count(jobs: Iterable[Job], progress: Callable[[int], None]) -> None:
    """Call `progress` with the number of finished jobs each time one more is."""
    done = 0
    lock = threading.Lock()

    def another(_: Future[Result]) -> None:
        nonlocal done
        with lock:
            done += 1
            progress(done)

    for job in jobs:
        job.result.add_done_callback(another)
