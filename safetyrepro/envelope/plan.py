"""From a grid to its plan: cells, shards, and the hash of everything that decides their result."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from safetyrepro import facts
from safetyrepro.config import UNVERIFIED, identity, model_key
from safetyrepro.digest import file_sha256
from safetyrepro.engine.source import find_source
from safetyrepro.envelope.document import (
    BenchmarkFacts,
    CellFacts,
    ItemFacts,
    ModelFacts,
    Plan,
    ShardFacts,
    Unverified,
)
from safetyrepro.envelope.grid import ARM, SUITE, Envelope, GridBenchmark, GridCell, GridModel, cells
from safetyrepro.envelope.items import Items
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.analysis.tiers import Tier

Say = Callable[[str], None]
SHARD_CODE = (
    "safetyrepro/*.py",
    "safetyrepro/benchmarks/**/*",
    "safetyrepro/engine/**/*",
    "safetyrepro/envelope/**/*",
    "adapters/*.py",
    "adapters/native/*.py",
)
"""Source files that a shard runs."""


@dataclass(frozen=True)
class Planned:
    """A plan and what stands in the way of sealing it."""

    plan: Plan
    blocks: tuple[str, ...]
    """Hashes that cannot be resolved and are not marked unverified, each with the reason."""


def build_plan(envelope: Envelope, items: Items, say: Say, *, fetch: bool = True) -> Planned:
    """Plan a grid.

    Args:
        envelope: the grid.
        items: where items come from.
        say: called with a line before what takes seconds.
        fetch: whether a model that is on the hub alone may be fetched to be hashed.

    Raises:
        InputError: a combination of levels is no config, or a template is not there.
    """
    found = cells(envelope)
    doubts: list[Unverified] = []
    blocks: list[str] = []
    models = [_model(model, say, fetch, doubts, blocks) for model in envelope.models]
    sources = [_benchmark(one, found, items, say, doubts, blocks) for one in envelope.benchmarks]
    code = facts.code(SHARD_CODE)
    if code.commit is None:
        doubts.append(Unverified(what="code.commit", reason="the package is not a git checkout"))
    elif code.dirty:
        doubts.append(Unverified(what="code.commit", reason="tracked files differ from the commit"))
    shards = _shards(found, items, {one.name: len(one.items) for one in sources})
    used = sorted({(cell.config.benchmark.name, cell.config.prompt.template) for cell in found})
    plan = Plan(
        envelope=envelope,
        code=code,
        packages=facts.packages(),
        locks=facts.locks(),
        tiers_sha256=_tiers_sha256(),
        models=tuple(models),
        benchmarks=tuple(sources),
        templates={f"{one}/{template}": facts.template_sha256(one, template) for one, template in used},
        configs={cell.config_id: identity(cell.config) for cell in found},
        shards=shards,
        unverified=tuple(doubts),
    )
    return Planned(plan, tuple(blocks))


def prompt_group(cell: GridCell) -> str:
    """What cells of one shard have in common: model, benchmark, and everything before the answer but its last lines."""
    config = cell.config
    own = {"prompt": config.prompt, "shots": config.shots, "chat": config.chat_template}
    return json.dumps(
        [cell.model.name, config.benchmark.name, {name: part.model_dump(mode="json") for name, part in own.items()}],
        sort_keys=True,
    )


def grouped(found: Sequence[GridCell]) -> list[list[GridCell]]:
    """The cells of each shard, in the order of the plan."""
    groups: dict[str, list[GridCell]] = {}
    for cell in found:
        groups.setdefault(prompt_group(cell), []).append(cell)
    return list(groups.values())


def _shards(found: Sequence[GridCell], items: Items, counts: dict[str, int]) -> tuple[ShardFacts, ...]:
    tiers = cell_tiers(found)
    shards = []
    for number, group in enumerate(grouped(found)):
        config = group[0].config
        name = config.benchmark.name
        label = f"{group[0].model.name}-{name}-{config.prompt.template}-{config.shots.count}"
        shots: tuple[str, ...] = ()
        if counts[name]:
            shots = tuple(shot.item_id for shot in items.of(config).shots)
        shards.append(
            ShardFacts(
                name=f"{number:04d}-{re.sub(r'[^A-Za-z0-9._-]', '_', label)}",
                model=group[0].model.name,
                benchmark=name,
                template=config.prompt.template,
                shots=shots,
                cells=tuple(
                    CellFacts(
                        cell_id=cell.cell_id,
                        config_id=cell.config_id,
                        axes=dict(cell.axes),
                        tiers=tiers[cell.cell_id],
                        rows=counts[name] * cell.repeats,
                        repeats=cell.repeats,
                    )
                    for cell in group
                ),
            )
        )
    return tuple(shards)


def cell_tiers(found: Sequence[GridCell]) -> dict[str, tuple[str, ...]]:
    """The tiers that hold each cell, by `cell_id`, outermost first."""
    from safetyrepro.analysis.grid import Configuration
    from safetyrepro.analysis.tiers import tier_mask
    from safetyrepro.stability.tierfile import tiers

    known: Sequence[Tier] = tiers()
    configurations = [
        Configuration(
            label=cell.label,
            config_id=cell.config_id,
            axes={
                "scoring": cell.config.scoring.path,
                "template": cell.config.prompt.template,
                "decoding": _decoding(cell),
                "shots": str(cell.config.shots.count),
                "suite": SUITE,
                "arm": ARM.value,
            },
            tiers=(),
        )
        for cell in found
    ]
    masks = {tier.name: tier_mask("envelope", configurations, known, tier.name) for tier in known}
    return {cell.cell_id: tuple(name for name, mask in masks.items() if mask[at]) for at, cell in enumerate(found)}


def _decoding(cell: GridCell) -> str:
    from safetyrepro.adapters.record import decoding_label

    return decoding_label(cell.config)


def _tiers_sha256() -> str:
    with as_file(files("safetyrepro.anchor_configs") / "envelope" / "tiers.yaml") as path:
        return file_sha256(path)


def _model(model: GridModel, say: Say, fetch: bool, doubts: list[Unverified], blocks: list[str]) -> ModelFacts:
    spec, what = model.model, f"model {model.name}: weights_sha256"
    marked = UNVERIFIED in (spec.weights_sha256, spec.revision) and facts.stated(spec.weights_sha256) is None

    def sealed(sha256: str | None, *, verified: bool, quant: str | None, own: dict[str, str]) -> ModelFacts:
        return ModelFacts(
            name=model.name,
            id=spec.id,
            key=model_key(spec),
            weights_sha256=sha256,
            verified=verified,
            source_quant=quant,
            files=own,
        )

    if facts.on_hub(spec) and (marked or not fetch):
        if marked:
            doubts.append(Unverified(what=what, reason="marked unverified, and the model is not on this machine"))
        elif facts.stated(spec.weights_sha256) is None:
            blocks.append(f"{what} is not known before the model is fetched; give it, or write unverified")
        return sealed(facts.stated(spec.weights_sha256), verified=False, quant=spec.source_quant, own={})
    try:
        found = find_source(spec, say)
    except InputError as error:
        if marked:
            doubts.append(Unverified(what=what, reason=str(error)))
        else:
            blocks.append(f"{what} cannot be resolved ({error})")
        return sealed(None, verified=False, quant=spec.source_quant, own={})
    if not found.weights_verified:
        doubts.append(Unverified(what=what, reason="read from the file; no hash was given beforehand"))
    return sealed(
        found.weights_sha256, verified=found.weights_verified, quant=found.source_quant, own=found.files_sha256
    )


def _benchmark(
    one: GridBenchmark,
    found: Sequence[GridCell],
    items: Items,
    say: Say,
    doubts: list[Unverified],
    blocks: list[str],
) -> BenchmarkFacts:
    name = one.benchmark.name
    what = f"benchmark {name}: items and sha256"
    configs = [cell.config for cell in found if cell.config.benchmark.name == name]
    say(f"reading {name}")
    try:
        data = items.of(configs[0])
        same = [item.item_id for item in data.items]
        for config in configs[1:]:
            if [item.item_id for item in items.of(config).items] != same:
                raise InputError(
                    f"Benchmark {name}: its configs draw different items, since shots.pool, shots.seed or shots.ids "
                    "differ between levels; give them the same pool and seed."
                )
    except InputError as error:
        if UNVERIFIED in (one.benchmark.sha256, one.benchmark.revision):
            doubts.append(Unverified(what=what, reason=str(error)))
        else:
            blocks.append(f"{what} cannot be resolved ({error})")
        return BenchmarkFacts(
            name=name,
            source=one.benchmark.source,
            revision=one.benchmark.revision,
            sha256=facts.stated(one.benchmark.sha256),
            verified=False,
            items=(),
            pool=(),
        )
    if not data.verified:
        doubts.append(Unverified(what=f"benchmark {name}: sha256", reason="no hash was given beforehand"))
    return BenchmarkFacts(
        name=name,
        source=data.source,
        revision=data.revision,
        sha256=data.sha256,
        verified=data.verified,
        items=tuple(ItemFacts(id=item.item_id, sha256=facts.item_sha256(item)) for item in data.items),
        pool=tuple(ItemFacts(id=item.item_id, sha256=facts.item_sha256(item)) for item in data.pool),
    )
