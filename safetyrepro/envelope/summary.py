"""A plan's figures for people and scripts: cells per benchmark and tier, what they cost, what a question needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetyrepro.envelope.estimate import estimate
from safetyrepro.envelope.grid import Envelope, cells
from safetyrepro.envelope.items import Items
from safetyrepro.envelope.plan import build_plan
from safetyrepro.errors import InputError


def plan_summary(
    envelope: Envelope, data_dir: Path | None, say: Callable[[str], None], *, measure: bool
) -> dict[str, Any]:
    """The figures of a plan; what is not on this machine is left out and named.

    Args:
        envelope: the grid.
        data_dir: folder of official data.
        say: called with a line before what takes seconds.
        measure: whether to run a sample to tell the time.

    Raises:
        InputError: the grid is not possible.
    """
    items = Items(data_dir)
    planned = build_plan(envelope, items, say, fetch=False)
    plan = planned.plan
    known: dict[str, None] = {}
    rows = []
    for shard in plan.shards:
        for cell in shard.cells:
            known.update(dict.fromkeys(cell.tiers))
            rows.append(
                {
                    "model": shard.model,
                    "benchmark": shard.benchmark,
                    "axes": cell.axes,
                    "tiers": list(cell.tiers),
                    "config_id": cell.config_id,
                    "cell_id": cell.cell_id,
                    "shard": shard.name,
                }
            )
    found = cells(envelope)
    estimates, unresolved = [], []
    for model in envelope.models:
        try:
            if any(not one.items for one in plan.benchmarks) or plan.model(model.name).weights_sha256 is None:
                raise InputError("its weights or some items are not on this machine")
            estimates.append(asdict(estimate(model, found, items, say, measure=measure)))
        except InputError as error:
            unresolved.append(f"what {model.name} costs: {error}")
    return {
        "envelope": envelope.name,
        "models": [model.name for model in envelope.models],
        "shards": len(plan.shards),
        "tiers": {tier: sum(tier in row["tiers"] for row in rows) for tier in known},
        "benchmarks": {
            one.name: {
                "items": len(one.items) or None,
                "tiers": {
                    tier: sum(row["benchmark"] == one.name and tier in row["tiers"] for row in rows) for tier in known
                },
            }
            for one in plan.benchmarks
        },
        "estimates": estimates,
        "unresolved": unresolved,
        "unverified": [f"{one.what}: {one.reason}" for one in plan.unverified],
        "blocks": list(planned.blocks),
        "cells": rows,
    }


def items_for(
    difference: float, discordant: Sequence[float], design_effect: float, configurations: int
) -> dict[str, Any]:
    """Items that two models need for a difference to be told, by discordant share.

    Args:
        difference: of the means, in score units.
        discordant: shares of items on which exactly one model is right.
        design_effect: how many clustered items are worth one independent item.
        configurations: how many tests stand beside each other in a benchmark.
    """
    from scipy import stats

    from safetyrepro.analysis.power import ALPHA, items_needed

    critical = float(stats.norm.ppf(1 - ALPHA / (2 * configurations)))
    rows = []
    for share in discordant:
        row: dict[str, Any] = {"discordant": share, "items": None, "items_adjusted": None}
        if difference <= share:
            row["items"] = items_needed(difference, share, design_effect=design_effect)
            row["items_adjusted"] = items_needed(difference, share, design_effect=design_effect, critical=critical)
        rows.append(row)
    return {
        "difference": difference,
        "design_effect": design_effect,
        "configurations": configurations,
        "rows": rows,
    }
