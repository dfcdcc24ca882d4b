"""The figures of one arm for one model: scores, spread, order of the models, wire, as report.json holds them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from safetyrepro import benchmarks
from safetyrepro.analysis.aggregate import Aggregate
from safetyrepro.analysis.mean import MeanScore, mean_score
from safetyrepro.analysis.order import ModelOrder, model_order
from safetyrepro.analysis.resampling import TOLERANCE, holm
from safetyrepro.analysis.spread import Spread, suite_spread
from safetyrepro.crosspkg.disagreements import clipped, disagreements
from safetyrepro.crosspkg.facts import CellOutcome, ConfigInfo
from safetyrepro.crosspkg.outcomes import ItemScores, item_scores, score_matrix, shared_items
from safetyrepro.crosspkg.promptdiff import compare_prompts
from safetyrepro.crosspkg.releases import release_pairs
from safetyrepro.crosspkg.repeats import arm_within, repeats_json, single_draw
from safetyrepro.crosspkg.wirediff import WireTable, compare_wire

FEWEST_CLUSTERS = 5
"""Fewer clusters of shared items than this are refused for an order of models: no test could tell them apart."""
LONGEST_PROMPT = 20_000


class ArmCells:
    """The cells of one config, model and arm, with their item scores."""

    def __init__(self, info: ConfigInfo, cells: Mapping[str, CellOutcome]) -> None:
        """Take cells by suite, in report order."""
        self.info = info
        self.aggregate = benchmarks.get(info.config.benchmark.name).aggregate
        self.cells = dict(cells)
        self.done = {suite: cell for suite, cell in cells.items() if cell.facts.state == "done"}
        self.items: dict[str, ItemScores] = {
            suite: item_scores(cell, info.data.items) for suite, cell in self.done.items()
        }
        self.means: dict[str, MeanScore] = {suite: self._mean(items) for suite, items in self.items.items()}

    @property
    def scored(self) -> dict[str, ItemScores]:
        """Item scores of the suites that scored any item."""
        return {suite: items for suite, items in self.items.items() if self.means[suite].n}

    def _mean(self, items: ItemScores) -> MeanScore:
        unrecorded = max(0, self.info.data.items - len(items.scores))
        return mean_score(
            [*items.scores.values(), *[None] * unrecorded],
            [*items.clusters.values(), *[""] * unrecorded],
            aggregate=self.aggregate,
        )


def arm_summary(arm: str, cells: ArmCells, *, redact: bool) -> dict[str, Any]:
    """The arm's part of report.json, less the order of the models."""
    scored = cells.scored
    shared = shared_items(list(scored.values()))
    spread = _spread(scored, shared, cells.aggregate)
    return {
        "suites": {suite: _suite(suite, cells, redact) for suite in cells.done},
        "without_result": {
            suite: {"state": cell.facts.state, "reason": _reason(cell.facts.reason, redact)}
            for suite, cell in cells.cells.items()
            if cell.facts.state != "done"
        },
        "spread_points": None if spread is None else spread.points,
        "spread_ci": None if spread is None or spread.ci_points is None else list(spread.ci_points),
        "spread": None if spread is None else _spread_json(spread, cells, scored, shared),
        "wire": _wire_json(compare_wire(cells.done), redact),
        "settings": {suite: [asdict(setting) for setting in cell.facts.settings] for suite, cell in cells.done.items()},
        "prompts": None if redact else _prompts(scored, shared),
        "disagreements": disagreements(scored, shared, choices=arm == "matched", redact=redact),
        "releases": release_pairs(cells.done, redact=redact),
    }


def _reason(reason: str | None, redact: bool) -> str | None:
    if reason is None or not redact:
        return reason
    first, *rest = reason.splitlines() or [""]
    return f"{first} [{len(rest)} further lines left out]" if rest else first


def _suite(suite: str, cells: ArmCells, redact: bool) -> dict[str, Any]:
    mean, cell, items = cells.means[suite], cells.done[suite], cells.items[suite]
    facts = cell.facts
    example = next(iter(items.records.values()), None)
    chance = cells.info.chance
    interval, other = mean.ci, mean.other_share
    return {
        "n": mean.n,
        "score": mean.score,
        "ci": None if interval is None else list(interval),
        "statuses": dict(items.statuses),
        "prompt_example": None if redact or example is None else (example[0].prompt or "")[:LONGEST_PROMPT],
        "stereotype_share": None if other is None else other[0],
        "stereotype_share_ci": None if other is None or other[1] is None else list(other[1]),
        "n_items": mean.n_items,
        "n_clusters": mean.n_clusters,
        "score_over_all": mean.score_over_all,
        "ci_method": mean.method,
        "at_chance": mean.score is not None and mean.holds(chance),
        "below_chance": interval is not None and interval[1] < chance - TOLERANCE,
        "floor": interval is not None and mean.holds(0.0),
        "ceiling": interval is not None and mean.holds(1.0),
        "scoring": sorted({record.scoring for records in items.records.values() for record in records}),
        "suite_version": facts.suite_version,
        "cell_id": facts.cell_id,
        "job_sha256": facts.job_sha256,
        "seconds": facts.seconds,
        "memo": facts.memo,
        "repeats": repeats_json(cell, items, cells.aggregate),
        "single_draw": single_draw(cell, cells.info.data),
        "draws": mean.draws,
        "seed": mean.seed,
    }


