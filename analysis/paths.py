"""What the scoring path does to each model: log-probabilities of candidates against generated text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.cells import mean_intervals, own_cells
from safetyrepro.analysis.grid import BenchmarkGrid
from safetyrepro.analysis.resampling import DRAWS, LEVEL, SEED, Floats

MATCHED = ("template", "shots", "suite", "arm")


@dataclass(frozen=True)
class PathDifference:
    """One model's score by logprob minus its score from generated text."""

    model: str
    difference: float
    ci: tuple[float, float] | None
    """Interval for this model by itself; None without items, and for parity."""
    n_settings: int
    """Settings (template, shots, suite and arm) that were scored both ways."""


def path_differences(
    grid: BenchmarkGrid, *, level: float = LEVEL, draws: int = DRAWS, seed: int = SEED
) -> tuple[PathDifference, ...]:
    """Per model the mean over settings scored both ways; empty where no setting is.

    Formula: within a setting the logprob cell minus the mean of its free-form cells (one a decoding), averaged over
    settings item by item; items that some of these cells lack are left out. The interval bootstraps clusters of items.
    """
    groups: dict[tuple[str, ...], dict[str, list[int]]] = {}
    for number, configuration in enumerate(grid.configurations):
        path = configuration.axes["scoring"]
        if path in ("free", "logprob"):
            setting = tuple(configuration.axes[axis] for axis in MATCHED)
            groups.setdefault(setting, {"free": [], "logprob": []})[path].append(number)
    own = own_cells(grid.scores, kind=grid.kind)
    found: list[tuple[str, float, int]] = []
    by_item: list[Floats] = []
    for number, model in enumerate(grid.models):
        valid = ~np.isnan(own[number])
        settings = [
            [[c for c in group[path] if valid[c]] for path in ("logprob", "free")]
            for group in groups.values()
            if all(any(valid[c] for c in group[path]) for path in ("logprob", "free"))
        ]
        if not settings:
            continue
        if grid.parity or not grid.item_level:
            cells = [own[number][logprob].mean() - own[number][free].mean() for logprob, free in settings]
            found.append((model, float(np.mean(cells)), len(settings)))
            continue
        scores = grid.scores[number]
        items = np.mean(
            [scores[logprob].mean(axis=0) - scores[free].mean(axis=0) for logprob, free in settings], axis=0
        )
        if not np.isnan(items).all():
            found.append((model, float(np.nanmean(items)), len(settings)))
            by_item.append(items)
    intervals: list[tuple[float, float] | None] = [None] * len(found)
    if by_item:
        # The interval of a mean allows for scores in [0, 1], differences lie in [-1, 1].
        halved = mean_intervals((np.array(by_item) + 1) / 2, grid.clusters, level=level, draws=draws, seed=seed)
        intervals = [None if np.isnan(low) else (float(low), float(high)) for low, high in 2 * halved - 1]
    return tuple(
        PathDifference(model, difference, ci, settings)
        for (model, difference, settings), ci in zip(found, intervals, strict=True)
    )
