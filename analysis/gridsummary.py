"""A benchmark's results as `grid --json` holds them, for one tier of the grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from safetyrepro.analysis.agreement import rank_agreement
from safetyrepro.analysis.benchmark import BenchmarkResult, PairResult
from safetyrepro.analysis.certify import Bools
from safetyrepro.analysis.grid import AXES, BenchmarkGrid
from safetyrepro.analysis.mcnemar import mcnemar_exact
from safetyrepro.analysis.orderings import orderings
from safetyrepro.analysis.power import minimum_detectable
from safetyrepro.analysis.resampling import TOLERANCE, Floats, holm
from safetyrepro.analysis.stability import flip_rate
from safetyrepro.analysis.variance import MODEL, split_halves, variance_shares

SLICED = ("scoring", "suite", "arm")
"""Axes whose levels are also shown apart."""


def benchmark_summary(result: BenchmarkResult, selected: Bools) -> dict[str, Any]:
    """One benchmark in one tier.

    Args:
        result: as `analyse` gives it.
        selected: shape (configurations,): the tier. Tests keep the full grid as their family; a tier reports the
            verdicts on its own configurations.
    """
    grid = result.grid
    body = _ranks(result, selected)
    details = [_pair_details(result, pair, selected) for pair in result.pairs]
    equal = result.equal_models(selected)
    body["pairs"] = [{**row, **detail} for row, detail in zip(body["pairs"], details, strict=True)]
    return {
        "item_level": grid.item_level,
        "ranked_by": grid.kind,
        "models": list(grid.models),
        "n_items": len(grid.items) if grid.item_level else None,
        "n_clusters": grid.n_clusters if grid.item_level else None,
        "n_configurations": int(selected.sum()),
        "family": len(grid.configurations),
        **body,
        "equal_models": None if equal is None else dataclasses.asdict(equal),
        **_variances(result, selected),
        "paths": [dataclasses.asdict(path) for path in result.paths],
        "slices": _slices(result, selected),
        "configurations": _configurations(result, selected),
        "dropped": _dropped(result, selected),
        "alpha": 1 - result.settings.level,
        "draws": result.settings.draws,
        "seed": result.settings.seed,
    }


def _ranks(result: BenchmarkResult, selected: Bools) -> dict[str, Any]:
    """What a tier and a slice both show: flips with verdicts, orderings, agreement."""
    labels, models = result.grid.labels, result.grid.models
    common = np.where(selected, result.common, np.nan)
    reached, agreement = orderings(common), rank_agreement(common)
    pairs = [_pair(result, pair, selected) for pair in result.pairs]
    _adjust(result, pairs)
    rhos = [pair["rho_flip"] for pair in pairs if pair["rho_flip"] is not None]
    return {
        "pairs": pairs,
        "rho_flip_max": max(rhos, default=None),
        "orderings": {
            "strict": reached.strict,
            "possible": reached.possible,
            "weak": reached.weak,
            "n_configs": reached.n_configs,
            "listed": [
                {"order": [[models[m] for m in group] for group in order], "n_configs": count}
                for order, count in reached.counts
            ],
        },
        "tau_r": agreement.tau_r,
        "tau": {
            "pairs": agreement.pairs,
            "undefined": agreement.undefined,
            "identity": agreement.identity,
            "most_representative": None if agreement.most is None else labels[agreement.most],
            "least_representative": None if agreement.least is None else labels[agreement.least],
        },
    }


def _pair(result: BenchmarkResult, pair: PairResult, selected: Bools) -> dict[str, Any]:
    grid = result.grid
    rate = flip_rate(np.where(selected, pair.cells.difference, np.nan))
    found = pair.certification
    counts = bounds = None
    if found is not None and rate.n_configs:
        counts = dict(zip(("a", "b", "neither"), found.counts(selected), strict=True))
        bounds = found.rho_bounds(selected)
    return {
        "a": grid.models[pair.a],
        "b": grid.models[pair.b],
        "n_plus": rate.n_plus,
        "n_minus": rate.n_minus,
        "n_ties": rate.n_ties,
        "n_configs": rate.n_configs,
        "rho_flip": rate.rho,
        "rho_flip_bounds": None if bounds is None else list(bounds),
        "strict_reversal": rate.strict_reversal,
        "witness": None if rate.witness is None else [grid.labels[c] for c in rate.witness],
        "certified": counts,
        "certified_reversal": None,
        "reversal_p": None,
        "reversal_p_unadjusted": None if counts is None or found is None else found.reversal_p(selected),
        "testable": counts is not None and found is not None and found.testable(selected),
    }


def _adjust(result: BenchmarkResult, pairs: list[dict[str, Any]]) -> None:
    """Holm over the pairs that are compared."""
    tested = [pair for pair in pairs if pair["reversal_p_unadjusted"] is not None]
    alpha = 1 - result.settings.level
    for pair, p in zip(tested, holm([pair["reversal_p_unadjusted"] for pair in tested]), strict=True):
        pair["reversal_p"] = p
        pair["certified_reversal"] = p <= alpha + TOLERANCE


def _pair_details(result: BenchmarkResult, pair: PairResult, selected: Bools) -> dict[str, Any]:
    grid, found, unit = result.grid, pair.certification, result.unit
    dropped = {
        grid.labels[c]: _named(str(pair.cells.reasons[c]), grid.models[pair.a], grid.models[pair.b])
        for c in np.flatnonzero(selected & ~pair.cells.kept)
    }
    details: dict[str, Any] = {
        "mde": None,
        "mde_adjusted": None,
        "discordance": None,
        "equal_models": None,
        "items_left_out": int(pair.cells.left_out[selected].sum()),
        "dropped": dropped,
        "configs": [_config_row(result, pair, int(c)) for c in np.flatnonzero(selected & pair.cells.kept)],
    }
    among = selected & pair.cells.kept
    if found is None or not among.any():
        return details
    measured = pair.discordance(among)
    if measured is not None:
        scale = 2.0 if grid.parity else 1.0
        inner = dataclasses.replace(measured, share=measured.share / unit**2, reach=measured.reach / unit)
        for name, critical in (("mde", None), ("mde_adjusted", found.critical)):
            value = minimum_detectable(inner, critical=critical)
            details[name] = None if value is None else scale * unit * value
        details["discordance"] = dataclasses.asdict(measured)
    details["equal_models"] = {"mean": found.equal_mean, "q95": found.equal_q95}
    return details


def _named(reason: str, a: str, b: str) -> str:
    return {"a has no score": f"{a} has no score", "b has no score": f"{b} has no score"}.get(reason, reason)


def _config_row(result: BenchmarkResult, pair: PairResult, c: int) -> dict[str, Any]:
    grid, found = result.grid, pair.certification
    row: dict[str, Any] = {
        "configuration": grid.labels[c],
        "difference": float(pair.cells.difference[c]),
        "n_items": int(pair.cells.n_items[c]) if grid.item_level else None,
    }
    if found is None:
        return row
    a_better, b_better = (int(side[c]) for side in pair.better)
    binary = bool(np.isin(np.abs(pair.items[c][~np.isnan(pair.items[c])]), (0.0, 1.0)).all())
    alone = grid.n_clusters == len(grid.items)
    mcnemar = None
    if binary and alone and not grid.parity:
        mcnemar = float(mcnemar_exact(np.array(a_better), np.array(b_better)))
    band = None if np.isnan(found.low[c]) else [float(found.low[c]) * result.unit, float(found.high[c]) * result.unit]
    return row | {
        "band": band,
        "p": float(found.p[c]),
        "p_a": float(found.p_a[c]),
        "p_b": float(found.p_b[c]),
        "verdict": {1: "a", -1: "b", 0: "neither"}[int(found.verdict[c])],
        "a_better": a_better,
        "b_better": b_better,
        "mcnemar_p": mcnemar,
        "both_at_chance": bool(pair.cells.kept[c] and not found.eligible[c]),
        "testable": bool(found.attainable[c] <= found.alpha + TOLERANCE),
    }


def _slices(result: BenchmarkResult, selected: Bools) -> list[dict[str, Any]]:
    """Levels of the scoring path, suite and arm by themselves; a slice reports the full grid's verdicts."""
    slices = []
    for axis in SLICED:
        levels = [configuration.axes[axis] for configuration in result.grid.configurations]
        present = list(dict.fromkeys(level for level, inside in zip(levels, selected, strict=True) if inside))
        if len(present) < 2:
            continue
        for level in present:
            among = selected & np.array([own == level for own in levels])
            slices.append({"axis": axis, "level": level, "n_configurations": int(among.sum()), **_ranks(result, among)})
    return slices


