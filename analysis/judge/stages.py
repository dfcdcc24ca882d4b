"""What a step of training does to the judge's score, beside what it does to each factor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Step:
    """One model made from another."""

    start: str
    end: str
    step: str
    """What was done, such as `SFT` or `preference optimisation`."""
    method: str = ""


@dataclass(frozen=True)
class StepChange:
    """End minus start."""

    step: Step
    judge: float
    """In the judge score's own unit."""
    judge_sds: float
    """In standard deviations of the judge score over all models."""
    factors: Mapping[str, float | None]
    """In the factors' unit; None where a factor lacks one of the two models."""
    factors_sds: Mapping[str, float | None]


@dataclass(frozen=True)
class StepSummary:
    """All changes of one kind of step."""

    step: str
    pairs: int
    starts: int
    """Different start models: pairs that share one are no independent evidence."""
    judge_mean: float
    judge_up: int
    factor_means: Mapping[str, float | None]
    factor_means_sds: Mapping[str, float | None]
    judge_mean_sds: float
    factor_up: Mapping[str, int]
    factor_down: Mapping[str, int]


def step_changes(
    judge: Mapping[str, float], factors: Mapping[str, Mapping[str, float]], steps: Sequence[Step]
) -> tuple[StepChange, ...]:
    """Change of judge score and factors for each step whose two models have a judge score.

    Args:
        judge: score by model.
        factors: per factor the score by model.
        steps: which model was made from which.
    """
    unit = _sd(judge.values())
    units = {name: _sd(scores.values()) for name, scores in factors.items()}
    changes = []
    for step in steps:
        if step.start not in judge or step.end not in judge:
            continue
        raw = {
            name: scores[step.end] - scores[step.start] if step.start in scores and step.end in scores else None
            for name, scores in factors.items()
        }
        by_judge = judge[step.end] - judge[step.start]
        scaled = {
            name: None if value is None or not units[name] else value / units[name] for name, value in raw.items()
        }
        changes.append(StepChange(step, by_judge, by_judge / unit if unit else 0.0, raw, scaled))
    return tuple(changes)


def step_summaries(changes: Sequence[StepChange]) -> tuple[StepSummary, ...]:
    """The changes by kind of step, in order of appearance."""
    found = []
    for kind in dict.fromkeys(change.step.step for change in changes):
        group = [change for change in changes if change.step.step == kind]
        names = list(group[0].factors)
        found.append(
            StepSummary(
                step=kind,
                pairs=len(group),
                starts=len({change.step.start for change in group}),
                judge_mean=float(np.mean([change.judge for change in group])),
                judge_up=sum(change.judge > 0 for change in group),
                judge_mean_sds=float(np.mean([change.judge_sds for change in group])),
                factor_means={name: _mean([change.factors[name] for change in group]) for name in names},
                factor_means_sds={name: _mean([change.factors_sds[name] for change in group]) for name in names},
                factor_up={name: sum((change.factors[name] or 0) > 0 for change in group) for name in names},
                factor_down={name: sum((change.factors[name] or 0) < 0 for change in group) for name in names},
            )
        )
    return tuple(found)


def _sd(values: Iterable[float]) -> float:
    array = np.array(list(values), dtype=np.float64)
    return float(array.std(ddof=1)) if len(array) > 1 else 0.0


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
