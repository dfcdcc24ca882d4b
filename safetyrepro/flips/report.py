"""From the outcomes of two models to flips.json: the same content that the page shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from safetyrepro.analysis.flips.churn import Churn, churn_of_repeats, churn_of_second_run
from safetyrepro.analysis.flips.counts import flip_table
from safetyrepro.analysis.flips.fallback import fallback
from safetyrepro.analysis.flips.gate import ALPHA, Gate, non_inferiority
from safetyrepro.analysis.flips.pairing import RIGHT_AT, Configuration, PairedItems, pair_items, rows_of
from safetyrepro.analysis.flips.proportion import Proportion
from safetyrepro.analysis.flips.signals import SignalTable
from safetyrepro.analysis.flips.stability import flip_stability
from safetyrepro.analysis.flips.updates import study_update
from safetyrepro.errors import InputError
from safetyrepro.flips.item_signals import item_signals
from safetyrepro.flips.selection import Comparison
from safetyrepro.flips.signal_report import method_json, rounded, signals_json, summary_json

if TYPE_CHECKING:
    import pandas as pd

LONGEST_TEXT = 20_000


@dataclass(frozen=True)
class Question:
    """What is asked of a table."""

    old: str
    new: str
    again: str | None = None
    """The name under which the old model ran a second time."""
    right_at: float = RIGHT_AT
    by: str | None = None
    """Column to group items by; `category` where there is one, else the cluster."""
    margins: Mapping[str, float] = field(default_factory=dict)
    """Margin by metric, `nfr` or `nfr_old_correct`."""
    target: float | None = None
    """NFR to bring the system to by routing; half of what it is where None."""
    only: tuple[str, ...] = ()
    """Signals to look at; all of them where empty."""
    lower: tuple[str, ...] = ()
    """Further signals of which low values mean risk."""
    redact: bool = False


def build_flips(
    frame: pd.DataFrame,
    question: Question,
    compared: Sequence[Comparison],
    *,
    signals: bool,
    step: Callable[[int], None],
) -> tuple[dict[str, Any], list[SignalTable]]:
    """flips.json, and the signals that were studied, as `flips policy` and `flips signals` read them.

    Args:
        frame: as `read_scores` gives it.
        question: which models, and how they are compared.
        compared: the configurations.
        signals: whether signals are studied.
        step: told how many configurations are done.

    Returns:
        One object for one configuration, else `by_config` with such an object each; and a table of each configuration
        that has signals.

    Raises:
        InputError: the models share no item that both scored, or a signal asked for is not there.
    """
    entries, pairs, studies, tables = [], [], [], []
    benchmarks = [comparison.old.benchmark for comparison in compared]
    for number, comparison in enumerate(compared):
        step(number)
        old, new = (
            rows_of(frame, name, c) for name, c in ((question.old, comparison.old), (question.new, comparison.new))
        )
        paired = _paired(old, new, question, comparison)
        table, ignored = _signal_table(old, new, paired, question, comparison) if signals else (None, ())
        if table is not None:
            alone = benchmarks.count(comparison.old.benchmark) == 1
            tables.append(replace(table, task=comparison.old.benchmark if alone else comparison.label))
        study = None if table is None else study_update(table)
        studies += [] if study is None else [study]
        routed = None if table is None else fallback(table, question.target)
        churn = _churn(frame, paired, old, question, comparison.old)
        gates = _gates(paired, question, len(compared))
        pairs.append((comparison, paired))
        entries.append(
            _entry(comparison, paired, churn, gates)
            | signals_json(table, study, routed)
            | {"ignored_columns": list(ignored), "flips": _flips(old, new, paired, redact=question.redact)}
        )
    head = {
        "old": question.old,
        "new": question.new,
        "right_at": question.right_at,
        "redacted": question.redact,
        "stability": _stability(pairs),
        "method": method_json(),
    }
    body = head | (entries[0] if len(entries) == 1 else {"by_config": entries, "gate": _overall(entries)})
    if studies and len(entries) > 1:
        body["summary"] = summary_json(studies)
    return rounded(body), tables


def _paired(old: pd.DataFrame, new: pd.DataFrame, question: Question, comparison: Comparison) -> PairedItems:
    by = question.by or ("category" if "category" in old else "cluster")
    paired = pair_items(old, new, right_at=question.right_at, by=by)
    if not paired.items:
        left = paired.left_out
        raise InputError(
            f"Under {comparison.label!r} no item has a score for both models: {left.only_old} items were asked of "
            f"{question.old!r} alone, {left.only_new} of {question.new!r} alone, {left.without_score} lack a score; "
            "compare runs of the same items."
        )
    return paired


def _signal_table(
    old: pd.DataFrame, new: pd.DataFrame, paired: PairedItems, question: Question, comparison: Comparison
) -> tuple[SignalTable | None, tuple[str, ...]]:
    found, ignored = item_signals(old, new, paired.items)
    for name in (*question.only, *question.lower):
        if name not in found:
            raise InputError(
                f"signal {name!r} is not in the table; found {', '.join(found) or 'no column of numbers'} "
                f"under {comparison.label!r}."
            )
    if question.only:
        kept = {*question.only, "confidence_new", "confidence_old"}
        found = {name: values for name, values in found.items() if name in kept}
    if not found:
        return None, ignored
    table = SignalTable(
        update=f"{question.old} → {question.new}",
        task=comparison.label,
        items=paired.items,
        clusters=paired.clusters,
        old_right=paired.old_right,
        new_right=paired.new_right,
        signals=found,
        lower=frozenset(question.lower),
    )
    return table, ignored


def _churn(
    frame: pd.DataFrame, paired: PairedItems, old: pd.DataFrame, question: Question, configuration: Configuration
) -> Churn | None:
    if question.again is None:
        return churn_of_repeats(paired)
    second = rows_of(frame, question.again, configuration)
    again = pair_items(old, second, right_at=question.right_at)
    return churn_of_second_run(paired, again, question.again)


def _gates(paired: PairedItems, question: Question, tests: int) -> list[Gate]:
    """A gate per margin; over several configurations a failure is held to its share of the level.

    PASS of all needs no correction (each has to be shown), FAIL of any does. Where the old model had nothing right
    there is nothing to lose, so that keeping a margin shows nothing: such a gate is judged on no item.
    """
    gates = []
    none = not paired.old_right.any()
    for metric, margin in question.margins.items():
        kept = paired.old_right if none or metric == "nfr_old_correct" else np.ones(len(paired.items), dtype=np.bool_)
        clusters = [cluster for cluster, member in zip(paired.clusters, kept.tolist(), strict=True) if member]
        gates.append(non_inferiority(paired.negative[kept], clusters, margin, metric=metric, failing=ALPHA / tests))
    return gates


def _entry(comparison: Comparison, paired: PairedItems, churn: Churn | None, gates: Sequence[Gate]) -> dict[str, Any]:
    table = flip_table(paired)
    return {
        "config": comparison.label,
        "benchmark": comparison.old.benchmark,
        "config_id": comparison.old.config_id,
        "suite": comparison.old.suite,
        "arm": comparison.old.arm,
        "new_config": None if comparison.old == comparison.new else asdict(comparison.new),
        "items": table.items,
        "clusters": table.clusters,
        "accuracy_old": table.accuracy_old.value,
        "accuracy_new": table.accuracy_new.value,
        "negative_flips": table.negative_flips,
        "positive_flips": table.positive_flips,
        "nfr": table.nfr.value,
        "nfr_old_correct": table.nfr_old_correct.value,
        "both_right": table.both_right,
        "both_wrong": table.both_wrong,
        "old_correct": table.accuracy_old.count,
        "intervals": {
            name: _interval(part)
            for name, part in (
                ("accuracy_old", table.accuracy_old),
                ("accuracy_new", table.accuracy_new),
                ("nfr", table.nfr),
                ("nfr_old_correct", table.nfr_old_correct),
                ("positive_rate", table.positive_rate),
            )
        },
        "difference": table.difference,
        "difference_ci": table.difference_ci,
        "mcnemar": asdict(table.mcnemar),
        "unanimous_negative": table.unanimous_negative,
        "unanimous_positive": table.unanimous_positive,
        "repeats": {"old": table.repeats_old, "new": table.repeats_new},
        "churn": None if churn is None else asdict(churn),
        "groups": [
            {
                "name": group.name,
                "items": group.items,
                "negative_flips": group.negative_flips,
                "positive_flips": group.positive_flips,
                "nfr": group.nfr.value,
                "nfr_ci": group.nfr.ci,
            }
            for group in table.groups
        ],
        "left_out": asdict(table.left_out),
        "gate": _overall([{"gates": [asdict(gate) for gate in gates]}]),
        "gates": [asdict(gate) for gate in gates],
    }


def _interval(part: Proportion) -> dict[str, Any]:
    return {"ci": part.ci, "n": part.n, "method": part.method}


def _overall(entries: Sequence[Mapping[str, Any]]) -> str | None:
    """One verdict over all gates: FAIL where any fails, PASS where all pass."""
    verdicts = [gate["verdict"] for entry in entries for gate in entry["gates"]]
    if not verdicts:
        return None
    if "FAIL" in verdicts:
        return "FAIL"
    return "PASS" if set(verdicts) == {"PASS"} else "INCONCLUSIVE"


def _stability(pairs: Sequence[tuple[Comparison, PairedItems]]) -> list[dict[str, Any]]:
    rows = []
    for benchmark in dict.fromkeys(comparison.old.benchmark for comparison, _ in pairs):
        part = flip_stability(benchmark, [paired for c, paired in pairs if c.old.benchmark == benchmark])
        rows += [] if part is None else [asdict(part)]
    return rows


def _flips(old: pd.DataFrame, new: pd.DataFrame, paired: PairedItems, *, redact: bool) -> list[dict[str, Any]]:
    """Every flipped item with both answers, negative flips first."""
    before, after = (rows.drop_duplicates("item_id").set_index("item_id") for rows in (old, new))
    rows = []
    for kind, mask in (("negative", paired.negative), ("positive", paired.positive)):
        for place in np.flatnonzero(mask).tolist():
            item = paired.items[place]
            row: dict[str, Any] = {"item_id": item, "kind": kind, "cluster": paired.clusters[place]}
            row |= {"prompt": None if redact else _text(before, item, "prompt", "question")}
            row |= {"gold": None if redact else _text(before, item, "gold")}
            for side, frame, score, share, repeats in (
                ("old", before, paired.old, paired.old_share, paired.old_repeats),
                ("new", after, paired.new, paired.new_share, paired.new_repeats),
            ):
                row[side] = {
                    "score": float(score[place]),
                    "right_share": float(share[place]),
                    "repeats": int(repeats[place]),
                    "status": _text(frame, item, "status"),
                    "reason": None if redact else _text(frame, item, "reason"),
                    "answer": None if redact else _text(frame, item, "answer", "response", "extracted"),
                }
            rows.append(row)
    return rows


def _text(frame: pd.DataFrame, item: str, *columns: str) -> str | None:
    for column in columns:
        value = frame.at[item, column] if column in frame else None
        if isinstance(value, str) and value:
            return value[:LONGEST_TEXT]
    return None