def _configurations(result: BenchmarkResult, selected: Bools) -> list[dict[str, Any]]:
    grid = result.grid
    chance, floor, ceiling = result.at_chance, result.at_edge(0.0), result.at_edge(1.0)
    rows = []
    for c in np.flatnonzero(selected):
        configuration = grid.configurations[c]
        cells = {
            model: _cell(result, m, int(c), bool(chance[m, c]), bool(floor[m, c]), bool(ceiling[m, c]))
            for m, model in enumerate(grid.models)
        }
        known = None if np.isnan(grid.chance[c]) else float(grid.chance[c])
        axes = {axis: level for axis, level in configuration.axes.items() if level}
        rows.append({"configuration": configuration.label, "axes": axes, "chance": known, "cells": cells})
    return rows


def _cell(result: BenchmarkResult, m: int, c: int, chance: bool, floor: bool, ceiling: bool) -> dict[str, Any] | None:
    grid = result.grid
    if np.isnan(result.own[m, c]):
        return None
    configuration, scores = grid.configurations[c], grid.scores[m, c]
    repeats = int(grid.repeats[m, c])
    random = [
        name for name, drawn in (("decoding", configuration.sampled), ("shots", configuration.drawn_shots)) if drawn
    ]
    cell: dict[str, Any] = {
        "score": float(result.own[m, c]),
        "n_items": int((~np.isnan(scores)).sum()) if grid.item_level else None,
        "repeats": repeats,
        "single_draw": random if repeats == 1 else [],
        "repeat_range": [float(value) for value in grid.repeat_range[:, m, c]] if repeats > 1 else None,
        "flags": [name for name, held in (("at chance", chance), ("floor", floor), ("ceiling", ceiling)) if held],
    }
    if result.intervals is not None:
        low, high = (float(value) for value in result.intervals[m, c])
        cell["ci"] = None if np.isnan(low) else [low, high]
    if grid.parity:
        mean = float(np.nanmean(scores))
        cell["p"] = 1 - mean
        interval = cell.pop("ci", None)
        cell["p_ci"] = None if interval is None else [1 - interval[1], 1 - interval[0]]
    return cell


