"""Everything that is computed once for a benchmark's whole grid; tiers and slices read their verdicts from it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safetyrepro.analysis.cells import (
    FEWEST_SHARED,
    PairCells,
    common_cells,
    masked_sums,
    mean_intervals,
    own_cells,
    pair_cells,
)
from safetyrepro.analysis.certify import Bools, Certification, PairSums, certify
from safetyrepro.analysis.equal import EqualModels, equal_models
from safetyrepro.analysis.grid import BenchmarkGrid
from safetyrepro.analysis.paths import PathDifference, path_differences
from safetyrepro.analysis.power import Discordance, discordance
from safetyrepro.analysis.resampling import DRAWS, LEVEL, SEED, TOLERANCE, Floats


@dataclass(frozen=True)
class Settings:
    """What all computations of a report share."""

    level: float = LEVEL
    draws: int = DRAWS
    seed: int = SEED
    min_shared: int = FEWEST_SHARED


@dataclass(frozen=True)
class PairResult:
    """Two models over all configurations."""

    a: int
    b: int
    """Indices into the grid's models, A before B in the alphabet."""
    cells: PairCells
    certification: Certification | None
    """None where the table has no items."""
    items: Floats
    """Shape (configurations, items): A's minus B's item scores; NaN where dropped, or where one lacks it."""
    cluster_sums: Floats
    """Shape (clusters, configurations)."""

    def discordance(self, selected: Bools) -> Discordance | None:
        """How much the two differ by item over `selected` configurations."""
        return discordance(self.items[selected], self.cluster_sums[:, selected])

    @property
    def better(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Items on which A scores higher, and on which B does, by configuration."""
        items = np.nan_to_num(self.items)
        return (items > TOLERANCE).sum(axis=1), (items < -TOLERANCE).sum(axis=1)


@dataclass(frozen=True)
class BenchmarkResult:
    """One benchmark's grid with its tests, which are over all configurations."""

    grid: BenchmarkGrid
    settings: Settings
    unit: float
    """Range of the item scores: 1 where they lie in [0, 1]. Tests run on scores divided by it."""
    own: Floats
    """Shape (models, configurations): each model's cell score on all its items."""
    common: Floats
    """The same on the items that all models scored, by which models are ranked."""
    intervals: Floats | None
    """Shape (models, configurations, 2), of the cell mean; None without items."""
    pairs: tuple[PairResult, ...]
    paths: tuple[PathDifference, ...]

    @property
    def at_chance(self) -> Bools:
        """Shape (models, configurations): the interval holds the score of a guess."""
        if self.intervals is None or self.grid.parity:
            return np.zeros(self.own.shape, dtype=np.bool_)
        return self._holds(self.grid.chance)

    def at_edge(self, value: float) -> Bools:
        """Shape (models, configurations): the interval holds the least (0) or the largest (1) score."""
        if self.intervals is None or self.grid.parity or self.unit != 1.0:
            return np.zeros(self.own.shape, dtype=np.bool_)
        return self._holds(np.full(len(self.grid.configurations), value))

    def _holds(self, value: Floats) -> Bools:
        assert self.intervals is not None
        low, high = self.intervals[..., 0], self.intervals[..., 1]
        held: Bools = (low - TOLERANCE <= value) & (value <= high + TOLERANCE)
        return held

    def equal_models(self, selected: Bools) -> EqualModels | None:
        """The largest rho_flip over pairs in `selected` if all models were equal; None without items."""
        grid = self.grid
        among = selected & ~np.isnan(self.common).any(axis=0)
        if not grid.item_level or len(grid.models) < 2 or not among.any():
            return None
        if len(grid.models) == 2 and self.pairs[0].certification is not None:
            found = self.pairs[0].certification
            return EqualModels(found.equal_mean, found.equal_q95, found.draws, found.seed)
        scores = grid.scores[:, among]
        scores = np.where(np.isnan(scores).any(axis=0), np.nan, scores)
        by_model = [masked_sums(part, grid.clusters) for part in scores]
        return equal_models(
            np.array([sums for sums, _ in by_model]),
            by_model[0][1],
            kind=grid.kind,
            seed=self.settings.seed,
        )


def analyse(
    grid: BenchmarkGrid,
    selected: Bools,
    settings: Settings | None = None,
    tick: Callable[[int], None] | None = None,
) -> BenchmarkResult:
    """Compute a benchmark's cells, pairs and tests.

    Args:
        grid: the benchmark.
        selected: shape (configurations,): the tier over which equal models are described; the tests' family is always
            the full grid.
        settings: level, draws, seed and the fewest shared items.
        tick: told how many of the draws are done.
    """
    settings = settings or Settings()
    unit = _unit(grid)
    own = own_cells(grid.scores, kind=grid.kind)
    common = common_cells(grid.scores, kind=grid.kind, min_shared=settings.min_shared)
    draw = {"level": settings.level, "draws": settings.draws, "seed": settings.seed}
    intervals = None
    if grid.item_level:
        flat = grid.scores.reshape(-1, len(grid.items))
        intervals = mean_intervals(flat / unit, grid.clusters, **draw).reshape(*own.shape, 2) * unit  # type: ignore[arg-type]
    bare = BenchmarkResult(grid, settings, unit, own, common, intervals, (), ())
    pairs = _pairs(bare, selected, tick)
    paths = path_differences(grid, **draw)  # type: ignore[arg-type]
    return BenchmarkResult(grid, settings, unit, own, common, intervals, pairs, paths)


def _unit(grid: BenchmarkGrid) -> float:
    present = grid.scores[~np.isnan(grid.scores)]
    if not present.size or (present.min() >= 0 and present.max() <= 1):
        return 1.0
    return float(np.ptp(present)) or 1.0


def _pairs(bare: BenchmarkResult, selected: Bools, tick: Callable[[int], None] | None) -> tuple[PairResult, ...]:
    grid, settings = bare.grid, bare.settings
    found, inputs = [], []
    for a, b in itertools.combinations(range(len(grid.models)), 2):
        first, second = grid.scores[a], grid.scores[b]
        cells = pair_cells(first, second, kind=grid.kind, min_shared=settings.min_shared)
        items = np.where(cells.kept[:, np.newaxis], first - second, np.nan)
        sums, sizes = masked_sums(items, grid.clusters)
        found.append(PairResult(a, b, cells, None, items, sums))
        total = None
        if grid.parity:
            total, _ = masked_sums(np.where(cells.kept[:, np.newaxis], first + second - 1, np.nan), grid.clusters)
        chance = bare.at_chance[a] & bare.at_chance[b]
        inputs.append(PairSums(sums / bare.unit, sizes, cells.kept, chance, total))
    if not grid.item_level:
        return tuple(found)
    tested = certify(inputs, selected, level=settings.level, draws=settings.draws, seed=settings.seed, tick=tick)
    return tuple(
        PairResult(pair.a, pair.b, pair.cells, certification, pair.items, pair.cluster_sums)
        for pair, certification in zip(found, tested, strict=True)
    )
