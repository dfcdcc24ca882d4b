"""A grid as data: models, benchmarks and axes of named levels, and the cells that they span.

A level is a name and what it changes in the canonical config, so that a new axis or level needs no code. What a cell
is made of, each overriding the ones before: the envelope's own `config`, the benchmark's, each level's in the order of
the axes.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from safetyrepro.benchmarks.prompts import names as template_names
from safetyrepro.config import Arm, BenchmarkSpec, Config, ModelSpec, Strict, cell_id, config_id, model_key
from safetyrepro.errors import InputError
from safetyrepro.strict_yaml import load_model

SUITE = "native"
"""The runner whose rules score an envelope's cells."""
ARM = Arm.MATCHED
MOST_CELLS = 100_000
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._=-]{0,63}$"
_RESERVED = ("name", "models", "suites", "locks", "arms", "judge", "benchmark", "metric", "version")
"""Fields of a config that are no level's and no benchmark's to change."""


class Level(Strict):
    """One level of an axis."""

    name: str = Field(pattern=_NAME)
    config: dict[str, Any] = Field(default_factory=dict)
    """What it changes in the config, nested as a config is."""


class Axis(Strict):
    """One axis of the grid."""

    name: str = Field(pattern=_NAME)
    only: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Levels of other axes beside which this one is crossed; beside others it is left at the config's own value."""
    levels: tuple[Level, ...] = Field(min_length=1)


