"""The stability results of a card: `grid`'s analysis on the run's records, benchmark by benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from safetyrepro.analysis.card.model import BenchmarkStability, Configuration, PairCard, Scores

if TYPE_CHECKING:
    from safetyrepro.analysis.grid import BenchmarkGrid
    from safetyrepro.progress import Progress
    from safetyrepro.stability.source import Scores as Table

DECIMALS = 6
UNNAMED = "unnamed model"
"""What a card calls the model of a log that names none."""


@dataclass(frozen=True)
class Computation:
    """What the stability results are computed with."""

    tier: str
    draws: int
    seed: int


@dataclass(frozen=True)
class Analysed:
    """One benchmark of a run."""

    stability: BenchmarkStability
    results: tuple[Scores, ...]
    configurations: tuple[Configuration, ...]
    statuses: dict[str, int]


def read_table(folder: Path) -> Table:
    """The scores of a run's records.

    Raises:
        InputError: its records cannot be read.
    """
    from safetyrepro.stability.source import read_scores

    table = read_scores(folder)
    table.frame["model"] = table.frame["model"].where(table.frame["model"] != "", UNNAMED)
    return table


def analysed(table: Table, how: Computation, watch: Progress) -> dict[str, Analysed]:
    """Every benchmark of a run, in alphabetical order.

    Args:
        table: as `read_table` gives it.
        how: tier, draws and seed.
        watch: progress.

    Raises:
        InputError: the tier is not known or holds no configuration.
    """
    from safetyrepro.analysis.benchmark import Settings
    from safetyrepro.stability.result import grid_result
    from safetyrepro.stability.source import benchmark_grids
    from safetyrepro.stability.tierfile import tiers

    grids = benchmark_grids(table)
    settings = Settings(draws=how.draws, seed=how.seed)
    ranked = [grid for grid in grids if len(grid.models) > 1]
    summaries: dict[str, Any] = {}
    if ranked:
        summaries = grid_result(ranked, tiers(), how.tier, settings, watch)["benchmarks"]
    found = {}
    for grid in grids:
        summary = summaries.get(grid.benchmark) or _alone(grid, how.tier, settings)
        found[grid.benchmark] = Analysed(
            _stability(grid.benchmark, summary),
            tuple(_scores(model, summary) for model in grid.models),
            tuple(
                Configuration(
                    config_id=one.config_id,
                    axes={axis: level for axis, level in one.axes.items() if level},
                    tiers=(),
                )
                for one in grid.configurations
            ),
            dict(sorted(grid.statuses.items())),
        )
    return found


def _alone(grid: BenchmarkGrid, tier: str, settings: Any) -> dict[str, Any]:
    """The summary of a benchmark that one model was scored on: there is nothing to rank, and it says so."""
    from safetyrepro.analysis.benchmark import analyse
    from safetyrepro.analysis.gridsummary import benchmark_summary
    from safetyrepro.analysis.tiers import tier_mask
    from safetyrepro.stability.tierfile import tiers
    from safetyrepro.stability.words import sentence

    mask = tier_mask(grid.benchmark, grid.configurations, tiers(), tier)
    summary = benchmark_summary(analyse(grid, mask, settings), mask)
    return summary | {"sentence": sentence(grid.benchmark, summary, tier)}


def _stability(benchmark: str, summary: Mapping[str, Any]) -> BenchmarkStability:
    pairs = summary["pairs"]
    reason = _not_testable(summary)
    verdict: Literal["certified reversal", "no certified reversal", "not testable"] = "not testable"
    if reason is None:
        certified = any(pair["certified_reversal"] for pair in pairs)
        verdict = "certified reversal" if certified else "no certified reversal"
    equal = summary["equal_models"]
    return BenchmarkStability(
        benchmark=benchmark,
        verdict=verdict,
        reason=reason,
        sentence=summary["sentence"],
        n_configurations=summary["n_configurations"],
        n_items=summary["n_items"],
        rho_flip_max=_rounded(summary["rho_flip_max"]),
        equal_models_q95=None if equal is None else _rounded(equal["q95"]),
        pairs=tuple(_pair(pair) for pair in pairs),
    )


def _not_testable(summary: Mapping[str, Any]) -> str | None:
    pairs = summary["pairs"]
    if not pairs:
        return "one model: nothing to rank"
    most = max(pair["n_configs"] for pair in pairs)
    if most == 0:
        return "no two models have a valid score in the same configuration"
    if most == 1:
        return "one configuration: whether an order survives the configuration cannot be told"
    if not summary["item_level"]:
        return "cell means without items: nobody can tell a reversal from noise"
    if not any(pair["testable"] for pair in pairs):
        return "too few items on which the models differ"
    return None


def _pair(pair: Mapping[str, Any]) -> PairCard:
    bounds = pair["rho_flip_bounds"]
    return PairCard(
        a=pair["a"],
        b=pair["b"],
        n_configs=pair["n_configs"],
        n_plus=pair["n_plus"],
        n_minus=pair["n_minus"],
        rho_flip=_rounded(pair["rho_flip"]),
        rho_flip_bounds=None if bounds is None else (round(bounds[0], DECIMALS), round(bounds[1], DECIMALS)),
        certified=pair["certified"],
        certified_reversal=pair["certified_reversal"],
        reversal_p=_rounded(pair["reversal_p"]),
        testable=pair["testable"],
    )


def _scores(model: str, summary: Mapping[str, Any]) -> Scores:
    cells = [row["cells"][model] for row in summary["configurations"] if row["cells"][model] is not None]
    scores = [cell["score"] for cell in cells]
    return Scores(
        model=model,
        cells=len(cells),
        lowest=_rounded(min(scores, default=None)),
        median=_rounded(median(scores)) if scores else None,
        highest=_rounded(max(scores, default=None)),
        at_chance=sum("at chance" in cell["flags"] for cell in cells),
        single_draws=sum(bool(cell["single_draw"]) for cell in cells),
    )


def _rounded(value: float | None) -> float | None:
    # 0.0 is added since -0.0 and 0.0 are one score and two texts.
    return None if value is None else round(float(value), DECIMALS) + 0.0
