"""Factors of a meta-benchmark: equal-weight means of benchmarks, and what each benchmark does to the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.judge.correlation import FEWEST_MODELS
from safetyrepro.analysis.resampling import Floats

INVARIANT_RANGE = 0.01
"""A benchmark whose best and worst model are closer than this (share in [0, 1]) is flagged as not varying (ours)."""


@dataclass(frozen=True)
class BenchmarkInfluence:
    """One benchmark's part in a factor's correlation with the judge."""

    benchmark: str
    lowest: float
    highest: float
    sd: float
    """Standard deviation over models."""
    invariant: bool
    """Whether best and worst model are closer than `INVARIANT_RANGE`."""
    own_pearson: float | None
    """The judge against this benchmark alone."""
    pearson_without: float | None
    """The judge against the factor without it; None where nothing is left or one side does not vary."""
    spearman_without: float | None
    pearson_change: float | None
    """With it minus without it."""


def factor_scores(values: Floats, *, z_scored: bool = False) -> Floats:
    """A factor's score per model: the mean of its benchmarks with equal weights.

    Args:
        values: shape (models, benchmarks), shares in [0, 1], higher is better.
        z_scored: standardise each benchmark over the models first, so that one with a wide range weighs no more than
            another; a benchmark that does not vary then adds 0.

    Returns:
        Shape (models,).

    Raises:
        ValueError: no benchmark, or an entry is no number.
    """
    if values.ndim != 2 or not values.shape[1] or not np.isfinite(values).all():
        raise ValueError(f"values have shape {values.shape}: want (models, benchmarks >= 1), all of them numbers")
    if z_scored:
        spread = values.std(axis=0)
        values = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    means: Floats = values.mean(axis=1)
    return means


def influences(
    judge: Floats, values: Floats, benchmarks: Sequence[str], *, z_scored: bool = False
) -> tuple[BenchmarkInfluence, ...]:
    """Leave one benchmark out: the judge against the factor without it.

    Args:
        judge: shape (models,).
        values: shape (models, benchmarks).
        benchmarks: their names.
        z_scored: as in `factor_scores`.
    """
    whole = _pearson(judge, factor_scores(values, z_scored=z_scored))
    found = []
    for k, name in enumerate(benchmarks):
        column, rest = values[:, k], np.delete(values, k, axis=1)
        without = factor_scores(rest, z_scored=z_scored) if rest.shape[1] else np.zeros(len(judge))
        pearson = _pearson(judge, without)
        found.append(
            BenchmarkInfluence(
                benchmark=name,
                lowest=float(column.min()),
                highest=float(column.max()),
                sd=float(column.std(ddof=1)) if len(column) > 1 else 0.0,
                invariant=float(np.ptp(column)) < INVARIANT_RANGE,
                own_pearson=_pearson(judge, column),
                pearson_without=pearson,
                spearman_without=_pearson(_ranks(judge), _ranks(without)),
                pearson_change=None if whole is None or pearson is None else whole - pearson,
            )
        )
    return tuple(found)


def _ranks(values: Floats) -> Floats:
    from scipy import stats

    ranks: Floats = stats.rankdata(values)
    return ranks


def _pearson(x: Floats, y: Floats) -> float | None:
    if len(x) < FEWEST_MODELS or float(np.ptp(x)) == 0 or float(np.ptp(y)) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])
