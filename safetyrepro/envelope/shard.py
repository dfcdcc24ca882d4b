"""A shard: cells of one model that begin alike, as a job that can be written down, and the records it gives.

The records are a function of the job and of the files whose hashes the plan holds. All requests go to the engine at
once, each sequence of tokens with its decoding once, so that one prefill serves the decodings and the candidates.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

from safetyrepro.adapters.base import Cell
from safetyrepro.adapters.outcome import generated_record, scored_record
from safetyrepro.adapters.record import blank_record, by_item, candidate_of
from safetyrepro.benchmarks import get
from safetyrepro.canonical import Canonical, render
from safetyrepro.config import Config, Strict
from safetyrepro.engine.api import Decoding, Engine, GenerateRequest, Scored, ScoreRequest
from safetyrepro.envelope.grid import ARM, SUITE, GridCell, GridModel
from safetyrepro.envelope.items import Items
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.benchmarks.base import Data
    from safetyrepro.engine.api import ModelInfo, Tokenizer
    from safetyrepro.records import Record

Request = TypeVar("Request", ScoreRequest, GenerateRequest)


class JobCell(Strict):
    """One cell of a job."""

    config: Config
    config_id: str
    cell_id: str
    axes: dict[str, str]
    repeats: int


class ShardJob(Strict):
    """All that a shard's records depend on besides the files that the plan hashes; JSON both ways."""

    seal: str
    name: str
    model: GridModel
    weights_sha256: str | None
    """None where the plan leaves it unverified."""
    data_sha256: str | None
    items: tuple[str, ...]
    """Ids, in order; empty where the plan leaves them unverified."""
    cells: tuple[JobCell, ...]


@dataclass(frozen=True)
class Work:
    """What a shard asks of the engine."""

    scores: dict[ScoreRequest, int]
    """Unique requests with their place."""
    generations: dict[GenerateRequest, int]
    asked: int
    """Requests before identical ones were taken together."""


@dataclass(frozen=True)
class Done:
    """A shard's outcome."""

    records: list[Record]
    requests: int
    """Unique requests."""
    tokens: int
    """Tokens of all unique sequences and of what was generated; common beginnings counted each time."""


def job_of(
    seal: str, name: str, group: Sequence[GridCell], weights: str | None, data: Data, *, known: bool
) -> ShardJob:
    """The job of a shard's cells.

    Args:
        seal: the plan's.
        name: the shard's.
        group: its cells.
        weights: hash of the model's weights, None where unverified.
        data: the items.
        known: whether the plan holds the items' hashes.
    """
    return ShardJob(
        seal=seal,
        name=name,
        model=group[0].model,
        weights_sha256=weights,
        data_sha256=data.sha256 if known else None,
        items=tuple(item.item_id for item in data.items) if known else (),
        cells=tuple(
            JobCell(
                config=cell.config,
                config_id=cell.config_id,
                cell_id=cell.cell_id,
                axes=dict(cell.axes),
                repeats=cell.repeats,
            )
            for cell in group
        ),
    )


def renderings(group: Sequence[Config], data: Data, tokenizer: Tokenizer) -> list[Canonical]:
    """Each config's rendering; configs that render alike share one."""
    held: dict[str, Canonical] = {}
    found = []
    for config in group:
        key = config.scoring.path + config.scoring.candidate
        if key not in held:
            held[key] = render(config, get(config.benchmark.name), data, tokenizer)
        found.append(held[key])
    return found


def work_of(cells: Sequence[JobCell], rendered: Sequence[Canonical]) -> Work:
    """The unique requests of a shard."""
    scores: dict[ScoreRequest, int] = {}
    generations: dict[GenerateRequest, int] = {}
    asked = 0
    for cell, canonical in zip(cells, rendered, strict=True):
        for sequence in canonical.sequences if cell.config.scoring.path == "logprob" else ():
            scores.setdefault(ScoreRequest(sequence.ids, sequence.n_context), len(scores))
            asked += 1
        for prompt in canonical.prompts if cell.config.scoring.path == "free" else ():
            for repeat in range(cell.repeats):
                generations.setdefault(_generation(prompt.ids, cell.config, repeat), len(generations))
                asked += 1
    return Work(scores, generations, asked)


