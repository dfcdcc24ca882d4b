"""From an experiment's folder to report.json, report.html and the finding in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetyrepro.atomic import json_text, write_texts
from safetyrepro.config import Arm
from safetyrepro.crosspkg.causes import Kept, pairs_of, read_kept
from safetyrepro.crosspkg.facts import CellOutcome, ConfigInfo, Experiment, ModelFacts
from safetyrepro.crosspkg.finding import finding
from safetyrepro.crosspkg.starts import who_ran
from safetyrepro.crosspkg.summary import ArmCells, arm_summary, model_orders
from safetyrepro.facts import items_sha256
from safetyrepro.reports.page import render_page
from safetyrepro.runners import in_order

DECIMALS = 6


def build_report(experiment: Experiment, *, redact: bool = False, kept: Kept | None = None) -> list[dict[str, Any]]:
    """report.json: one object per config and model, in the experiment's order.

    Scores and their intervals are shares in [0, 1]; spreads, differences and their intervals are points of 100;
    logprobs are nats. What a cell without result would have held stands under `without_result`.

    Args:
        experiment: as `load_experiment` reads it.
        redact: leave out prompts, outputs and candidates.
        kept: attributions that were computed with the model (`causes.read_kept`).
    """
    report = []
    for info in experiment.configs:
        arms = {arm: _arm_cells(experiment, info, arm) for arm in Arm}
        orders = {arm: model_orders(models) for arm, models in arms.items() if models}
        for model in experiment.models:
            sections = {
                arm.value: arm_summary(arm.value, models[model.name], redact=redact) | {"order": orders[arm]}
                for arm, models in arms.items()
                if model.name in models
            }
            if sections:
                causes = _causes(
                    {arm.value: models[model.name] for arm, models in arms.items() if model.name in models},
                    redact,
                    kept,
                )
                report.append(_rounded(_head(experiment, info, model, redact) | {"arms": sections} | causes))
    return report


def write_report(experiment: Experiment, folder: Path, *, redact: bool = False) -> tuple[Path, Path, str]:
    """Write report.json and the page rendered from it.

    Args:
        experiment: as `load_experiment` reads it.
        folder: where both files go.
        redact: leave out prompts, outputs and candidates in both.

    Returns:
        The paths of report.json and report.html, and the finding in one sentence.
    """
    report = build_report(experiment, redact=redact, kept=read_kept(folder))
    as_json, as_page = folder / "report.json", folder / "report.html"
    write_texts({as_json: json_text(report), as_page: render_page(report)})
    return as_json, as_page, finding(report)


def _causes(arms: Mapping[str, ArmCells], redact: bool, kept: Kept | None) -> dict[str, Any]:
    divergence: list[dict[str, Any]] = []
    attribution: list[dict[str, Any]] = []
    for arm, cells in arms.items():
        pairs, parts = pairs_of(arm, cells.done, redact=redact, kept=kept)
        divergence += pairs
        # A parity is no mean of items: its gap is not the sum of the items' parts.
        attribution += parts if cells.aggregate == "mean" else []
    return {"divergence": divergence, "attribution": attribution}


def _arm_cells(experiment: Experiment, info: ConfigInfo, arm: Arm) -> dict[str, ArmCells]:
    found = {}
    for model in experiment.models:
        cells = _in_order(
            cell
            for cell in experiment.cells
            if (cell.facts.config_id, cell.facts.model, cell.facts.arm) == (info.config_id, model.name, arm.value)
        )
        if cells:
            found[model.name] = ArmCells(info, cells)
    return found


def _in_order(cells: Any) -> dict[str, CellOutcome]:
    by_suite = {cell.facts.suite: cell for cell in cells}
    return {suite: by_suite[suite] for suite in in_order(by_suite)}


def _head(experiment: Experiment, info: ConfigInfo, model: ModelFacts, redact: bool) -> dict[str, Any]:
    return {
        "benchmark": info.config.benchmark.name,
        "config_id": info.config_id,
        "model": model.name,
        "config": info.config.model_dump(mode="json", exclude={"models"}),
        "chance": info.chance,
        "data": asdict(info.data),
        "template_sha256": info.template_sha256,
        "items_sha256": None if info.item_sha256 is None else items_sha256(info.item_sha256.items()),
        "model_facts": asdict(model),
        "versions": {
            "software": dict(experiment.versions),
            "suites": {
                suite.suite: {"version": suite.version, "lock_sha256": suite.lock_sha256} for suite in experiment.suites
            },
            "ran": _ran(experiment),
        },
        "redacted": redact,
    }


def _ran(experiment: Experiment) -> dict[str, Any]:
    ran = who_ran(experiment)
    return {
        "starts": [start.model_dump(mode="json") | {"cells": cells} for start, cells in ran.starts.items()],
        "unknown": ran.unknown,
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DECIMALS)
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(entry) for entry in value]
    return value
