"""Which choices of a run lie within what batch size, threads, dtype and mode change in its model's sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.config import Config, ModelSpec
    from safetyrepro.crosspkg.facts import Experiment
    from safetyrepro.engine.api import Tokenizer
    from safetyrepro.engine.noise import Candidate, Variation
    from safetyrepro.records import Record

QUESTIONS: Final = 8
"""Pocket questions whose answers are the fixed sequences."""


@dataclass(frozen=True)
class Choice:
    """One item's choice in a run, by likelihood."""

    suite: str
    arm: str
    config_id: str
    item_id: str
    margin: float
    """How far ahead of the next candidate the chosen one is: in nats, over the candidates' divisors."""
    bears: float
    """The largest change of every candidate's sum, in nats, that cannot change the choice."""


@dataclass(frozen=True)
class Choices:
    """The choices of one model in a run."""

    model: str
    numerics: str
    spec: ModelSpec
    choices: tuple[Choice, ...]
    not_judged: int
    """Records that were scored by likelihood, and whose choice is not that of the config's own rule."""

    def within(self, noise: float) -> list[Choice]:
        """The choices that a change of `noise` nats in every sum could change, the closest first."""
        return sorted((choice for choice in self.choices if choice.bears <= noise), key=lambda choice: choice.bears)


def fixed_candidates(tokenizer: Tokenizer) -> list[Candidate]:
    """The answers to the first pocket questions, behind their prompts: the same for everybody with this tokenizer."""
    from safetyrepro import benchmarks
    from safetyrepro.canonical import render
    from safetyrepro.config import BenchmarkSpec, Config, ItemSubset, ModelSpec
    from safetyrepro.engine.noise import Candidate

    config = Config(
        name="numerics",
        benchmark=BenchmarkSpec(name="truthfulqa", items=ItemSubset(count=QUESTIONS)),
        metric="mc1",
        models=(ModelSpec(id="any"),),
    )
    benchmark = benchmarks.get(config.benchmark.name)
    canonical = render(config, benchmark, benchmarks.load_data(config, None), tokenizer)
    number = {prompt.item_id: at for at, prompt in enumerate(canonical.prompts)}
    return [Candidate(number[one.item_id], one.ids, one.n_context) for one in canonical.sequences]


def run_choices(folder: Path, model: str) -> Choices:
    """The choices of `model` in the run that `folder` holds.

    Args:
        folder: What `safetyrepro anchor run` wrote.
        model: The model's name or id, as the run has it.

    Raises:
        InputError: no run there, or none of that model, or the model was an upstream server's, or it was run with more
            than one numerics.
    """
    from safetyrepro.crosspkg.folder import load_experiment

    experiment = load_experiment(folder)
    spec, name = _model(folder, experiment, model)
    configs = {info.config_id: info.config for info in experiment.configs}
    found: list[Choice] = []
    not_judged = 0
    numerics = ""
    for outcome in experiment.cells:
        if outcome.facts.model != name:
            continue
        for record in outcome.records:
            numerics = record.numerics or numerics
            if record.scoring != "logprob" or len(record.candidates) < 2:
                continue
            choice = _choice(record, configs[outcome.facts.config_id])
            found += [choice] if choice is not None else []
            not_judged += choice is None
    if not found and not not_judged:
        raise InputError(f"{folder}: {name} made no choice by likelihood there; name a run that scores candidates.")
    return Choices(name, numerics, spec, tuple(found), not_judged)


def noise_of(variations: Sequence[Variation], what: str, dtype: str) -> float:
    """The largest change in a sum, in nats, by `what` at `dtype`."""
    return max((one.largest for one in variations if one.what == what and one.dtype == dtype), default=0.0)


def _model(folder: Path, experiment: Experiment, asked: str) -> tuple[ModelSpec, str]:
    specs = {_canonical(model): model for info in experiment.configs for model in info.config.models}
    named = [model for model in specs.values() if asked in (model.id, Path(model.id).name)]
    if not named:
        known = ", ".join(sorted({model.id for model in specs.values()}))
        raise InputError(f"{folder}: holds no model {asked!r}; it has {known}.")
    if len(named) > 1:
        raise InputError(f"{folder}: holds {asked} with {len(named)} numerics; name a run with one of them.")
    if named[0].upstream is not None:
        raise InputError(f"{folder}: {asked} was served by an upstream server, whose numerics cannot be measured here.")
    cells = {facts.model for facts in (outcome.facts for outcome in experiment.cells)}
    names = [name for name in cells if name in (asked, named[0].id, Path(named[0].id).name)]
    if len(names) != 1:
        raise InputError(
            f"{folder}: none of its cells that have ended is of {asked}; run `safetyrepro anchor run` again."
        )
    return named[0], names[0]


def _canonical(model: ModelSpec) -> str:
    return model.model_dump_json()


def _choice(record: Record, config: Config) -> Choice | None:
    """None where the recorded choice is not the likeliest candidate under the config's normalisation."""
    from safetyrepro.adapters.record import divisors

    sums = [candidate.logprob for candidate in record.candidates]
    if record.choice is None or any(value is None for value in sums):
        return None
    over = divisors(config, record.candidates)
    values = [(value or 0.0) / divisor for value, divisor in zip(sums, over, strict=True)]
    chosen = record.choice
    if not 0 <= chosen < len(values) or values[chosen] != max(values):
        return None
    ahead = [
        (values[chosen] - value, 1 / over[chosen] + 1 / over[at]) for at, value in enumerate(values) if at != chosen
    ]
    return Choice(
        record.suite,
        record.arm or "",
        record.config_id,
        record.item_id,
        margin=min(margin for margin, _ in ahead),
        bears=min(margin / moves for margin, moves in ahead),
    )


def as_json(choices: Choices, variations: Sequence[Variation]) -> dict[str, Any]:
    """Which choices lie within which noise."""
    dtype = choices.spec.compute_dtype
    what = {name: noise_of(variations, name, dtype) for name in ("batch size", "threads", "mode")}
    what["dtype"] = max((one.largest for one in variations if one.what == "dtype"), default=0.0)
    return {
        "model": choices.model,
        "numerics": choices.numerics,
        "choices": len(choices.choices),
        "not_judged": choices.not_judged,
        "within": {
            name: {
                "noise": noise,
                "choices": [
                    {
                        "suite": one.suite,
                        "arm": one.arm,
                        "config_id": one.config_id,
                        "item_id": one.item_id,
                        "margin": one.margin,
                        "bears": one.bears,
                    }
                    for one in choices.within(noise)
                ],
            }
            for name, noise in what.items()
        },
    }