class GridBenchmark(Strict):
    """One benchmark of the grid."""

    benchmark: BenchmarkSpec
    metric: str
    config: dict[str, Any] = Field(default_factory=dict)
    levels: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Levels that apply, by axis; an axis that is not named is crossed whole."""


class GridModel(Strict):
    """One model of the grid."""

    name: str = Field(pattern=_NAME)
    """As records and reports call it; the same weights at two numerics are two models."""
    model: ModelSpec


class Envelope(Strict):
    """A grid."""

    version: Literal[1] = 1
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    about: str = ""
    models: tuple[GridModel, ...] = Field(min_length=1)
    benchmarks: tuple[GridBenchmark, ...] = Field(min_length=1)
    axes: tuple[Axis, ...] = ()
    config: dict[str, Any] = Field(default_factory=dict)
    repeats: int = Field(default=1, ge=1, le=1000)
    """Draws of every cell that samples (temperature over 0)."""

    @model_validator(mode="after")
    def _consistent(self) -> Envelope:
        _once("models", [model.name for model in self.models])
        _once("models", [model_key(model.model) for model in self.models], "the same model with the same numerics")
        _once("benchmarks", [one.benchmark.name for one in self.benchmarks])
        _once("axes", [axis.name for axis in self.axes])
        for model in self.models:
            if model.model.upstream is not None:
                raise ValueError(f"models names {model.name!r} at an upstream server; an envelope runs its own engine")
        for axis in self.axes:
            _once(f"axis {axis.name}", [level.name for level in axis.levels])
            self._known(axis.only, f"axis {axis.name}: only")
            if axis.name in axis.only:
                raise ValueError(f"axis {axis.name}: only names the axis itself")
        for one in self.benchmarks:
            self._known(one.levels, f"benchmark {one.benchmark.name}: levels")
        for where, change in self._changes():
            for field in change:
                if field in _RESERVED:
                    raise ValueError(f"{where} changes {field!r}, which is not a level's to change")
        for one in self.benchmarks:
            self._check_templates(one)
        return self

    def _check_templates(self, one: GridBenchmark) -> None:
        known = template_names(one.benchmark.name)
        at = self.benchmarks.index(one)
        places = [("config", self.config), (f"benchmarks.{at}.config", one.config)]
        for number, axis in enumerate(self.axes):
            applies = one.levels.get(axis.name, tuple(level.name for level in axis.levels))
            places += [
                (f"axes.{number}.levels.{place}.config", level.config)
                for place, level in enumerate(axis.levels)
                if level.name in applies
            ]
        for where, change in places:
            prompt = change.get("prompt")
            template = prompt.get("template") if isinstance(prompt, dict) else None
            if isinstance(template, str) and known and template not in known:
                raise ValueError(
                    f"{where}.prompt.template is {template!r}; {one.benchmark.name} has {', '.join(known)}"
                )

    def _known(self, named: Mapping[str, Sequence[str]], where: str) -> None:
        axes = {axis.name: [level.name for level in axis.levels] for axis in self.axes}
        for axis, levels in named.items():
            if axis not in axes:
                raise ValueError(f"{where} names axis {axis!r}; there are {', '.join(axes) or 'none'}")
            if not levels:
                raise ValueError(f"{where} names no level of {axis}")
            for level in levels:
                if level not in axes[axis]:
                    raise ValueError(f"{where} names level {level!r} of {axis}; it has {', '.join(axes[axis])}")

    def _changes(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield "config", self.config
        for one in self.benchmarks:
            yield f"benchmark {one.benchmark.name}", one.config
        for axis in self.axes:
            for level in axis.levels:
                yield f"level {level.name} of axis {axis.name}", level.config


@dataclass(frozen=True)
class GridCell:
    """One model under one configuration."""

    model: GridModel
    axes: Mapping[str, str]
    """Level by axis; axes that do not apply are left out."""
    config: Config
    config_id: str
    cell_id: str
    repeats: int

    @property
    def label(self) -> str:
        """For people: benchmark and levels."""
        levels = ", ".join(f"{axis} {level}" for axis, level in self.axes.items())
        return f"{self.config.benchmark.name}{' (' + levels + ')' if levels else ''}"


def load_envelope(path: Path) -> Envelope:
    """Read an envelope from a YAML file.

    Raises:
        InputError: naming file, line, field, the value found and what would be right.
    """
    return load_model(path, Envelope)


def narrowed(
    envelope: Envelope, *, limit: int | None = None, models: Sequence[str] = (), benchmarks: Sequence[str] = ()
) -> Envelope:
    """The envelope with fewer items, models or benchmarks.

    Args:
        envelope: the whole.
        limit: most items a benchmark.
        models: names of the models to keep; all where there is none.
        benchmarks: likewise.

    Raises:
        InputError: a name that the envelope does not have.
    """
    kept_models = _chosen("--model", models, {model.name: model for model in envelope.models})
    kept = _chosen("--benchmark", benchmarks, {one.benchmark.name: one for one in envelope.benchmarks})
    if limit is not None:
        kept = tuple(one.model_copy(update={"benchmark": _limited(one.benchmark, limit)}) for one in kept)
    return envelope.model_copy(update={"models": kept_models, "benchmarks": kept})


def cells(envelope: Envelope) -> tuple[GridCell, ...]:
    """All cells: by model, then benchmark, then levels in the order of the axes.

    Raises:
        InputError: a combination of levels is no config, two of them are the same config, or there are too many.
    """
    most = math.prod(len(axis.levels) for axis in envelope.axes) * len(envelope.models) * len(envelope.benchmarks)
    if most > MOST_CELLS:
        raise InputError(
            f"Envelope {envelope.name}: its axes span up to {most:,} cells, the most is {MOST_CELLS:,}; drop levels."
        )
    configs = [found for one in envelope.benchmarks for found in _configurations(envelope, one)]
    found = []
    for model in envelope.models:
        for axes, config, identity in configs:
            own = config.model_copy(update={"models": (model.model,)})
            sampled = own.scoring.path == "free" and own.decoding.temperature > 0
            repeats = envelope.repeats if sampled else 1
            found.append(GridCell(model, axes, own, identity, cell_id(own, model.model, SUITE, ARM), repeats))
    return tuple(found)


def _configurations(envelope: Envelope, one: GridBenchmark) -> list[tuple[dict[str, str], Config, str]]:
    crossed = [
        [level for level in axis.levels if level.name in one.levels.get(axis.name, (level.name,))]
        for axis in envelope.axes
    ]
    found: list[tuple[dict[str, str], Config, str]] = []
    ids: dict[str, dict[str, str]] = {}
    taken: set[tuple[tuple[str, str], ...]] = set()
    for levels in itertools.product(*crossed):
        whole = {axis.name: level.name for axis, level in zip(envelope.axes, levels, strict=True)}
        kept = {axis.name: level for axis, level in zip(envelope.axes, levels, strict=True) if _applies(axis, whole)}
        axes = {axis: level.name for axis, level in kept.items()}
        key = tuple(axes.items())
        if key in taken:
            continue
        taken.add(key)
        config = _config(envelope, one, axes, [level.config for level in kept.values()])
        identity = config_id(config)
        if identity in ids:
            raise InputError(
                f"Envelope {envelope.name}, benchmark {one.benchmark.name}: levels {_shown(ids[identity])} and "
                f"{_shown(axes)} are the same config; levels that change nothing would be counted twice."
            )
        ids[identity] = axes
        found.append((axes, config, identity))
    return found


def _applies(axis: Axis, whole: Mapping[str, str]) -> bool:
    return all(whole[other] in levels for other, levels in axis.only.items())


def _config(envelope: Envelope, one: GridBenchmark, axes: Mapping[str, str], changes: Sequence[Any]) -> Config:
    body: dict[str, Any] = {}
    for change in (envelope.config, one.config, *changes):
        body = _merged(body, change)
    body |= {
        "name": envelope.name,
        "benchmark": one.benchmark.model_dump(mode="json"),
        "metric": one.metric,
        "models": [envelope.models[0].model.model_dump(mode="json")],
        "suites": [SUITE],
        "arms": [ARM.value],
    }
    try:
        return Config.model_validate_json(json.dumps(body))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(step) for step in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        found = "" if first["type"] == "value_error" else f" is {json.dumps(first['input'], default=str)[:80]}"
        raise InputError(
            f"Envelope {envelope.name}, benchmark {one.benchmark.name}, levels {_shown(axes)}: {field}{found}"
            f"{': ' if field else ''}{reason}."
        ) from None


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        held = merged.get(name)
        merged[name] = _merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return merged


def _shown(axes: Mapping[str, str]) -> str:
    return ", ".join(f"{axis}={level}" for axis, level in axes.items()) or "(none)"


def _once(where: str, names: Sequence[str], what: str | None = None) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{where}: {what or repr(twice)} stands twice")


def _limited(spec: BenchmarkSpec, limit: int) -> BenchmarkSpec:
    items = spec.items
    if items.ids is not None:
        return spec.model_copy(update={"items": items.model_copy(update={"ids": items.ids[:limit]})})
    count = limit if items.count is None else min(items.count, limit)
    return spec.model_copy(update={"items": items.model_copy(update={"count": count})})


def _chosen(option: str, names: Sequence[str], known: Mapping[str, Any]) -> tuple[Any, ...]:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"{option} names {unknown[0]!r}; the envelope has {', '.join(known)}.")
    return tuple(known[name] for name in known if not names or name in names)
