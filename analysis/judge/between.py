"""Do judges agree with each other, beyond what chance would give?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import krippendorff
import numpy as np
from scipy import stats

from safetyrepro.analysis.resampling import LEVEL, SEED, Floats, bootstrap_counts, expansion

ALPHA_DRAWS = 999
_VALUES = {"b": 0, "tie": 1, "a": 2}


@dataclass(frozen=True)
class JudgeAgreement:
    """Agreement of two or more judges on which answer wins."""

    judges: tuple[str, ...]
    units: int
    """Calls (item, pair of models, order, edit, repeat) on which at least two of them gave a readable verdict."""
    items: int
    raw: float | None
    """Share of pairs of verdicts on the same call that are the same."""
    alpha: float | None
    """Krippendorff's alpha of the three outcomes as names; 1 is perfect, 0 what chance gives, below 0 opposition. None
    where nothing varies."""
    alpha_ci: tuple[float, float] | None
    alpha_ordinal: float | None
    """The same with b, tie, a as an order, so that a tie is nearer to either answer."""


def judge_agreement(
    outcomes: Mapping[str, Sequence[str]],
    items: Sequence[str],
    *,
    level: float = LEVEL,
    draws: int = ALPHA_DRAWS,
    seed: int = SEED,
) -> JudgeAgreement:
    """Krippendorff's alpha, which takes any number of judges and leaves unparsed verdicts out.

    Args:
        outcomes: per judge the winner of each call: `a`, `b`, `tie`, or "" where there is none.
        items: the item of each call, the cluster of the bootstrap.
        level: coverage of the interval of alpha.
        draws: bootstrap draws.
        seed: their seed.

    References:
        K. Krippendorff (2004), Content Analysis, chapter 11; computed by the package `krippendorff`.
    """
    counts = np.zeros((len(items), len(_VALUES)))
    for verdicts in outcomes.values():
        for unit, verdict in enumerate(verdicts):
            if verdict in _VALUES:
                counts[unit, _VALUES[verdict]] += 1
    kept = counts.sum(axis=1) >= 2
    counts = counts[kept]
    inside = [item for item, keep in zip(items, kept, strict=True) if keep]
    sizes = counts.sum(axis=1)
    same, pairs = float((counts * (counts - 1)).sum()), float((sizes * (sizes - 1)).sum())
    nominal = _alpha(counts, "nominal")
    return JudgeAgreement(
        judges=tuple(outcomes),
        units=len(counts),
        items=len(set(inside)),
        raw=same / pairs if pairs else None,
        alpha=nominal,
        alpha_ci=None if nominal is None else _interval(counts, inside, level, draws, seed),
        alpha_ordinal=_alpha(counts, "ordinal"),
    )


def _alpha(counts: Floats, measurement: Literal["nominal", "ordinal"]) -> float | None:
    if (counts.sum(axis=0) > 0).sum() < 2:
        return None
    return float(
        krippendorff.alpha(
            value_counts=counts, value_domain=list(range(len(_VALUES))), level_of_measurement=measurement
        )
    )


def _interval(counts: Floats, items: Sequence[str], level: float, draws: int, seed: int) -> tuple[float, float] | None:
    names, index = np.unique(np.asarray(items, dtype=object).astype(str), return_inverse=True)
    if len(names) < 2:
        return None
    members = [np.flatnonzero(index == k) for k in range(len(names))]
    values = []
    for draw in bootstrap_counts(len(names), draws, seed):
        rows = np.concatenate([np.tile(members[k], int(times)) for k, times in enumerate(draw) if times])
        value = _alpha(counts[rows], "nominal")
        if value is not None:
            values.append(value)
    if len(values) < draws / 2:
        return None
    tail = float(stats.norm.cdf(stats.norm.ppf((1 - level) / 2) * expansion(len(names), level)))
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)
