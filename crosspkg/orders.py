"""Whether the order of two models survives the suites, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safetyrepro.crosspkg.words import Report, count_word, names_text, subject


def order_sentences(report: Report) -> list[str]:
    """Per config and arm of the suites' own tasks: does the order of two models survive the suite?"""
    sentences, seen = [], set()
    for entry in report:
        arm = next((arm for arm in ("nominal", "shipped") if arm in entry["arms"]), None)
        if arm is None or entry["config_id"] in seen:
            continue
        seen.add(entry["config_id"])
        sentences += [f"{subject(entry)}: {order_sentence(pair)}" for pair in entry["arms"][arm]["order"]]
    return sentences


def order_sentence(pair: Mapping[str, Any]) -> str:
    """Whether one pair's order survives the suites of one arm."""
    a, b = pair["a"], pair["b"]
    if pair["refused"]:
        return f"{a} and {b} are not compared: {pair['refused']}."
    total, certified = len(pair["suites"]), pair["certified"]
    if pair["certified_reversal"]:
        return (
            f"whether {a} beats {b} depends on the suite: it is ahead in {_ahead(pair, a, 'p_a')} and behind in "
            f"{_ahead(pair, b, 'p_b')}, and both directions hold beyond item noise (p = {pair['reversal_p']:.4f})."
        )
    if certified["a"] == total or certified["b"] == total:
        ahead, behind = (a, b) if certified["a"] == total else (b, a)
        return f"{ahead} is ahead of {behind} in {_all(total)}: the order survives the suite."
    if certified["a"] or certified["b"]:
        parts = [
            f"{name} is ahead in {_ahead(pair, name)} ({certified[side]} of {total} suites)"
            for name, side in ((a, "a"), (b, "b"))
            if certified[side]
        ]
        rest = "the others do not tell them apart, and no" if certified["neither"] else "yet no"
        return f"{' and '.join(parts)}; {rest} reversal is certified."
    nobody = {1: "the one suite does not tell"}.get(
        total, "neither suite tells" if total == 2 else f"none of the {count_word(total)} suites tells"
    )
    reversal = " Their point scores change order, as they may by noise alone." if pair["point_reversal"] else ""
    return f"{nobody} {a} and {b} apart.{reversal}"


def _ahead(pair: Mapping[str, Any], name: str, p: str | None = None) -> str:
    """The suites in which a model is ahead; where the two-sided verdict names none, the clearest by `p`."""
    rows = pair["suites"]
    found = [suite for suite, row in rows.items() if row["verdict"] == f"{name} ahead"]
    if not found and p is not None:
        found = [min((s for s, row in rows.items() if not row["both_at_chance"]), key=lambda s: float(rows[s][p]))]
    return names_text(found)


def _all(total: int) -> str:
    return {1: "the one suite", 2: "both suites"}.get(total, f"all {count_word(total)} suites")
