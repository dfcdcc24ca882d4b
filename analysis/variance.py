"""Where the variance of the cell scores comes from: model, axes, model x axis, remainder, and item noise.

An axis' main effect moves all models alike and cannot reverse a ranking; model x axis can, so each has its own line.
Shares describe one grid: no F, no p. With pure noise the axes out-weigh the model because they have more degrees of
freedom, so shares per degree of freedom stand beside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safetyrepro.analysis.aggregate import Aggregate, aggregated
from safetyrepro.analysis.resampling import SEED, TOLERANCE, Floats

SPLITS = 100
MODEL = "model"
REMAINDER = "remainder"
SHARED = "shared"


@dataclass(frozen=True)
class VarianceTerm:
    """One line of the table."""

    term: str
    df: int
    share: float
    """Of the total sum of squares."""
    noise: float | None
    """The part of the total that item noise alone puts into this term; None without items."""

    @property
    def share_per_df(self) -> float | None:
        """None for `shared`, which has no degrees of freedom of its own."""
        return self.share / self.df if self.df else None


def type_two(
    values: Floats, factors: Mapping[str, Sequence[str]], *, crossed: bool = True
) -> list[tuple[str, int, Floats]]:
    """Type II sums of squares of the model, each axis and each model x axis.

    A term's sum of squares is the fall of the residual sum of squares when it joins all terms that do not contain it.
    Residuals are taken by projection, so that aliased levels cost degrees of freedom and nothing else.

    Args:
        values: shape (cells,) or (cells, k): k responses on the same cells.
        factors: levels of each cell by factor, with `model` among them; the other factors are the axes.
        crossed: whether model x axis is in; without it, it is part of the remainder.

    Returns:
        (term, degrees of freedom, sums of squares of shape (k,)) for every term, `remainder` and `shared`: the total
        less all the others, which is 0 in a balanced table and of either sign elsewhere.
    """
    y = values.reshape(len(values), -1)
    y = y - y.mean(axis=0)
    axes = [name for name in factors if name != MODEL]
    columns = {name: _dummies(list(levels)) for name, levels in factors.items()}
    blocks = dict(columns)
    if crossed:
        blocks |= {_crossed(axis): _products(columns[MODEL], columns[axis]) for axis in axes}
    everything = list(blocks)

    def rest(term: str) -> list[str]:
        return [other for other in everything if other != term and not _contains(other, term)]

    rows: list[tuple[str, int, Floats]] = []
    for term in everything:
        without, rank_without = _residual(y, [blocks[name] for name in rest(term)])
        with_it, rank_with = _residual(y, [blocks[name] for name in [*rest(term), term]])
        rows.append((term, rank_with - rank_without, np.maximum(without - with_it, 0.0)))
    left, rank = _residual(y, list(blocks.values()))
    rows.append((REMAINDER, len(y) - rank, left))
    total = (y**2).sum(axis=0)
    explained: Floats = np.sum([row[2] for row in rows], axis=0)
    return [*rows, (SHARED, 0, total - explained)]


def variance_shares(
    cells: Floats, factors: Mapping[str, Sequence[str]], halves: Floats | None = None, *, crossed: bool = True
) -> tuple[VarianceTerm, ...] | None:
    """Shares of the total sum of squares; None where all cells score alike.

    Args:
        cells: shape (cells,): cell scores.
        factors: as in `type_two`.
        halves: shape (cells, splits): half the difference of a cell's scores on two random halves of its items. Its
            sums of squares about its mean are what item noise contributes to each term.
        crossed: as in `type_two`.
    """
    total = float(((cells - cells.mean()) ** 2).sum())
    if len(cells) < 2 or total <= TOLERANCE**2:
        return None
    rows = type_two(cells, factors, crossed=crossed)
    noise = (
        None if halves is None else [float(row[2].mean()) / total for row in type_two(halves, factors, crossed=crossed)]
    )
    terms = [
        VarianceTerm(term, df, float(squares[0]) / total, None if noise is None else noise[number])
        for number, (term, df, squares) in enumerate(rows)
    ]
    return tuple(t for t in terms if t.term != SHARED or abs(t.share) > TOLERANCE)


def split_halves(
    scores: Floats, clusters: Sequence[str], *, kind: Aggregate = "mean", splits: int = SPLITS, seed: int = SEED
) -> Floats | None:
    """Half the difference between cell scores on two random halves of the clusters.

    If a cell's score is the mean of two independent halves, half their difference has the same noise as that mean, and
    nothing else but a shift common to all cells.

    Args:
        scores: shape (cells, items), NaN where missing.
        clusters: the cluster of each item.
        kind: how item scores make a cell's score.
        splits: random splits.
        seed: their seed.

    Returns:
        Shape (cells, splits); None where a half leaves a cell without items.
    """
    names, index = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    if len(names) < 2:
        return None
    generator = np.random.default_rng(seed)
    order = generator.random((splits, len(names))).argsort(axis=1)
    side = (order < len(names) // 2)[:, index].astype(np.float64)
    has = ~np.isnan(scores)
    filled = np.where(has, scores, 0.0)
    first_n, first = has @ side.T, filled @ side.T
    second_n, second = has.sum(axis=1, keepdims=True) - first_n, filled.sum(axis=1, keepdims=True) - first
    if (first_n < 1).any() or (second_n < 1).any():
        return None
    half: Floats = (aggregated(kind, first / first_n) - aggregated(kind, second / second_n)) / 2
    return half


def _crossed(axis: str) -> str:
    return f"{MODEL} x {axis}"


def _contains(other: str, term: str) -> bool:
    """Whether a crossed term holds `term` (a term is not said to contain itself)."""
    return other == _crossed(term) or (term == MODEL and other.startswith(f"{MODEL} x "))


def _dummies(levels: Sequence[str]) -> Floats:
    _, codes = np.unique(np.asarray(levels, dtype=object).astype(str), return_inverse=True)
    return np.eye(int(codes.max()) + 1)[codes]


def _products(first: Floats, second: Floats) -> Floats:
    return (first[:, :, np.newaxis] * second[:, np.newaxis, :]).reshape(len(first), -1)


def _residual(y: Floats, blocks: Sequence[NDArray[np.float64]]) -> tuple[Floats, int]:
    """Residual sums of squares of shape (k,) on an intercept and `blocks`, and the rank of the design."""
    design = np.hstack([np.ones((len(y), 1)), *blocks])
    left, singular, _ = np.linalg.svd(design, full_matrices=False)
    rank = int((singular > singular[0] * max(design.shape) * np.finfo(float).eps).sum())
    basis = left[:, :rank]
    residual = y - basis @ (basis.T @ y)
    return (residual**2).sum(axis=0), rank
