"""The engine in exact mode: one thread owns the model and takes jobs from every other thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Final

import torch

from safetyrepro.engine.api import Decoding, Generated, ModelInfo, Scored, Tokenizer
from safetyrepro.engine.forward import FixedShape, PackedScore
from safetyrepro.engine.generation import PackedGeneration, generate
from safetyrepro.engine.memo import Memo
from safetyrepro.engine.tokenizer import FastTokenizer
from safetyrepro.errors import InputError

MEMO_BYTES: Final = 512 * 1024 * 1024
"""How much the memo of one engine holds: about 16,000 scored sequences of 200 tokens."""


@dataclass
class _Job:
    ids: tuple[int, ...]
    decoding: Decoding | None
    """None scores the ids; otherwise they are continued."""
    memo: bool
    result: Future[PackedScore | PackedGeneration]
    from_memo: bool = False

    @property
    def key(self) -> Hashable:
        """Of the memo; an engine has a memo of its own, so that numerics need no place in it."""
        return (self.ids, self.decoding)


class ExactEngine:
    """`safetyrepro.engine.api.Engine` whose results depend on the token ids and the decoding alone."""

    def __init__(self, info: ModelInfo, tokenizer: FastTokenizer, shape: FixedShape, threads: int) -> None:
        self.info = info
        self.tokenizer: Tokenizer = tokenizer
        self._fast = tokenizer
        self._shape = shape
        self._threads = threads
        self._vocabulary = int(shape.model.get_input_embeddings().weight.shape[0])
        self._memo: Memo[PackedScore | PackedGeneration] = Memo(MEMO_BYTES)
        self._waiting: deque[_Job] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._asked = 0
        self._worker = threading.Thread(target=self._work, name="engine", daemon=True)
        self._worker.start()

    def score(self, sequences: Sequence[Sequence[int]], *, memo: bool = True) -> list[Scored]:
        """Score whole sequences.

        Raises:
            InputError: a sequence is empty, longer than the model takes, or holds an id outside its vocabulary.
        """
        results = self._ask([tuple(sequence) for sequence in sequences], None, memo)
        return [
            replace(result.unpacked(), from_memo=held) for result, held in results if isinstance(result, PackedScore)
        ]

    def generate(self, prompts: Sequence[Sequence[int]], decoding: Decoding, *, memo: bool = True) -> list[Generated]:
        """Continue each prompt.

        Raises:
            InputError: as for `score`, or a prompt leaves no room for a token, or `max_tokens` is below 1.
        """
        if decoding.max_tokens < 1:
            raise InputError(f"max_tokens is {decoding.max_tokens}: ask for at least one token.")
        results = self._ask([tuple(prompt) for prompt in prompts], decoding, memo)
        return [
            replace(result.unpacked(), from_memo=held)
            for result, held in results
            if isinstance(result, PackedGeneration)
        ]

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
        return self._shape.forwarded

    def close(self) -> None:
        """End the engine's thread; jobs that still wait fail. May be called twice."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self._worker.join()

    def _ask(
        self, batch: list[tuple[int, ...]], decoding: Decoding | None, memo: bool
    ) -> list[tuple[PackedScore | PackedGeneration, bool]]:
        """Results in order, each with whether it came from the memo."""
        room = self.info.max_length if decoding is None else self.info.max_length - 1
        for ids in batch:
            if not ids:
                raise InputError("A sequence holds no token; send at least one.")
            if len(ids) > room:
                raise InputError(f"A sequence has {len(ids)} tokens, the model takes at most {room} here; shorten it.")
            if min(ids) < 0 or max(ids) >= self._vocabulary:
                outside = next(token for token in ids if not 0 <= token < self._vocabulary)
                raise InputError(f"Token id {outside} is outside the model's vocabulary of {self._vocabulary}.")
        jobs = [_Job(ids, decoding, memo, Future()) for ids in batch]
        fresh = [job for job in jobs if not self._remembered(job)]
        with self._wake:
            if self._closed:
                raise RuntimeError("the engine is closed")
            self._asked += sum(map(len, batch))
            self._waiting.extend(fresh)
            self._wake.notify_all()
        return [(job.result.result(), job.from_memo) for job in jobs]

    def _remembered(self, job: _Job) -> bool:
        found = self._memo.get(job.key) if job.memo else None
        if found is not None:
            job.from_memo = True
            job.result.set_result(found)
        return found is not None

    def _work(self) -> None:
        torch.set_num_threads(self._threads)
        while batch := self._next_batch():
            fresh = [job for job in batch if not self._remembered(job)]
            if fresh:
                self._settle(fresh)

    def _settle(self, batch: list[_Job]) -> None:
        try:
            results = self._compute(batch)
        except Exception as error:
            if len(batch) > 1:  # a sequence that fails must not take along those that happened to come with it
                for job in batch:
                    self._settle([job])
            else:
                batch[0].result.set_exception(error)
            return
        for job, result in zip(batch, results, strict=True):
            if job.memo:
                self._memo.put(job.key, result)
            job.result.set_result(result)

    def _next_batch(self) -> list[_Job]:
        """The oldest job, with others of its shape where a forward pass has room; nothing once closed."""
        with self._wake:
            while not self._waiting and not self._closed:
                self._wake.wait()
            if self._closed:
                for job in self._waiting:
                    job.result.set_exception(RuntimeError("the engine was closed"))
                self._waiting.clear()
                return []
            first = self._waiting.popleft()
            if first.decoding is not None:
                return [first]
            length = self._shape.padded(len(first.ids))
            fits = (job for job in self._waiting if job.decoding is None and self._shape.padded(len(job.ids)) == length)
            batch = [first, *(job for job, _ in zip(fits, range(self._shape.rows - 1), strict=False))]
            chosen = {id(job) for job in batch}
            self._waiting = deque(job for job in self._waiting if id(job) not in chosen)
            return batch

    def _compute(self, batch: list[_Job]) -> Sequence[PackedScore | PackedGeneration]:
        decoding = batch[0].decoding
        if decoding is None:
            return self._shape.score([job.ids for job in batch])
        return [generate(self._shape, self._fast, batch[0].ids, decoding, self.info.max_length)]
