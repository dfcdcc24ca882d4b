"""What rho_flip would be if all models were equal: descriptive, never a test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.aggregate import Aggregate, aggregated
from safetyrepro.analysis.cells import CHUNK
from safetyrepro.analysis.resampling import SEED, TOLERANCE, Floats

LABEL_DRAWS = 1_999
"""Draws of the mean and the 95% quantile; no p is computed from them."""


@dataclass(frozen=True)
class EqualModels:
    """The largest rho_flip over pairs under exchanged labels."""

    mean: float
    q95: float
    draws: int
    seed: int


def equal_models(
    sums: Floats, sizes: Floats, *, kind: Aggregate = "mean", draws: int = LABEL_DRAWS, seed: int = SEED
) -> EqualModels:
    """Permute the models' labels within clusters of items, jointly over configurations.

    Args:
        sums: shape (models, clusters, configurations): item scores summed over the items that all models scored.
        sizes: shape (clusters, configurations): how many such items; every configuration has some.
        kind: how item scores make a cell's score.
        draws: permutations of everything.
        seed: their seed, kept in the result.
    """
    models, clusters, configurations = sums.shape
    generator = np.random.default_rng(seed)
    first, second = np.triu_indices(models, 1)
    largest = np.zeros(draws)
    rows = max(1, CHUNK // (clusters * models))
    n = sizes.sum(axis=0)
    for start in range(0, draws, rows):
        block = min(rows, draws - start)
        labels = generator.random((block, clusters, models), dtype=np.float32).argsort(axis=2)
        cells = np.zeros((models, block, configurations))
        for slot in range(models):
            for model in range(models):
                cells[slot] += (labels[:, :, slot] == model).astype(np.float64) @ sums[model]
        if kind != "mean":
            cells = aggregated(kind, cells / n)
        rho = np.zeros(block)
        for a, b in zip(first, second, strict=True):
            difference = cells[a] - cells[b]
            plus, minus = (difference > TOLERANCE).sum(axis=1), (difference < -TOLERANCE).sum(axis=1)
            rho = np.maximum(rho, np.minimum(plus, minus) / configurations)
        largest[start : start + block] = rho
    return EqualModels(float(largest.mean()), float(np.quantile(largest, 0.95)), draws, seed)
