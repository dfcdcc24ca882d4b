"""How many orders of the models the configurations reach."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.cells import TIE
from safetyrepro.analysis.resampling import Floats


@dataclass(frozen=True)
class Orderings:
    """The orders of M models over the configurations that score them all."""

    strict: int
    """Different orders without ties."""
    possible: int
    """M!"""
    weak: int
    """Different orders with ties, apart from the strict ones."""
    n_configs: int
    counts: tuple[tuple[tuple[tuple[int, ...], ...], int], ...]
    """Each order, best first and tied models together, with the number of its configurations, most frequent first."""


def orderings(cells: Floats) -> Orderings:
    """Count the reachable orders.

    Args:
        cells: shape (models, configurations): cell scores, higher is better; a configuration with a NaN is left out.
            Scores within 1e-12 of each other are tied.
    """
    models = len(cells)
    counts: dict[tuple[tuple[int, ...], ...], int] = {}
    for column in cells[:, ~np.isnan(cells).any(axis=0)].T:
        order = _order(column)
        counts[order] = counts.get(order, 0) + 1
    strict = sum(len(order) == models for order in counts)
    listed = tuple(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))
    return Orderings(strict, math.factorial(models), len(counts) - strict, sum(counts.values()), listed)


def _order(scores: Floats) -> tuple[tuple[int, ...], ...]:
    groups: list[list[int]] = []
    for model in sorted(range(len(scores)), key=lambda m: -scores[m]):
        if groups and scores[groups[-1][-1]] - scores[model] <= TIE:
            groups[-1].append(model)
        else:
            groups.append([model])
    return tuple(tuple(sorted(group)) for group in groups)