def execute(job: ShardJob, engine: Engine, items: Items, progress: Callable[[int], None] | None = None) -> Done:
    """Answer a shard.

    Args:
        job: the shard.
        engine: the model, loaded.
        items: where items come from.
        progress: called with the number of unique requests that are answered.

    Raises:
        InputError: model or items are not those that the job names, or a prompt cannot be rendered.
        SuiteFailure: the engine gave something that no model gives.
    """
    if job.weights_sha256 not in (None, engine.info.weights_sha256):
        raise InputError(
            f"Shard {job.name}: the weights' sha256 is {engine.info.weights_sha256}, sealed is {job.weights_sha256}."
        )
    data = items.of(job.cells[0].config)
    if job.data_sha256 is not None and (data.sha256, tuple(item.item_id for item in data.items)) != (
        job.data_sha256,
        job.items,
    ):
        raise InputError(f"Shard {job.name}: the items of {data.benchmark} are not those that were sealed.")
    rendered = renderings([cell.config for cell in job.cells], data, engine.tokenizer)
    work = work_of(job.cells, rendered)
    # Identical requests are taken together here, so that a memo would hold memory and save nothing.
    scored, generated = engine.answer(list(work.scores), list(work.generations), memo=False, progress=progress)
    info = dataclasses.replace(engine.info, name=job.model.name)
    records: list[Record] = []
    for cell, canonical in zip(job.cells, rendered, strict=True):
        whole = _cell(job, cell, info, data, canonical)
        extra = {"seal": job.seal, "shard": job.name, **{f"axis.{name}": level for name, level in cell.axes.items()}}
        sequences = by_item(canonical.sequences)
        prompts = {prompt.item_id: prompt for prompt in canonical.prompts}
        for repeat in range(cell.repeats):
            for item in data.items:
                blank = blank_record(whole, item, repeat=repeat)
                prompt = prompts[item.item_id]
                if cell.config.scoring.path == "logprob":
                    own = sequences[item.item_id]
                    candidates = [
                        candidate_of(
                            one,
                            _sum(scored[work.scores[ScoreRequest(one.ids, one.n_context)]], one.n_context),
                            None,
                        )
                        for one in own
                    ]
                    records.append(scored_record(blank, whole, item, prompt, own, candidates, extra))
                else:
                    answer = generated[work.generations[_generation(prompt.ids, cell.config, repeat)]]
                    records.append(
                        generated_record(blank, whole, item, prompt, answer.text, answer.finish_reason, extra=extra)
                    )
    tokens = sum(len(one.ids) for one in work.scores) + sum(len(one.ids) for one in work.generations)
    tokens += sum(len(one.ids) for one in generated)
    return Done(records, len(work.scores) + len(work.generations), tokens)


def _generation(ids: tuple[int, ...], config: Config, repeat: int) -> GenerateRequest:
    decoding = config.decoding
    return GenerateRequest(
        ids,
        Decoding(
            max_tokens=decoding.max_tokens,
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            stop=decoding.stop,
            seed=decoding.seed,
            repeat=repeat,
        ),
    )


def _sum(scored: Scored, start: int) -> float:
    return math.fsum(value for value in scored.logprobs[start:] if value is not None)


def _cell(job: ShardJob, cell: JobCell, info: ModelInfo, data: Data, canonical: Canonical) -> Cell:
    return Cell(
        run_id=job.seal[:16],
        suite=SUITE,
        suite_version=version("safetyrepro"),
        arm=ARM,
        config=cell.config,
        config_id=cell.config_id,
        cell_id=cell.cell_id,
        model=info,
        benchmark=get(cell.config.benchmark.name),
        data=data,
        canonical=canonical,
    )
