"""The anchor comparison: every config, model, suite and arm as one cell, each kept on disk."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from safetyrepro import adapters, benchmarks, facts
from safetyrepro.canonical import render
from safetyrepro.config import Config, ModelSpec, cell_id, config_id, model_key
from safetyrepro.crosspkg.cells import Prepared, Site, lock_sha256, run_cell, suite_version
from safetyrepro.crosspkg.facts import ConfigInfo, DataInfo, Experiment, ModelFacts, SuiteFacts
from safetyrepro.crosspkg.folder import load_experiment, write_plan
from safetyrepro.crosspkg.schedule import Halt, cells_at_once, run_all
from safetyrepro.crosspkg.starts import Start, earlier_starts, this_start
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.engine.api import ModelInfo
    from safetyrepro.progress import Progress
    from safetyrepro.suites import Environment


@dataclass(frozen=True)
class Plan:
    """What one call is asked to run."""

    configs: tuple[Config, ...]
    out: Path
    data_dir: Path | None = None
    memo: bool = True
    suite_timeout: float | None = None
    """Seconds after which a suite's process is stopped; None waits."""
    repeats: int = 1
    """How often each cell is run in all."""


def run_experiment(plan: Plan, progress: Progress) -> Experiment:
    """Run what is not done yet, and read the whole experiment back.

    Raises:
        InputError: bad config, data or model, before any cell is run.
        EnvironmentMissing: a suite's environment cannot be built.
    """
    from filelock import FileLock, Timeout

    _check_folder(plan.out)
    prepared = tuple(_prepare(config, plan.data_dir) for config in plan.configs)
    if len({entry.config_id for entry in prepared}) != len(prepared):
        raise InputError("Two of the configs are the same evaluation (same config_id); name each once.")
    start = this_start()
    sites = _sites(plan, prepared, start)
    for model in _models(plan.configs):
        _check_rendering(model, prepared)
    environments = _environments(plan.configs, progress)
    plan.out.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(plan.out / ".lock", timeout=0):
            starts = earlier_starts(plan.out) | {start.key: start}
            loaded: list[ModelFacts] = []
            for model in _models(plan.configs):
                loaded.append(_run_model(plan, model, prepared, sites, environments, starts, loaded, progress))
    except Timeout:
        raise InputError(f"{plan.out}: another run is writing there; wait for it or name another --out.") from None
    return load_experiment(plan.out)


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder.")
    if (
        out.is_dir()
        and not (out / "experiment.json").exists()
        and any(entry.name not in {".lock", "cells"} for entry in out.iterdir())
    ):
        raise InputError(f"--out {out} holds other files and no experiment.json; name a new or empty folder.")


def _prepare(config: Config, data_dir: Path | None) -> Prepared:
    return Prepared(config, config_id(config), benchmarks.load_data(config, data_dir))


def _models(configs: Sequence[Config]) -> list[ModelSpec]:
    return list({model_key(model): model for config in configs for model in config.models}.values())


def _sites(plan: Plan, prepared: Sequence[Prepared], start: Start) -> list[Site]:
    sites = []
    for entry in prepared:
        for model in entry.config.models:
            for arm in entry.config.arms:
                for suite in entry.config.suites:
                    cell = cell_id(entry.config, model, suite, arm)
                    name = f"{entry.config.name}-{_slug(model.id)}-{suite}-{arm.value}-{cell[:10]}"
                    folder = plan.out / "cells" / name
                    limits = plan.memo, plan.suite_timeout, plan.repeats
                    sites.append(Site(entry, model, suite, arm, folder, *limits, start.key))
    return sites


def _slug(model: str) -> str:
    kept = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in Path(model).name.lower())
    return kept.strip("-")[:40] or "model"


def _check_rendering(model: ModelSpec, prepared: Sequence[Prepared]) -> None:
    """Refuse, before any weights are loaded, what this model's tokenizer cannot render."""
    from safetyrepro.gateway import tokenizer_of

    tokenizer = tokenizer_of(model)
    for entry in prepared:
        if model in entry.config.models:
            try:
                render(entry.config, benchmarks.get(entry.config.benchmark.name), entry.data, tokenizer)
            except InputError as error:
                raise InputError(f"config {entry.config.name}, model {model.id}: {error}") from None


def _environments(configs: Sequence[Config], progress: Progress) -> dict[str, Environment]:
    from safetyrepro.suites import ensure

    found: dict[str, Environment] = {}
    for runner, lock in sorted(_locks(configs).items()):
        if lock is not None:
            found[runner] = ensure(lock, progress=progress.say)
    return found


def _locks(configs: Sequence[Config]) -> dict[str, Path | None]:
    """Every runner's lock file, which has to be the same in all configs that name it."""
    found: dict[str, Path | None] = {}
    for config in configs:
        for runner in config.suites:
            lock = adapters.lock_of(runner, config.locks)
            if found.setdefault(runner, lock) != lock:
                raise InputError(f"config {config.name}: locks.{runner} is {lock}, another config has {found[runner]}.")
    return found


