"""The attributions of an experiment with its models loaded again, kept beside its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro import benchmarks
from safetyrepro.config import Arm, ModelSpec, model_key
from safetyrepro.crosspkg.causes import keep, pairs_of
from safetyrepro.crosspkg.facts import CellOutcome, ConfigInfo, Experiment
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.progress import Progress

OWN_ARMS = (Arm.SHIPPED, Arm.NOMINAL)
"""Arms whose suites ask in their own ways; in matched there is nothing to attribute, or the run is broken."""


def attribute_experiment(experiment: Experiment, folder: Path, progress: Progress) -> None:
    """Score the hybrids of every pair of suites natively, and keep the attributions in the experiment's folder.

    Raises:
        InputError: a model of the experiment is an upstream server's, or is not there any more.
    """
    specs = {model_key(model): model for info in experiment.configs for model in info.config.models}
    kept: list[dict[str, Any]] = []
    for facts in experiment.models:
        spec = _spec(facts.name, facts.numerics, list(specs.values()))
        groups = [
            (info, arm, cells)
            for info in experiment.configs
            if benchmarks.get(info.config.benchmark.name).aggregate == "mean"
            for arm in OWN_ARMS
            if len(cells := _cells(experiment, info.config_id, facts.name, arm)) > 1
        ]
        if not groups:
            continue
        if spec is None:
            raise InputError(f"{facts.name}: no model of the experiment's configs can be loaded for it.")
        kept += _attributed(facts.name, spec, groups, progress)
    keep(folder, kept)


def _attributed(
    name: str, spec: ModelSpec, groups: Sequence[tuple[ConfigInfo, Arm, dict[str, CellOutcome]]], progress: Progress
) -> list[dict[str, Any]]:
    """One model's attributions; it is let go at the end, before the next one is loaded."""
    from safetyrepro.engine import load

    progress.say(f"Loading {spec.id}")
    engine = load(spec)
    kept: list[dict[str, Any]] = []
    try:
        for info, arm, cells in groups:
            progress.say(f"{info.config.name}, {name}, {arm.value} arm")
            _, attributions = pairs_of(arm.value, cells, engine=engine, progress=progress.say)
            kept += attributions
    finally:
        engine.close()
    return kept


def _cells(experiment: Experiment, config_id: str, model: str, arm: Arm) -> dict[str, CellOutcome]:
    return {
        cell.facts.suite: cell
        for cell in experiment.cells
        if (cell.facts.config_id, cell.facts.model, cell.facts.arm, cell.facts.state)
        == (config_id, model, arm.value, "done")
    }


def _spec(name: str, numerics: str, specs: list[ModelSpec]) -> ModelSpec | None:
    """The spec behind a model's name, which carries its numerics where the experiment holds it twice."""
    local = [spec for spec in specs if spec.upstream is None]
    found = [spec for spec in local if name == Path(spec.id).name or name.startswith(f"{Path(spec.id).name} (")]
    exact = [spec for spec in found if numerics.startswith(f"{spec.quant}/{spec.compute_dtype}/")]
    return next(iter(exact or found), None)
