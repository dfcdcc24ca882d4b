"""The parts of flips.json about signals: standalone and added value, routing, several updates together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from safetyrepro.analysis.flips.added_value import ENOUGH_FLIPS, FEWEST_FLIPS, PopulationStudy, SignalValue
from safetyrepro.analysis.flips.crossvalidation import FOLDS, SEEDS
from safetyrepro.analysis.flips.fallback import Fallback, fallback
from safetyrepro.analysis.flips.routing import RoutingCurve
from safetyrepro.analysis.flips.signals import SignalTable
from safetyrepro.analysis.flips.updates import Summary, UpdateStudy, study_update, summarise
from safetyrepro.analysis.resampling import DRAWS, LEVEL, SEED

DECIMALS = 6
CURVE_POINTS = 101
"""Points of a curve in flips.json: the exact one has one per tie."""


def build_signals(
    tables: Sequence[SignalTable], target: float | None, *, step: Callable[[int], None]
) -> dict[str, Any]:
    """signals.json: `updates`, one object per task and update, and `summary` over all of them.

    Args:
        tables: signals of each task and update.
        target: NFR to bring the system to by routing; by default half of what it is.
        step: told how many are done.
    """
    entries, studies = [], []
    for number, table in enumerate(tables):
        step(number)
        study = study_update(table)
        studies.append(study)
        entries.append(
            {
                "update": table.update,
                "task": table.task,
                "items": len(table.items),
                "clusters": len(set(table.clusters)),
                "accuracy_old": float(table.old_right.mean()),
                "accuracy_new": float(table.new_right.mean()),
                "old_correct": int(table.old_right.sum()),
                "negative_flips": study.flips,
                "positive_flips": int((~table.old_right & table.new_right).sum()),
                "nfr": study.flips / len(table.items),
            }
            | signals_json(table, study, fallback(table, target))
        )
    body: dict[str, Any] = rounded({"updates": entries, "summary": summary_json(studies), "method": method_json()})
    return body


def signals_json(table: SignalTable | None, study: UpdateStudy | None, routed: Fallback | None) -> dict[str, Any]:
    """The part of flips.json about signals: `signals`, `signal_study`, `fallback`."""
    if table is None or study is None:
        return {"signals": [], "signal_study": None, "fallback": None}
    free = {row.signal: row for row in study.label_free.signals}
    return {
        "signals": [
            _value_json(row, table) | {"label_free": _value_json(free[row.signal], table)}
            for row in study.old_correct.signals
        ],
        "signal_study": {"old_correct": _study_json(study.old_correct), "label_free": _study_json(study.label_free)},
        "fallback": None if routed is None else _fallback_json(routed),
    }


def summary_json(studies: Sequence[UpdateStudy]) -> dict[str, Any]:
    """Signals over several tasks and updates, in both populations."""
    summaries: list[Summary] = [summarise(studies, "old_correct"), summarise(studies, "label_free")]
    return {summary.population: asdict(summary) for summary in summaries}


def method_json() -> dict[str, Any]:
    """Constants that the figures depend on."""
    return {
        "draws": DRAWS,
        "seed": SEED,
        "level": LEVEL,
        "folds": FOLDS,
        "fold_seeds": list(SEEDS),
        "fewest_flips": FEWEST_FLIPS,
        "enough_flips": ENOUGH_FLIPS,
    }


def rounded(value: Any) -> Any:
    """Floats to six decimals, throughout."""
    if isinstance(value, (float, np.floating)):
        return round(float(value), DECIMALS)
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(entry) for entry in value]
    return value


def _value_json(row: SignalValue, table: SignalTable) -> dict[str, Any]:
    return {
        "signal": row.signal,
        "items": row.items,
        "undefined": row.undefined,
        "flips": row.flips,
        "lower_is_riskier": table.lower_is_riskier(row.signal),
        "auroc": row.auroc,
        "auroc_confidence": row.auroc_confidence,
        "auroc_with": row.auroc_with,
        "added_value": row.added.mean,
        "added_value_ci": row.added.ci,
        "p": row.added.p,
        "p_adjusted": row.p_adjusted,
        "folds": row.added.folds,
        "undefined_folds": row.added.undefined,
        "beyond_difficulty": row.beyond_difficulty.mean,
        "beyond_difficulty_ci": row.beyond_difficulty.ci,
        "verdict": row.verdict,
        "reason": row.reason,
    }


def _study_json(study: PopulationStudy) -> dict[str, Any]:
    together = study.together
    return {
        "items": study.items,
        "flips": study.flips,
        "reason": study.reason,
        "adding": list(study.adding),
        "together": None
        if together is None
        else {
            "signals": list(together.signals),
            "left_out": list(together.left_out),
            "items": together.items,
            "flips": together.flips,
            "auroc_all": together.auroc_all,
            "auroc_best_single": together.auroc_best_single,
            "gain": together.gain.mean,
            "gain_ci": together.gain.ci,
            "reason": together.reason,
        },
    }


def _fallback_json(routed: Fallback) -> dict[str, Any]:
    return {
        "items": routed.items,
        "flips": routed.flips,
        "target_nfr": routed.target,
        "accuracy_old": routed.accuracy_old,
        "accuracy_new": routed.accuracy_new,
        "oracle": _curve_json(routed.oracle),
        "random": _curve_json(routed.random),
        "reason": routed.reason,
        "signals": [
            {
                "signal": row.signal,
                "needs": row.needs,
                "undefined": row.undefined,
                "area": row.curve.area,
                "excess": row.excess,
                "aurc": row.curve.aurc,
                "fraction_in_sample": row.fraction_in_sample,
                "out_of_fold": None if row.out_of_fold is None else asdict(row.out_of_fold),
                "model_runs": row.model_runs,
                "curve": _curve_json(row.curve),
            }
            for row in routed.signals
        ],
    }


def _curve_json(curve: RoutingCurve) -> dict[str, Any]:
    """The curve at evenly spaced fractions: exact where it has fewer points than that."""
    fractions = np.array(curve.fraction)
    if len(fractions) > CURVE_POINTS:
        fractions = np.linspace(0, 1, CURVE_POINTS)
    return {
        "fraction": fractions.tolist(),
        "nfr": np.interp(fractions, curve.fraction, curve.nfr).tolist(),
        "accuracy": np.interp(fractions, curve.fraction, curve.accuracy).tolist(),
        "area": curve.area,
        "aurc": curve.aurc,
    }
