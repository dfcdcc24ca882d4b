"""A judge's scores of models beside a factor that was measured without a judge."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from safetyrepro.analysis.resampling import (
    DRAWS,
    LEVEL,
    SEED,
    TOLERANCE,
    Floats,
    bootstrap_counts,
    expansion,
    random_p,
)

FEWEST_MODELS = 4
"""Below this a correlation over models is not reported (ours)."""
FEWEST_FOR_INTERVAL = 8
"""Below this the draws of a bootstrap over models are too alike for an interval (ours)."""
_CHUNK = 2_000


@dataclass(frozen=True)
class Coefficient:
    """One correlation coefficient with its interval over models."""

    value: float | None
    """In [-1, 1]; None where one side does not vary or there are too few models."""
    ci: tuple[float, float] | None
    undefined_draws: int = 0
    """Bootstrap draws in which a side does not vary; they are left out of the interval."""


@dataclass(frozen=True)
class DiscordantPair:
    """Two models that the judge and the factor put in opposite order."""

    judge_prefers: str
    factor_prefers: str
    judge_gap: float
    """How far apart the judge puts them, in its own unit; positive."""
    factor_gap: float
    """How far apart the factor puts them, in its own unit; positive."""


@dataclass(frozen=True)
class Agreement:
    """A judge's scores against one factor."""

    n_models: int
    pearson: Coefficient
    spearman: Coefficient
    kendall: Coefficient
    pearson_p: float | None
    """Two-sided, by permutation of the models."""
    spearman_p: float | None
    pairs: int
    """All pairs of models."""
    tied: int
    """Pairs that the judge or the factor holds equal."""
    discordant: tuple[DiscordantPair, ...]
    """Largest product of both gaps (each in standard deviations) first."""
    level: float
    draws: int
    seed: int

    @property
    def discordant_share(self) -> float | None:
        """Discordant pairs of all pairs; with ties in neither camp."""
        return len(self.discordant) / self.pairs if self.pairs else None

    def summary(self) -> str:
        """The result in words."""
        if self.pearson.value is None or self.spearman.value is None:
            return f"undefined over {self.n_models} models"
        share = "" if self.discordant_share is None else f"; {100 * self.discordant_share:.0f}% of pairs discordant"
        return f"r = {self.pearson.value:.2f}, rho = {self.spearman.value:.2f} over {self.n_models} models{share}"


