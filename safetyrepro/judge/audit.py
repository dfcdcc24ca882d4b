"""The audit report: what one or more judges' verdicts follow."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from safetyrepro.analysis.judge.between import judge_agreement
from safetyrepro.analysis.judge.consistency import COMPARISON, Consistency, Share, consistency, winner
from safetyrepro.analysis.judge.edits import Change, paired_change
from safetyrepro.analysis.judge.effects import surface_effects
from safetyrepro.analysis.judge.weights import Weights, standardised_weights
from safetyrepro.analysis.resampling import DRAWS, LEVEL, SEED
from safetyrepro.judge.audit_wording import audit_finding, judge_verdict
from safetyrepro.judge.meta import rounded
from safetyrepro.judge.verdicts import FACTORS, FEATURES, HIGHEST, LOWEST, MARKS, OVERALL, VerdictTable, originals

if TYPE_CHECKING:
    import pandas as pd

POINTS = {"a": 1.0, "tie": 0.5, "b": 0.0}
UNIT = (*COMPARISON, "edit", "order")
UNREAD = "no reply gave a readable verdict"


def build_audit(
    table: VerdictTable, source: str, *, meta: Mapping[str, Any] | None = None, run: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The report as JSON.

    Args:
        table: the verdicts.
        source: what the report calls them.
        meta: a report of `judge meta` about the same judge, to stand beside its weights.
        run: facts of the run that made them (calls that failed, tokens, cost), where there was one.
    """
    frame = table.frame
    judges = {str(name): _judge(group, table) for name, group in frame.groupby("judge", sort=True)}
    report: dict[str, Any] = {
        "source": source,
        "judges": judges,
        "agreement": _agreement(frame) if len(judges) > 1 else None,
        "meta": None if meta is None else _meta(meta),
        "run": None if run is None else dict(run),
        "level": LEVEL,
        "draws": DRAWS,
        "seed": SEED,
    }
    report = rounded(report)
    for name, judge in report["judges"].items():
        judge["verdict"] = judge_verdict(name, judge, report["meta"])
    report["finding"] = audit_finding(report)
    return report


def _judge(rows: pd.DataFrame, table: VerdictTable) -> dict[str, Any]:
    plain = originals(rows)
    body: dict[str, Any] = _order(consistency(plain)) if len(plain) else _no_originals(rows)
    body["weights"], body["weights_detail"] = _weights(plain)
    body["surface"], body["surface_reason"] = _surface(plain, table)
    body["edits"] = _edits(rows, plain)
    body["notes"] = _notes(plain, body)
    return body


def _notes(plain: pd.DataFrame, body: Mapping[str, Any]) -> list[str]:
    """What a reader has to know of the table before the figures."""
    notes = []
    if not body["both_orders"]:
        notes.append("No comparison has a readable verdict in both orders: what position does cannot be told.")
    pairs = {(i, a, b) for i, a, b in zip(plain["item_id"], plain["model_a"], plain["model_b"], strict=True) if a != b}
    mirrored = {(item, a, b) for item, a, b in pairs if a < b and (item, b, a) in pairs}
    if mirrored:
        item, a, b = min(mirrored)
        notes.append(
            f"{len(mirrored)} comparisons stand twice with the models changed about (item {item}: {a} against {b}, and "
            f"{b} against {a}): they are taken for different ones. Name the models alike, and say in order which "
            "was shown first."
        )
    return notes


def _no_originals(rows: pd.DataFrame) -> dict[str, Any]:
    return {
        "items": int(rows["item_id"].nunique()),
        "both_orders": 0,
        "order_consistency": None,
        "order_flips": 0,
        "unparsed": int((rows["verdict"] == "").sum()),
        "first_share": None,
        "accuracy": None,
        "detail": None,
    }


def _order(found: Consistency) -> dict[str, Any]:
    return {
        "items": found.items,
        "both_orders": found.both_orders,
        "order_consistency": found.consistent.share,
        "order_flips": found.flips.count,
        "unparsed": found.unparsed.count,
        "first_share": found.first.share,
        "accuracy": None if found.accuracy is None else found.accuracy.share,
        "detail": {
            "rows": found.rows,
            "comparisons": found.comparisons,
            "consistency": _share(found.consistent),
            "flips": _share(found.flips),
            "tie_in_one_order": found.half,
            "ties": found.ties,
            "unparsed": _share(found.unparsed),
            "first": _share(found.first),
            "first_balanced": _share(found.first_balanced),
            "accuracy": None if found.accuracy is None else _share(found.accuracy),
            "accuracy_both": None if found.accuracy_both is None else _share(found.accuracy_both),
            "wins": [{"a": win.model_a, "b": win.model_b, **_share(win.share)} for win in found.wins],
        },
    }


def _share(share: Share) -> dict[str, Any]:
    return {
        "count": share.count,
        "of": share.of,
        "share": share.share,
        "ci": None if share.ci is None else list(share.ci),
        "bounds": None if share.bounds is None else list(share.bounds),
    }


