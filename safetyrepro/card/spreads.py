"""How far the suites' scores of one model are apart, config by config and arm by arm, as report.json has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from safetyrepro import benchmarks
from safetyrepro.analysis.card.model import SuiteSpread
from safetyrepro.card.stability import DECIMALS
from safetyrepro.config import Arm
from safetyrepro.crosspkg.outcomes import score_matrix, shared_items
from safetyrepro.crosspkg.summary import ArmCells
from safetyrepro.runners import in_order, title

if TYPE_CHECKING:
    from safetyrepro.card.stability import Computation
    from safetyrepro.crosspkg.facts import ConfigInfo, Experiment

ALPHA = 0.05


def suite_spreads(experiment: Experiment, how: Computation) -> Iterable[SuiteSpread]:
    """Every config, model and arm that has cells.

    Args:
        experiment: the run.
        how: draws and seed of the null distribution.
    """
    for info in experiment.configs:
        for model in experiment.models:
            for arm in Arm:
                cells = {
                    cell.facts.suite: cell
                    for cell in experiment.cells
                    if (cell.facts.config_id, cell.facts.model, cell.facts.arm)
                    == (info.config_id, model.name, arm.value)
                }
                if cells:
                    ordered = {suite: cells[suite] for suite in in_order(cells)}
                    yield _spread(info, model.name, arm.value, ArmCells(info, ordered), how)


def _spread(info: ConfigInfo, model: str, arm: str, cells: ArmCells, how: Computation) -> SuiteSpread:
    from safetyrepro.analysis.spread import suite_spread

    scored = cells.scored
    shared = shared_items(list(scored.values()))
    name = info.config.benchmark.name
    where = f"On {benchmarks.get(name).title} ({arm} arm, {model}, {len(shared)} items)"
    common: dict[str, Any] = {"benchmark": name, "config_id": info.config_id, "model": model, "arm": arm}
    if len(scored) < 2 or not shared:
        lacking = "no item is scored by all suites" if len(scored) > 1 else "fewer than two suites have scores"
        return SuiteSpread(
            **common,
            scores=_rounded({suite: cells.means[suite].score for suite in scored}),
            items=len(shared),
            spread_points=None,
            null_q95_points=None,
            p=None,
            verdict="not testable",
            sentence=f"{where} the suites cannot be compared: {lacking}.",
        )
    clusters = next(iter(scored.values())).clusters
    spread = suite_spread(
        score_matrix(list(scored.values()), shared),
        [clusters[item_id] for item_id in shared],
        list(scored),
        aggregate=cells.aggregate,
        draws=how.draws,
        seed=how.seed,
    )
    verdict: Literal["suites differ", "not told apart"] = "suites differ" if spread.p <= ALPHA else "not told apart"
    told = "" if verdict == "suites differ" else ", so that they are not told apart"
    return SuiteSpread(
        **common,
        scores=_rounded(dict(zip(spread.labels, spread.scores, strict=True))),
        items=len(shared),
        spread_points=round(spread.points, DECIMALS),
        null_q95_points=round(spread.null_q95, DECIMALS),
        p=round(spread.p, DECIMALS),
        verdict=verdict,
        sentence=f"{where} the scores of {', '.join(map(title, spread.labels))} are {spread.points:.1f} points apart; "
        f"equal suites would show at most {spread.null_q95:.1f} in 95% of draws (p = {spread.p:.4f}){told}.",
    )


def _rounded(scores: Mapping[str, float | None]) -> dict[str, float]:
    return {suite: round(score, DECIMALS) for suite, score in scores.items() if score is not None}