def agreement(
    judge: Floats,
    factor: Floats,
    names: Sequence[str],
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Agreement:
    """Pearson, Spearman and Kendall's tau-b of two scores over models, with bootstrap intervals.

    Formula: models are drawn with replacement; with c[i] the count of model i in a draw, Pearson is the correlation
    weighted by c, Spearman the same of the draw's midranks, and tau-b is
    `c' (S_x * S_y) c / sqrt(c' S_x^2 c * c' S_y^2 c)` with S the matrix of signs of differences, which gives a model's
    copies the ties that they are. Percentile intervals with the widening for few draws units
    (`resampling.expansion`), within [-1, 1]. p permutes the models: (1 + b) / (B + 1).

    Args:
        judge: shape (models,), any unit, higher is better.
        factor: shape (models,), any unit, higher is better.
        names: the models.
        level: coverage.
        draws: bootstrap draws, and permutations.
        seed: seed of both.

    Raises:
        ValueError: shapes do not fit, or an entry is no number.

    References:
        M. Kendall (1945), The Treatment of Ties in Ranking Problems, Biometrika 33, 239-251.
    """
    if judge.shape != factor.shape or judge.shape != (len(names),):
        raise ValueError(f"scores have shapes {judge.shape} and {factor.shape}: want ({len(names)},) for both")
    if not (np.isfinite(judge).all() and np.isfinite(factor).all()):
        raise ValueError("scores hold a value that is no number: keep models that have both")
    n = len(names)
    discordant, tied = _discordant(judge, factor, names)
    if n < FEWEST_MODELS or _constant(judge) or _constant(factor):
        none = Coefficient(None, None)
        return Agreement(n, none, none, none, None, None, n * (n - 1) // 2, tied, discordant, level, draws, seed)
    ones = np.ones((1, n))
    values = _coefficients(ones, judge, factor)
    intervals: list[tuple[tuple[float, float] | None, int]] = [(None, 0)] * 3
    if n >= FEWEST_FOR_INTERVAL:
        counts = bootstrap_counts(n, draws, seed)
        chunks = [_coefficients(counts[s : s + _CHUNK], judge, factor) for s in range(0, draws, _CHUNK)]
        intervals = [_interval(np.concatenate([c[k] for c in chunks]), n, level) for k in range(3)]
    pearson, spearman, kendall = (
        Coefficient(float(value[0]), ci, lost) for value, (ci, lost) in zip(values, intervals, strict=True)
    )
    return Agreement(
        n_models=n,
        pearson=pearson,
        spearman=spearman,
        kendall=kendall,
        pearson_p=_permutation_p(judge, factor, draws, seed),
        spearman_p=_permutation_p(stats.rankdata(judge), stats.rankdata(factor), draws, seed),
        pairs=n * (n - 1) // 2,
        tied=tied,
        discordant=discordant,
        level=level,
        draws=draws,
        seed=seed,
    )


def within_strata(
    judge: Floats,
    factor: Floats,
    names: Sequence[str],
    strata: Sequence[str],
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Mapping[str, Agreement]:
    """`agreement` within each stratum (such as a base model), strata in sorted order.

    A correlation over all models can come from a difference between strata alone, and can hide one within them.
    """
    labels = np.asarray(strata, dtype=object)
    found = {}
    for stratum in sorted(set(strata)):
        inside = labels == stratum
        members = [name for name, kept in zip(names, inside, strict=True) if kept]
        found[stratum] = agreement(judge[inside], factor[inside], members, level=level, draws=draws, seed=seed)
    return found


def _coefficients(counts: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    signs_x, signs_y = np.sign(x[:, None] - x[None, :]), np.sign(y[:, None] - y[None, :])
    with np.errstate(invalid="ignore", divide="ignore"):
        pearson = _weighted_pearson(counts, x[None, :], y[None, :])
        spearman = _weighted_pearson(counts, _midranks(counts, signs_x), _midranks(counts, signs_y))
        both = ((counts @ (signs_x * signs_y)) * counts).sum(axis=1)
        untied = ((counts @ signs_x**2) * counts).sum(axis=1) * ((counts @ signs_y**2) * counts).sum(axis=1)
        kendall = both / np.sqrt(untied)
    return pearson, spearman, kendall


def _midranks(counts: Floats, signs: Floats) -> Floats:
    """Midrank of every model in every draw: those below, and half of those level with it."""
    below, level = (signs < 0).astype(np.float64), (signs == 0).astype(np.float64)
    ranks: Floats = counts @ below + (counts @ level + 1) / 2
    return ranks


def _weighted_pearson(counts: Floats, x: Floats, y: Floats) -> Floats:
    n = counts.sum(axis=1, keepdims=True)
    dx = x - (counts * x).sum(axis=1, keepdims=True) / n
    dy = y - (counts * y).sum(axis=1, keepdims=True) / n
    sxx, syy = (counts * dx * dx).sum(axis=1), (counts * dy * dy).sum(axis=1)
    flat = (sxx <= TOLERANCE * _scale(x)) | (syy <= TOLERANCE * _scale(y))
    correlation: Floats = np.where(flat, np.nan, (counts * dx * dy).sum(axis=1) / np.sqrt(sxx * syy))
    return correlation


def _scale(values: Floats) -> float:
    return float(np.var(values)) or 1.0


def _interval(values: Floats, n: int, level: float) -> tuple[tuple[float, float] | None, int]:
    defined = values[np.isfinite(values)]
    lost = len(values) - len(defined)
    if len(defined) < len(values) / 2:
        return None, lost
    tail = float(stats.norm.cdf(stats.norm.ppf((1 - level) / 2) * expansion(n, level)))
    low, high = np.quantile(defined, [tail, 1 - tail])
    return (float(max(low, -1.0)), float(min(high, 1.0))), lost


def _permutation_p(x: Floats, y: Floats, draws: int, seed: int) -> float:
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    generator = np.random.default_rng(seed)
    permuted = generator.permuted(np.broadcast_to(y, (draws, len(y))), axis=1) @ x
    return random_p(int((np.abs(permuted) >= abs(float(x @ y)) - TOLERANCE).sum()), draws)


def _discordant(judge: Floats, factor: Floats, names: Sequence[str]) -> tuple[tuple[DiscordantPair, ...], int]:
    found: list[tuple[float, DiscordantPair]] = []
    tied = 0
    for i, j in itertools.combinations(range(len(names)), 2):
        by_judge, by_factor = float(judge[i] - judge[j]), float(factor[i] - factor[j])
        if by_judge == 0 or by_factor == 0:
            tied += 1
        elif (by_judge > 0) != (by_factor > 0):
            first, second = (i, j) if by_judge > 0 else (j, i)
            pair = DiscordantPair(names[first], names[second], abs(by_judge), abs(by_factor))
            found.append((abs(by_judge * by_factor), pair))
    return tuple(pair for _, pair in sorted(found, key=lambda entry: -entry[0])), tied


def _constant(values: Floats) -> bool:
    return not values.size or float(np.ptp(values)) == 0