def _spread(scored: Mapping[str, ItemScores], shared: Sequence[str], aggregate: Aggregate) -> Spread | None:
    if len(scored) < 2 or not shared:
        return None
    clusters = next(iter(scored.values())).clusters
    return suite_spread(
        score_matrix(list(scored.values()), shared),
        [clusters[item_id] for item_id in shared],
        list(scored),
        aggregate=aggregate,
    )


def _spread_json(
    spread: Spread, cells: ArmCells, scored: Mapping[str, ItemScores], shared: Sequence[str]
) -> dict[str, Any]:
    pairs = [asdict(pair) for pair in spread.pairs]
    return {
        "suites": list(spread.labels),
        "n_items": spread.n_items,
        "n_clusters": spread.n_clusters,
        "left_out": max(0, cells.info.data.items - spread.n_items),
        "scores": dict(zip(spread.labels, spread.scores, strict=True)),
        "null_mean": spread.null_mean,
        "null_q95": spread.null_q95,
        "p": spread.p,
        **arm_within(pairs, scored, shared, cells.aggregate),
        "level": spread.level,
        "draws": spread.draws,
        "seed": spread.seed,
    }


def _wire_json(table: WireTable, redact: bool) -> dict[str, Any]:
    body = asdict(table)
    if redact:
        body["examples"] = []
    return body


def _prompts(scored: Mapping[str, ItemScores], shared: Sequence[str]) -> dict[str, Any] | None:
    if not shared:
        return None
    item_id = shared[0]
    records = {suite: items.records[item_id][0] for suite, items in scored.items()}
    compared = compare_prompts({suite: record.prompt or "" for suite, record in records.items()})
    return {
        "item_id": item_id,
        "suites": {
            suite: {
                "segments": [[segment.text, segment.common] for segment in compared[suite]],
                "chars": len(record.prompt or ""),
                "n_tokens": record.n_prompt_tokens,
                "scoring": record.scoring,
                "candidates": [candidate.text[:LONGEST_PROMPT] for candidate in record.candidates],
                "response": clipped(record.response),
            }
            for suite, record in records.items()
        },
    }


def model_orders(models: Mapping[str, ArmCells]) -> list[dict[str, Any]]:
    """Every pair of models of one arm, in alphabetical order, with Holm's correction of the reversals over pairs."""
    pairs = [(a, b, _order(models[a], models[b])) for a, b in itertools.combinations(sorted(models), 2)]
    adjusted = iter(holm([order.reversal_p for _, _, (order, _) in pairs if order is not None]))
    return [
        _order_json(a, b, order, left_out, adjusted_p=None if order is None else next(adjusted))
        for a, b, (order, left_out) in pairs
    ]


def _order(a: ArmCells, b: ArmCells) -> tuple[ModelOrder | None, int]:
    suites = [suite for suite in a.scored if suite in b.scored]
    cells_a, cells_b = [a.scored[suite] for suite in suites], [b.scored[suite] for suite in suites]
    shared = shared_items([*cells_a, *cells_b])
    left_out = max(0, a.info.data.items - len(shared))
    clusters = [cells_a[0].clusters[item_id] for item_id in shared] if shared else []
    if len(set(clusters)) < FEWEST_CLUSTERS:
        return None, left_out
    chance = a.info.chance
    return model_order(
        score_matrix(cells_a, shared),
        score_matrix(cells_b, shared),
        clusters,
        suites,
        aggregate=a.aggregate,
        at_chance=[a.means[suite].holds(chance) and b.means[suite].holds(chance) for suite in suites],
    ), left_out


def _order_json(a: str, b: str, order: ModelOrder | None, left_out: int, adjusted_p: float | None) -> dict[str, Any]:
    if order is None or adjusted_p is None:
        reason = f"the suites share fewer than {FEWEST_CLUSTERS} clusters of items for both models"
        return {"a": a, "b": b, "suites": {}, "left_out": left_out, "refused": reason, "certified_reversal": None}
    words = {"A ahead": f"{a} ahead", "B ahead": f"{b} ahead", "not told apart": "not told apart"}
    return {
        "a": a,
        "b": b,
        "n_items": order.n_items,
        "n_clusters": order.n_clusters,
        "left_out": left_out,
        "refused": None,
        "suites": {
            row.suite: {key: value for key, value in asdict(row).items() if key not in ("suite", "verdict")}
            | {"verdict": words[row.verdict]}
            for row in order.suites
        },
        "certified": {
            "a": order.count("A ahead"),
            "b": order.count("B ahead"),
            "neither": order.count("not told apart"),
        },
        "certified_reversal": adjusted_p <= order.alpha + TOLERANCE,
        "reversal_p": adjusted_p,
        "point_reversal": order.point_reversal,
        "alpha": order.alpha,
        "draws": order.draws,
        "seed": order.seed,
    }