def _dropped(result: BenchmarkResult, selected: Bools) -> dict[str, Any]:
    """What is in no comparison of all models, and why."""
    grid = result.grid
    missing: dict[str, str] = {}
    for c in np.flatnonzero(selected & np.isnan(result.common).any(axis=0)):
        without = [model for m, model in enumerate(grid.models) if np.isnan(result.own[m, c])]
        missing[grid.labels[c]] = f"no score for {', '.join(without)}" if without else "too few shared items"
    has = ~np.isnan(grid.scores[:, selected])
    return {
        "configurations": missing,
        "items_not_shared": int((has.any(axis=0) & ~has.all(axis=0)).sum()) if grid.item_level else 0,
        "min_shared": result.settings.min_shared,
        "rows_without_score": grid.without_score,
        "statuses": dict(grid.statuses),
    }


def _variances(result: BenchmarkResult, selected: Bools) -> dict[str, Any]:
    """Shares of the variance between cells.

    Where decoding varies, `variance` is over free-form cells alone, since logprob cells decode nothing; a second table
    is then over both paths, with the path as an axis and without decoding, which is part of its remainder.
    """
    free = _varied(result.grid, selected)
    both = None
    if (selected & ~free).any():
        both = _variance(result, selected, tuple(axis for axis in AXES if axis != "decoding"))
    return {"variance": _variance(result, selected & free, AXES), "variance_both_paths": both}


def _variance(result: BenchmarkResult, among: Bools, axes: Sequence[str]) -> list[dict[str, Any]] | None:
    grid = result.grid
    rows, columns = np.nonzero(~np.isnan(result.own) & among)
    levels = {axis: [grid.configurations[c].axes[axis] for c in columns] for axis in axes}
    factors = {axis: own for axis, own in levels.items() if len(set(own)) > 1}
    crossed = bool(factors)
    if not crossed and among.sum() > 1:
        factors = {"configuration": [grid.labels[c] for c in columns]}
    if len(set(rows)) < 2 or not factors:
        return None
    halves = None
    if grid.item_level:
        halves = split_halves(grid.scores[rows, columns], grid.clusters, kind=grid.kind, seed=result.settings.seed)
    named: dict[str, Sequence[str]] = {MODEL: [grid.models[m] for m in rows], **factors}
    values: Floats = result.own[rows, columns]
    terms = variance_shares(values, named, halves, crossed=crossed)
    if terms is None:
        return None
    return [
        {"term": t.term, "df": t.df, "share": t.share, "share_per_df": t.share_per_df, "noise": t.noise} for t in terms
    ]


def _varied(grid: BenchmarkGrid, selected: Bools) -> Bools:
    free = np.array([configuration.axes["scoring"] == "free" for configuration in grid.configurations])
    decodings = {grid.configurations[c].axes["decoding"] for c in np.flatnonzero(selected & free)}
    return free if len(decodings) > 1 else np.ones(len(free), dtype=np.bool_)
