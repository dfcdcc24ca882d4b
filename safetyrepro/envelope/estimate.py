"""What a grid costs: unique requests, tokens, and a bound on time and memory, before anything is run."""

from __future__ import annotations

import json
import math
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from safetyrepro.config import ItemSubset
from safetyrepro.engine import load, load_tokenizer
from safetyrepro.engine.api import GenerateRequest, ScoreRequest
from safetyrepro.engine.source import find_source
from safetyrepro.envelope.grid import GridCell, GridModel
from safetyrepro.envelope.items import Items
from safetyrepro.envelope.plan import grouped
from safetyrepro.envelope.shard import ShardJob, execute, job_of, renderings, work_of
from safetyrepro.errors import InputError
from safetyrepro.plurals import counted

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_MATRIX = 1024
_SAMPLE_ITEMS = 2
"""Items of a shard that `--measure` runs."""


@dataclass(frozen=True)
class Estimate:
    """One model's share of a grid."""

    model: str
    shards: int
    cells: int
    requests: int
    """As the cells ask them."""
    prompts: int
    """Unique prompts, of candidates and generations."""
    unique_requests: int
    tokens: int
    """Of all unique sequences, each in full."""
    tokens_once: int
    """The same with common beginnings within a shard counted once, as mode shared computes them."""
    generated_at_most: int
    parameters: int | None
    memory_bytes: int | None
    """Weights in the compute dtype and the room for keys and values."""
    seconds: float | None
    measured: bool
    """Whether `seconds` comes from running a sample; if not it is a bound from below."""


def estimate(
    model: GridModel, found: Sequence[GridCell], items: Items, say: Callable[[str], None], *, measure: bool
) -> Estimate:
    """Render a model's share of a grid and count.

    Args:
        model: the model, on this machine.
        found: the grid's cells.
        items: where items come from.
        say: called with a line before what takes seconds.
        measure: whether to load the model and run a sample of every benchmark's first shard.

    Raises:
        InputError: the model, its tokenizer or items are not here, or a prompt cannot be rendered.
    """
    own = [cell for cell in found if cell.model.name == model.name]
    say(f"{model.name}: rendering {counted(len(own), 'cell')}")
    tokenizer = load_tokenizer(model.model)
    groups = grouped(own)
    asked = prompts = unique = tokens = once = generated = 0
    for group in groups:
        data = items.of(group[0].config)
        cells = _job(group, items).cells
        rendered = renderings([cell.config for cell in group], data, tokenizer)
        work = work_of(cells, rendered)
        requests: list[ScoreRequest | GenerateRequest] = [*work.scores, *work.generations]
        ids = {one.ids for one in requests}
        asked += work.asked
        prompts += len({prompt.ids for canonical in rendered for prompt in canonical.prompts})
        unique += len(work.scores) + len(work.generations)
        tokens += sum(len(one.ids) for one in requests)
        once += _once(ids)
        generated += sum(one.decoding.max_tokens for one in work.generations)
    parameters = _parameters(find_source(model.model, say).folder)
    seconds = None
    if measure:
        say(f"{model.name}: running a sample")
        seconds = _measured(model, groups, items, say)
    elif parameters is not None:
        seconds = 2 * parameters * (once + generated) / _operations()
    memory = None
    if parameters is not None:
        memory = parameters * _BYTES[model.model.compute_dtype] + model.model.cache_mb * 1_000_000
    return Estimate(
        model.name,
        len(groups),
        len(own),
        asked,
        prompts,
        unique,
        tokens,
        once,
        generated,
        parameters,
        memory,
        seconds,
        measure,
    )


def _job(group: Sequence[GridCell], items: Items) -> ShardJob:
    return job_of("", "sample", group, None, items.of(group[0].config), known=False)


def _once(ids: Iterable[tuple[int, ...]]) -> int:
    """Tokens of a prefix tree over sequences."""
    total = 0
    before: tuple[int, ...] = ()
    for one in sorted(ids):
        pairs = zip(before, one, strict=False)
        shared = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(before), len(one)))
        total += len(one) - shared
        before = one
    return total


def _measured(
    model: GridModel, groups: Sequence[Sequence[GridCell]], items: Items, say: Callable[[str], None]
) -> float:
    """Seconds of the whole, scaled up by rows from a few items of the middle shard of each benchmark."""
    by_benchmark: dict[str, list[Sequence[GridCell]]] = {}
    for group in groups:
        by_benchmark.setdefault(group[0].config.benchmark.name, []).append(group)
    engine = load(model.model, progress=say)
    total = 0.0
    try:
        for own in by_benchmark.values():
            ids = [item.item_id for item in items.of(own[0][0].config).items]
            sample = [_few(cell, ids[:_SAMPLE_ITEMS]) for cell in own[len(own) // 2]]
            started = time.monotonic()
            execute(_job(sample, items), engine, items)
            spent = time.monotonic() - started
            total += spent * len(own) * len(ids) / min(len(ids), _SAMPLE_ITEMS)
    finally:
        engine.close()
    return total


def _few(cell: GridCell, ids: Sequence[str]) -> GridCell:
    spec = cell.config.benchmark.model_copy(update={"items": ItemSubset(ids=tuple(ids))})
    return replace(cell, config=cell.config.model_copy(update={"benchmark": spec}))


def _parameters(folder: Path) -> int | None:
    """Parameters of a folder's safetensors weights, read from their headers; None where there are none."""
    total = 0
    for path in folder.glob("model*.safetensors"):
        with path.open("rb") as stream:
            size = struct.unpack("<Q", stream.read(8))[0]
            if size > path.stat().st_size:
                raise InputError(f"{path}: its header is broken; fetch the model again.")
            header = json.loads(stream.read(size))
        for name, tensor in header.items():
            if name != "__metadata__":
                total += math.prod(tensor["shape"])
    return total or None


def _operations() -> float:
    """Floating-point operations per second of a matrix product at fp32 on this machine."""
    import numpy as np

    matrix = np.ones((_MATRIX, _MATRIX), dtype=np.float32)
    matrix @ matrix
    started = time.perf_counter()
    matrix @ matrix
    return 2 * _MATRIX**3 / max(time.perf_counter() - started, 1e-9)
