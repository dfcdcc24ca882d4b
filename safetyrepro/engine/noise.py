"""What batch size, threads, dtype and mode change in a model's sums, measured on fixed sequences.

Adding numbers in another order rounds otherwise, and every program and every machine chooses an order of its own. How
far sums move by that is a property of a model and a dtype; a choice between candidates whose sums are nearer than that
is nobody's finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import torch

from safetyrepro.config import ModelSpec
from safetyrepro.engine.forward import FixedShape
from safetyrepro.engine.loading import Opened, open_model
from safetyrepro.engine.packed import PackedShape
from safetyrepro.engine.prefix import CHUNK, ChunkedShape
from safetyrepro.engine.requests import Answer, PackedSpan, Request
from safetyrepro.engine.row import packs
from safetyrepro.engine.sharing import SharedPass

BATCHES: Final = (4, 16)
BUCKET: Final = 16
"""Batches are padded to a multiple of this many tokens."""
BATCH: Final = "batch size"
THREADS: Final = "threads"
MODE: Final = "mode"
DTYPE: Final = "dtype"


@dataclass(frozen=True)
class Candidate:
    """One answer behind its question."""

    question: int
    ids: tuple[int, ...]
    start: int
    """Place of the answer's first token."""


@dataclass(frozen=True)
class Variation:
    """How far sums moved by one thing."""

    what: str
    """`batch size`, `threads`, `mode` or `dtype`."""
    setting: str
    against: str
    dtype: str
    """Compute dtype of both, or of the setting where it is the dtype that differs."""
    largest: float
    """Largest absolute change of an answer's summed logprob, nats."""
    median: float
    choices_changed: int
    """Questions whose likeliest answer is another one."""
    choices: int
    """Questions."""


def variations(
    spec: ModelSpec, candidates: Callable[[Opened], Sequence[Candidate]], progress: Callable[[str], None]
) -> list[Variation]:
    """Measure a model at the dtype of `spec` and at one other.

    Args:
        spec: Model and numerics; what it says of batches, threads and mode is varied.
        candidates: Makes the sequences for the opened model's tokenizer.
        progress: Called with one short line before each step.

    Raises:
        InputError: see `safetyrepro.engine.load`.
    """
    found: list[Variation] = []
    base: list[float] = []
    for dtype in (spec.compute_dtype, "bfloat16" if spec.compute_dtype == "float32" else "float32"):
        opened = open_model(spec.model_copy(update={"compute_dtype": dtype}), progress)
        sequences = candidates(opened)
        try:
            alone, varied = _varied(opened, sequences, lambda line, dtype=dtype: progress(f"{dtype}: {line}"))  # type: ignore[misc]
        finally:
            torch.set_num_threads(opened.threads)
        if base:
            found.append(_variation(DTYPE, dtype, spec.compute_dtype, dtype, base, alone, sequences))
        base = base or alone
        found += [_variation(*names, dtype, alone, sums, sequences) for names, sums in varied]
    return found


def _varied(
    opened: Opened, sequences: Sequence[Candidate], progress: Callable[[str], None]
) -> tuple[list[float], list[tuple[tuple[str, str, str], list[float]]]]:
    """Sums of one forward pass each, and those of every setting with (what, setting, against)."""
    model, pad = opened.model, min(opened.tokenizer.eos_ids)
    progress("one forward pass for each sequence")
    alone = _sums(FixedShape(model, rows=1, bucket=1, pad_id=pad), sequences)
    found = []
    for rows in BATCHES:
        progress(f"batches of {rows}")
        sums = _sums(FixedShape(model, rows=rows, bucket=BUCKET, pad_id=pad), sequences)
        found.append(((BATCH, f"{rows} rows", "1 row"), sums))
    threads = 1 if opened.threads > 1 else 2
    progress(f"threads: {threads}")
    torch.set_num_threads(threads)
    sums = _sums(FixedShape(model, rows=1, bucket=1, pad_id=pad), sequences)
    found.append(((THREADS, str(threads), str(opened.threads)), sums))
    torch.set_num_threads(opened.threads)
    chunked = ChunkedShape(model, pad_id=pad)
    if chunked.fits():
        progress(f"chunks of {CHUNK} tokens")
        chunked.quicken()
        found.append(
            ((MODE, f"exact, in chunks of {CHUNK}", "a forward pass for each sequence"), _sums(chunked, sequences))
        )
    packed = PackedShape(model, pad_id=pad, pack_tokens=256, cache_bytes=1 << 30)
    if packs(packed):
        progress("packed forward passes")
        found.append(((MODE, "shared", "a forward pass for each sequence"), _packed_sums(packed, opened, sequences)))
    return alone, found


def _sums(shape: FixedShape, sequences: Sequence[Candidate]) -> list[float]:
    by_length = sorted(range(len(sequences)), key=lambda at: len(sequences[at].ids))
    sums = [0.0] * len(sequences)
    for first in range(0, len(by_length), shape.rows):
        batch = by_length[first : first + shape.rows]
        for at, scored in zip(batch, shape.score([sequences[at].ids for at in batch]), strict=True):
            sums[at] = float(scored.logprobs[sequences[at].start - 1 :].sum(dtype="float64"))
    return sums


def _packed_sums(shape: PackedShape, opened: Opened, sequences: Sequence[Candidate]) -> list[float]:
    sums = [0.0] * len(sequences)

    def answered(at: int, answer: Answer) -> None:
        assert isinstance(answer, PackedSpan)
        sums[at] = float(answer.logprobs.sum(dtype="float64"))

    requests = [Request(candidate.ids, candidate.start, False, None) for candidate in sequences]
    longest = max(len(candidate.ids) for candidate in sequences)
    SharedPass(shape, opened.tokenizer, requests, longest, answered).run()
    return sums


def _variation(
    what: str,
    setting: str,
    against: str,
    dtype: str,
    base: Sequence[float],
    sums: Sequence[float],
    sequences: Sequence[Candidate],
) -> Variation:
    moved = [abs(one - other) for one, other in zip(base, sums, strict=True)]
    before, after = _choices(base, sequences), _choices(sums, sequences)
    changed = sum(before[question] != after[question] for question in before)
    return Variation(what, setting, against, dtype, max(moved), median(moved), changed, len(before))


def _choices(sums: Sequence[float], sequences: Sequence[Candidate]) -> dict[int, int]:
    """Per question the place of its likeliest answer, the first where several are."""
    best: dict[int, int] = {}
    for at, candidate in enumerate(sequences):
        if candidate.question not in best or sums[at] > sums[best[candidate.question]]:
            best[candidate.question] = at
    return best