def _run_model(
    plan: Plan,
    model: ModelSpec,
    prepared: Sequence[Prepared],
    sites: Sequence[Site],
    environments: dict[str, Environment],
    starts: Mapping[str, Start],
    earlier: Sequence[ModelFacts],
    progress: Progress,
) -> ModelFacts:
    from safetyrepro.gateway import Gateway, serve_model

    if model.upstream is None:
        progress.say(f"Loading {model.id} ({model.quant}, {model.compute_dtype})")
    served = serve_model(model)
    try:
        info = replace(served.info, name=_label(served.info, model, _models(plan.configs)))
        found = _model_facts(info)
        _write_plan(plan, prepared, sites, environments, starts, [*earlier, found])
        canonical = {
            entry.config_id: render(
                entry.config, benchmarks.get(entry.config.benchmark.name), entry.data, served.tokenizer
            )
            for entry in prepared
            if model in entry.config.models
        }
        with Gateway(served.backend) as gateway:

            def run(site: Site, halt: Halt) -> None:
                rendering = canonical[site.prepared.config_id]
                run_cell(site, info, gateway, rendering, environments.get(site.suite), progress, halt)

            run_all([site for site in sites if site.model == model], run, cells_at_once(model))
    finally:
        served.backend.close()
    return found


def _label(info: ModelInfo, model: ModelSpec, models: Sequence[ModelSpec]) -> str:
    """The model's name, with its numerics where the experiment holds it more than once."""
    alike = [other for other in models if Path(other.id).name == Path(model.id).name]
    return info.name if len(alike) == 1 else f"{info.name} ({info.numerics}, {model_key(model)[:6]})"


def _model_facts(info: ModelInfo) -> ModelFacts:
    return ModelFacts(
        info.name,
        info.weights_sha256,
        info.weights_verified,
        info.source_quant,
        info.numerics,
        dict(info.details),
        info.licence,
        info.has_chat_template,
        info.adds_bos,
        None if info.files_sha256 is None else dict(info.files_sha256),
    )


def _write_plan(
    plan: Plan,
    prepared: Sequence[Prepared],
    sites: Sequence[Site],
    environments: dict[str, Environment],
    starts: Mapping[str, Start],
    models: Sequence[ModelFacts],
) -> None:
    configs = tuple(_config_info(entry) for entry in prepared)
    wanted = dict.fromkeys(site.suite for site in sites)
    suites = tuple(
        SuiteFacts(suite, suite_version(environments.get(suite)), lock_sha256(environments.get(suite)))
        for suite in wanted
    )
    cells = tuple(site.folder.name for site in sites)
    write_plan(plan.out, configs, tuple(models), suites, _versions(), cells, plan.repeats, starts)


def _config_info(entry: Prepared) -> ConfigInfo:
    from safetyrepro.analysis.aggregate import cell_score

    data, benchmark = entry.data, benchmarks.get(entry.config.benchmark.name)
    chances = [benchmark.chance(item, entry.config) for item in data.items]
    info = DataInfo(
        data.source,
        data.revision,
        data.sha256,
        data.verified,
        data.licence,
        len(data.items),
        len({item.cluster for item in data.items}),
        len(data.pool),
        tuple(shot.item_id for shot in data.shots),
    )
    chance = cell_score(benchmark.aggregate, sum(chances) / len(chances))
    return ConfigInfo(
        entry.config_id,
        entry.config,
        info,
        chance,
        facts.template_sha256(entry.config.benchmark.name, entry.config.prompt.template),
        {item.item_id: facts.item_sha256(item) for item in data.items},
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for package in ("safetyrepro", "torch", "transformers", "bitsandbytes", "tokenizers", "gguf"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def narrowed(
    config: Config,
    suites: Sequence[str],
    arms: Sequence[str],
    models: Sequence[str],
    limit: int | None,
    upstream: tuple[str, Path] | None = None,
) -> Config:
    """The config with only these suites and arms, these models instead of its own, and its first `limit` items.

    An empty sequence or None leaves the config's own. Fewer items are another `config_id`, as they should be.

    Args:
        config: The config to narrow.
        suites: Suites to keep.
        arms: Arms to keep.
        models: Models by id; one that the config does not name gets the defaults.
        limit: How many items at most.
        upstream: URL of the server that holds the models, and the folder of their tokenizer.

    Raises:
        InputError: the config with these changes is impossible.
    """
    changes: dict[str, Any] = {}
    if suites:
        changes["suites"] = list(dict.fromkeys(suites))
        changes["locks"] = {runner: lock for runner, lock in config.locks.items() if runner in suites}
    if arms:
        changes["arms"] = list(dict.fromkeys(arms))
    if models:
        own = {model.id: model for model in config.models}
        changes["models"] = [(own.get(name) or ModelSpec(id=name)).model_dump(mode="json") for name in models]
    if upstream is not None:
        url, tokenizer = upstream
        names = models or [model.id for model in config.models]
        changes["models"] = [
            ModelSpec(id=name, upstream=url, tokenizer=str(tokenizer)).model_dump(mode="json") for name in names
        ]
    body = {**config.model_dump(mode="json"), **changes}
    items = body["benchmark"]["items"]
    if limit is not None and items["ids"] is not None:
        items["ids"] = items["ids"][:limit]
    elif limit is not None:
        items["count"] = limit if items["count"] is None else min(limit, items["count"])
    try:
        return Config.model_validate_json(json.dumps(body))
    except ValidationError as error:
        raise InputError(f"config {config.name!r} with these options: {error.errors()[0]['msg']}.") from None
