"""The meta-benchmark report: a judge's scores against factors that no judge measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from safetyrepro.analysis.judge.correlation import Agreement, Coefficient, agreement, within_strata
from safetyrepro.analysis.judge.factors import INVARIANT_RANGE, factor_scores, influences
from safetyrepro.analysis.judge.stages import Step, step_changes, step_summaries
from safetyrepro.analysis.resampling import DRAWS, LEVEL, SEED, Floats
from safetyrepro.errors import InputError
from safetyrepro.judge.composition import Composition, TrainingStep
from safetyrepro.judge.join import Joined, JudgeScores, join
from safetyrepro.judge.results import Sources, read_names, read_sources
from safetyrepro.judge.wording import meta_finding, meta_sentences
from safetyrepro.tables import read_rows

DECIMALS = 6


@dataclass(frozen=True)
class MetaPlan:
    """What to read and how to compute."""

    paths: tuple[Path, ...]
    composition: Composition
    names: Path | None = None
    steps: Path | None = None
    strata: Path | None = None
    sizes: Path | None = None
    judge_table: str | None = None
    judge_column: str | None = None
    judge: str | None = None
    """Which judge of a verdict table."""
    z_scored: bool = False
    draws: int = DRAWS
    seed: int = SEED


def build_meta(plan: MetaPlan) -> dict[str, Any]:
    """The report as JSON.

    Factor scores are shares in [0, 1] (z scores with `z_scored`); the judge's scores keep their own unit.

    Raises:
        InputError: whatever is wrong with a table, by file, row and column; no factor with a benchmark; fewer than two
            models.
    """
    sources = read_sources(plan.paths)
    if plan.names is not None:
        sources.names = [read_names(plan.names)]
    given = _from_verdicts(sources, plan) if sources.verdicts else None
    joined = join(sources, plan.composition, judge_table=plan.judge_table, judge_column=plan.judge_column, given=given)
    if not any(joined.values.values()):
        wanted = ", ".join(b.name for group in plan.composition.factors.values() for b in group)
        held = ", ".join(name for table in sources.tables for name in table.columns)[:300] or "nothing"
        raise InputError(
            f"The tables have no column of the benchmarks that {plan.composition.name} names ({wanted[:300]}). They "
            f"have: {held}. Name some of those with --factor NAME=COLUMN,COLUMN or --composition FILE."
        )
    strata = _strata(plan, joined)
    factors, per_model = {}, {}
    for factor, benchmarks in joined.values.items():
        factors[factor], per_model[factor] = _factor(joined, factor, benchmarks, strata, plan)
    used = [model for model in joined.judge.scores if model not in joined.left_out]
    if len(used) < 2:
        raise InputError(
            f"{len(used)} of {len(joined.judge.scores)} models of {joined.judge.table} have benchmark results under "
            "the same name; a names table (a column per table, a row per model) joins tables that call models "
            "differently."
        )
    report: dict[str, Any] = {
        "models": len(used),
        "judge": {"table": joined.judge.table, "column": joined.judge.column, "scores": dict(joined.judge.scores)},
        "composition": {"name": plan.composition.name, "source": plan.composition.source},
        "z_scored": plan.z_scored,
        "factors": factors,
        "factor_scores": per_model,
        "strata": {model: strata[model] for model in used if model in strata},
        "left_out": joined.left_out,
        "ignored": sources.ignored,
        "level": LEVEL,
        "draws": plan.draws,
        "seed": plan.seed,
    }
    report["stages"] = _stages(plan, joined, per_model)
    report["sizes"] = _sizes(plan, joined, per_model)
    report = rounded(report)
    report["finding"] = meta_finding(report)
    report["sentences"] = meta_sentences(report)
    return report


def rounded(value: Any) -> Any:
    """Floats at `DECIMALS` places, tuples as lists."""
    if isinstance(value, float):
        return round(value, DECIMALS)
    if isinstance(value, Mapping):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [rounded(entry) for entry in value]
    return value


def _factor(
    joined: Joined,
    factor: str,
    benchmarks: Mapping[str, Mapping[str, float]],
    strata: Mapping[str, str],
    plan: MetaPlan,
) -> tuple[dict[str, Any], dict[str, float]]:
    models = [m for m in joined.judge.scores if benchmarks and m not in joined.incomplete[factor]]
    head = {
        "benchmarks": {name: joined.columns[name] for name in benchmarks},
        "absent": joined.absent.get(factor, []),
        "incomplete": joined.incomplete[factor] if benchmarks else {},
    }
    if not models:
        empty = {"pearson": None, "spearman": None, "kendall": None, "ci": None, "discordant_pairs": None}
        return {**empty, "n": 0, **head}, {}
    judge = np.array([joined.judge.scores[m] for m in models])
    values = np.array([[column[m] for column in benchmarks.values()] for m in models])
    scores = factor_scores(values, z_scored=plan.z_scored)
    whole = agreement(judge, scores, models, draws=plan.draws, seed=plan.seed)
    body = {**agreement_json(whole), **head}
    body["leave_one_out"] = [
        asdict(entry) for entry in influences(judge, values, list(benchmarks), z_scored=plan.z_scored)
    ]
    body["invariant"] = [entry["benchmark"] for entry in body["leave_one_out"] if entry["invariant"]]
    body["invariant_range"] = INVARIANT_RANGE
    body["strata"] = _within(judge, scores, models, strata, plan)
    return body, dict(zip(models, scores.tolist(), strict=True))


def agreement_json(found: Agreement) -> dict[str, Any]:
    """`Agreement` in the keys of `judge meta --json`."""

    def ci(coefficient: Coefficient) -> list[float] | None:
        return None if coefficient.ci is None else list(coefficient.ci)

    return {
        "n": found.n_models,
        "pearson": found.pearson.value,
        "spearman": found.spearman.value,
        "kendall": found.kendall.value,
        "ci": ci(found.pearson),
        "spearman_ci": ci(found.spearman),
        "kendall_ci": ci(found.kendall),
        "pearson_p": found.pearson_p,
        "spearman_p": found.spearman_p,
        "undefined_draws": found.pearson.undefined_draws,
        "pairs": found.pairs,
        "tied_pairs": found.tied,
        "discordant_pairs": found.discordant_share,
        "discordant": [asdict(pair) for pair in found.discordant],
    }


def _within(
    judge: Floats, scores: Floats, models: Sequence[str], strata: Mapping[str, str], plan: MetaPlan
) -> dict[str, Any]:
    inside = [k for k, model in enumerate(models) if model in strata]
    if len({strata[models[k]] for k in inside}) < 2:
        return {}
    names = [models[k] for k in inside]
    found = within_strata(
        judge[inside], scores[inside], names, [strata[name] for name in names], draws=plan.draws, seed=plan.seed
    )
    return {stratum: {**agreement_json(result), "discordant": None} for stratum, result in found.items()}


def _strata(plan: MetaPlan, joined: Joined) -> dict[str, str]:
    if plan.strata is None:
        pairs = ((model, plan.composition.stratum(model)) for model in joined.judge.scores)
        return {model: stratum for model, stratum in pairs if stratum is not None}
    return _by_model(plan.strata, "stratum", joined.judge.scores)


def _by_model(path: Path, column: str, known: Mapping[str, float]) -> dict[str, str]:
    what = f"a table of model and {column}"
    columns, rows = read_rows(path, what)
    missing = next((name for name in ("model", column) if name not in columns), None)
    if missing is not None:
        raise InputError(f"{path}: column {missing!r} is missing; {what} needs both.")
    found: dict[str, str] = {}
    for where, row in rows:
        model, value = str(row["model"] or "").strip(), str(row[column] if row[column] is not None else "").strip()
        if model not in known:
            raise InputError(f"{path}, {where}: model {model!r} has no judge score; use the judge table's names.")
        if model in found:
            raise InputError(f"{path}, {where}: model {model!r} stands twice.")
        if not value:
            raise InputError(f"{path}, {where}: {column} is empty.")
        found[model] = value
    return found


def _steps(plan: MetaPlan, joined: Joined) -> list[TrainingStep]:
    if plan.steps is None:
        return list(plan.composition.steps)
    what = "a table of training steps"
    columns, rows = read_rows(plan.steps, what)
    names = ("sft", "preferred") if "sft" in columns and "start" not in columns else ("start", "end")
    missing = next((name for name in names if name not in columns), None)
    if missing is not None:
        raise InputError(
            f"{plan.steps}: column {missing!r} is missing; {what} has start and end (the models' names), or sft and "
            "preferred, with optional step and method."
        )
    found = []
    for where, row in rows:
        cells = {key: str(row.get(key) or "").strip() for key in (*names, "step", "method")}
        for name in names:
            if cells[name] not in joined.judge.scores:
                raise InputError(
                    f"{plan.steps}, {where}: {name} is {cells[name]!r}, which has no judge score; use the names of "
                    f"{joined.judge.table}."
                )
        if cells[names[0]] == cells[names[1]]:
            raise InputError(f"{plan.steps}, {where}: {names[0]} and {names[1]} are the same model.")
        step = cells["step"] or "preference optimisation"
        found.append(TrainingStep(start=cells[names[0]], end=cells[names[1]], step=step, method=cells["method"]))
    if not found:
        raise InputError(f"{plan.steps}: holds no rows.")
    return found


def _stages(plan: MetaPlan, joined: Joined, per_model: Mapping[str, Mapping[str, float]]) -> dict[str, Any] | None:
    steps = [Step(s.start, s.end, s.step, s.method) for s in _steps(plan, joined)]
    filled = {factor: scores for factor, scores in per_model.items() if scores}
    changes = step_changes(joined.judge.scores, filled, steps)
    if not changes:
        return None
    return {
        "claim": plan.composition.claim if plan.steps is None else "",
        "changes": [
            {**asdict(change.step), **{k: v for k, v in asdict(change).items() if k != "step"}} for change in changes
        ],
        "summaries": [asdict(summary) for summary in step_summaries(changes)],
    }


def _sizes(plan: MetaPlan, joined: Joined, per_model: Mapping[str, Mapping[str, float]]) -> dict[str, Any] | None:
    """Data size against the judge's score and each factor, where a table says how much each model was trained on."""
    if plan.sizes is None:
        return None
    sizes: dict[str, float] = {}
    for model, text in _by_model(plan.sizes, "examples", joined.judge.scores).items():
        try:
            sizes[model] = float(text)
        except ValueError:
            sizes[model] = -1.0
        if not 0 < sizes[model] < float("inf"):
            raise InputError(f"{plan.sizes}: examples of {model} is {text!r}, it should be a number over 0.")
    found = {}
    for name, scores in {"judge": joined.judge.scores, **per_model}.items():
        models = [model for model in sizes if model in scores]
        result = agreement(
            np.array([sizes[m] for m in models]),
            np.array([scores[m] for m in models]),
            models,
            draws=plan.draws,
            seed=plan.seed,
        )
        found[name] = {**agreement_json(result), "discordant": None}
    return found


def _from_verdicts(sources: Sources, plan: MetaPlan) -> JudgeScores:
    from safetyrepro.analysis.judge.consistency import consistency
    from safetyrepro.judge.verdicts import originals, read_verdicts

    if len(sources.verdicts) > 1:
        raise InputError(f"{sources.verdicts[0]} and {sources.verdicts[1]} are both verdict tables: name one.")
    path = sources.verdicts[0]
    frame = originals(read_verdicts(path).frame)
    judges = sorted(set(frame["judge"]))
    judge = plan.judge or judges[0]
    if judge not in judges or (plan.judge is None and len(judges) > 1):
        raise InputError(f"{path}: holds verdicts of {', '.join(judges)}; name one of them with --judge.")
    wins = consistency(frame[frame["judge"] == judge]).wins
    opponents = sorted({win.model_b for win in wins})
    if not all(win.model_a for win in wins) or len(opponents) > 1:
        raise InputError(
            f"{path}: a judge score per model needs model_a in every row and one opponent in model_b for all; "
            f"found {len(opponents)} opponents."
        )
    scores = {win.model_a: win.share.share for win in wins if win.share.share is not None}
    return JudgeScores(path.stem, f"win rate by {judge}", scores)