def _weights(plain: pd.DataFrame) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    factors = [name for name in FACTORS if plain[name].notna().any()]
    rows = plain.dropna(subset=[*factors, OVERALL]) if factors else plain.iloc[:0]
    if not len(rows):
        silent = len(plain) and (plain["verdict"] == "").all()
        return None, {"reason": UNREAD if silent else "the table holds no marks on the factors and overall"}
    found = standardised_weights(
        rows[factors].to_numpy(dtype=np.float64),
        rows[OVERALL].to_numpy(dtype=np.float64),
        factors,
        [str(item) for item in rows["item_id"]],
    )
    if isinstance(found, str):
        return None, {"reason": found, "rows": len(rows), "rows_without_marks": len(plain) - len(rows)}
    detail = {**_regression(found), "rows_without_marks": len(plain) - len(rows)}
    return {name: _weight(found, name) for name in factors}, detail


def _weight(found: Weights, name: str) -> dict[str, Any]:
    weight = found.weights[name]
    return {
        "estimate": weight.estimate,
        "ci": None if weight.ci is None else list(weight.ci),
        "alone": weight.alone,
        "inflation": weight.inflation,
    }


def _regression(found: Weights) -> dict[str, Any]:
    return {
        "reason": None,
        "rows": found.rows,
        "items": found.items,
        "r_squared": found.r_squared,
        "halo": found.halo,
        "collinear": list(found.collinear),
        "constant": list(found.constant),
        "singular_draws": found.singular_draws,
    }


def _surface(plain: pd.DataFrame, table: VerdictTable) -> tuple[dict[str, Any] | None, str | None]:
    """What length and layout do, or why that cannot be told."""
    if not table.features:
        return None, "the table has no lengths; --answers adds them from the texts"
    names = [name for name in FEATURES if name in table.features]
    columns = [f"{name}_{side}" for side in "ab" for name in names]
    rows = plain[plain["verdict"] != ""]
    if not len(rows):
        return None, UNREAD
    rows = rows.dropna(subset=columns)
    if not len(rows):
        return None, "no call with a verdict has the lengths of both answers"
    wins = [POINTS[winner(o, v)] for o, v in zip(rows["order"], rows["verdict"], strict=True)]
    found = surface_effects(
        rows[[f"{name}_a" for name in names]].to_numpy(dtype=np.float64),
        rows[[f"{name}_b" for name in names]].to_numpy(dtype=np.float64),
        np.array(wins),
        names,
        [str(item) for item in rows["item_id"]],
    )
    joint: dict[str, Any] = {"reason": found.joint} if isinstance(found.joint, str) else _regression(found.joint)
    effects = {
        "more_wins": {name: _share(share) for name, share in found.more_wins.items()},
        "weights": None if isinstance(found.joint, str) else {name: _weight(found.joint, name) for name in names},
        "joint": joint,
    }
    return effects, None


def _edits(rows: pd.DataFrame, plain: pd.DataFrame) -> dict[str, Any] | None:
    """Per edit the change of every mark and of the win, paired with the same call on the unedited answer."""
    names = sorted(set(rows["edit"]) - {""})
    if not names:
        return None
    key = [*COMPARISON, "order"]
    scored = [*MARKS, "win"]
    base = _with_win(plain).set_index(key)[scored].add_suffix("_original")
    found = {}
    for name in names:
        edited = _with_win(rows[rows["edit"] == name]).set_index(key)[scored]
        both = edited.join(base, how="inner")
        items = [str(index[0]) for index in both.index]
        changes = {
            mark: _change(
                paired_change(
                    both[mark].to_numpy(dtype=np.float64),
                    both[f"{mark}_original"].to_numpy(dtype=np.float64),
                    items,
                    reach=1.0 if mark == "win" else HIGHEST - LOWEST,
                    family=len(names),
                )
            )
            for mark in scored
        }
        found[name] = {"calls": len(edited), "paired": len(both), **changes}
    return found


def _with_win(rows: pd.DataFrame) -> pd.DataFrame:
    wins = [POINTS.get(winner(o, v), np.nan) for o, v in zip(rows["order"], rows["verdict"], strict=True)]
    return rows.assign(win=wins)


def _change(change: Change) -> dict[str, Any]:
    return {
        "n": change.n,
        "items": change.items,
        "mean": change.mean,
        "ci": None if change.ci is None else list(change.ci),
        "established": change.established,
    }


def _agreement(frame: pd.DataFrame) -> dict[str, Any]:
    wide = (
        frame.assign(winner=[winner(o, v) for o, v in zip(frame["order"], frame["verdict"], strict=True)])
        .pivot(index=list(UNIT), columns="judge", values="winner")
        .fillna("")
    )
    items = [str(index[0]) for index in wide.index]
    outcomes: dict[str, Sequence[str]] = {str(name): list(wide[name]) for name in wide.columns}
    pairs = [
        asdict(judge_agreement({a: outcomes[a], b: outcomes[b]}, items)) for a, b in itertools.combinations(outcomes, 2)
    ]
    return {"all": pairs[0] if len(pairs) == 1 else asdict(judge_agreement(outcomes, items)), "pairs": pairs}


def _meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("n", "pearson", "spearman", "ci", "spearman_ci", "discordant_pairs")
    return {
        "models": meta["models"],
        "factors": {name: {key: factor.get(key) for key in keys} for name, factor in meta["factors"].items()},
    }


def source_name(path: Path) -> str:
    """What a report calls a file or folder: its name, without the machine's folders."""
    return path.resolve().name
