"""The whole result of `safetyrepro grid`: every benchmark of a table in one tier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from safetyrepro.analysis.benchmark import Settings, analyse
from safetyrepro.analysis.gridsummary import benchmark_summary
from safetyrepro.analysis.tiers import Tier, tier_mask
from safetyrepro.errors import InputError
from safetyrepro.plurals import counted
from safetyrepro.stability.words import sentence

if TYPE_CHECKING:
    from safetyrepro.analysis.grid import BenchmarkGrid
    from safetyrepro.progress import Progress


def grid_result(
    grids: Sequence[BenchmarkGrid], tiers: Sequence[Tier], tier: str, settings: Settings, progress: Progress
) -> dict[str, Any]:
    """What `grid --json` prints.

    Args:
        grids: the benchmarks.
        tiers: known tiers, outermost first.
        tier: the one asked for.
        settings: level, draws, seed, fewest shared items.
        progress: where the long part says how far it is.

    Raises:
        InputError: no benchmark has two models, or the tier holds no configuration.
    """
    if all(len(grid.models) < 2 for grid in grids):
        only = sorted({model for grid in grids for model in grid.models})
        raise InputError(
            f"the table holds one model in every benchmark ({', '.join(only)[:200]}); a ranking needs two, scored on "
            "the same benchmark under the same config_id."
        )
    masks = {grid.benchmark: tier_mask(grid.benchmark, grid.configurations, tiers, tier) for grid in grids}
    if not any(mask.any() for mask in masks.values()):
        raise InputError(f"tier {tier!r} holds none of the table's configurations.")
    benchmarks = {}
    for grid in grids:
        task = progress.task(grid.benchmark, settings.draws)
        result = analyse(grid, masks[grid.benchmark], settings, task.update)
        summary = benchmark_summary(result, masks[grid.benchmark])
        task.finish(f"{counted(len(grid.models), 'model')}, {counted(len(grid.configurations), 'configuration')}")
        benchmarks[grid.benchmark] = summary | {"sentence": sentence(grid.benchmark, summary, tier)}
    return {"tier": tier, "benchmarks": benchmarks}
