"""What the page shows of causes: a table of classes for every pair of suites, and the gap in parts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from safetyrepro.crosspkg.divergence.meanings import MEANINGS
from safetyrepro.crosspkg.repeats import within_words
from safetyrepro.reports.waterfall import waterfall_figure
from safetyrepro.runners import title

SHOWN = 120
"""Characters of evidence that a cell of the table shows; report.json has it all."""
Entry = Mapping[str, Any]


def cause_tables(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """For every model and arm: rows of classes by pair, the pairs without any, and each pair's attribution."""
    tables = []
    for entry in entries:
        for arm in entry["arms"]:
            pairs = [pair for pair in entry["divergence"] if pair["arm"] == arm]
            if not pairs:
                continue
            parts = [part for part in entry["attribution"] if part["arm"] == arm]
            tables.append(
                {
                    "model": entry["model"],
                    "arm": arm,
                    "rows": [_row(pair, found) for pair in pairs for found in pair["classes"]],
                    "inside": [f"{title(p['a'])} and {title(p['b'])}: {_inside(p)}" for p in pairs if _inside(p)],
                    "alike": [f"{title(p['a'])} and {title(p['b'])}" for p in pairs if not p["classes"]],
                    "attributions": [_attribution(entry, part) for part in parts],
                }
            )
    return tables


def _inside(pair: Entry) -> str:
    """What a pair's difference is called where it is no larger than the spread of one suite's repeats."""
    within = pair["within"]
    if within is None or not within["inside"] or not pair["score_changed"]:
        return ""
    return f"{abs(pair['gap_points']):.1f} points, {within_words(within)}"


def _row(pair: Entry, found: Entry) -> dict[str, Any]:
    a, b = _evidence(found["evidence"])
    return {
        "pair": f"{title(pair['a'])} – {title(pair['b'])}",
        "class": found["class"],
        "meaning": MEANINGS.get(found["class"], ""),
        "items": len(found["items"]),
        "of": pair["items"],
        "changed": found["score_changed"],
        "accounts_for": found["accounts_for"],
        "a": a[:SHOWN],
        "b": b[:SHOWN],
    }


def _attribution(entry: Entry, part: Entry) -> dict[str, Any]:
    sentence = part["sentence"].replace(f"between {part['a']} and", f"between {title(part['a'])} and")
    pair = [entry["config_id"], entry["model"], part["arm"], part["a"], part["b"]]
    label = f"parts-{hashlib.sha256(json.dumps(pair).encode()).hexdigest()[:12]}"
    return {
        "sentence": sentence.replace(f" and {part['b']},", f" and {title(part['b'])},"),
        # The SVG is matplotlib's, which escapes its labels.
        "svg": Markup(waterfall_figure(part, label)),  # noqa: S704
        "note": _note(part),
    }


def _note(part: Entry) -> str:
    notes = [f"{part['hybrids']} hybrids on {part['n_items']} items"]
    if part["cost"] is None:
        notes.append("re-scored from stored outputs, no model asked")
    else:
        notes.append(f"asked of the model for {part['cost']:.1f} times the sequences of one run")
    if part["merged"]:
        notes.append(f"merged: {'; '.join(part['merged'])}")
    return "; ".join(notes) + "."


def _evidence(evidence: Entry) -> tuple[str, str]:
    """The first thing that both sides show, in words."""
    for name in ("changes", "examples"):
        shown = evidence.get(name)
        if isinstance(shown, list) and shown and {"a", "b"} <= shown[0].keys():
            return _words(shown[0]["a"]), _words(shown[0]["b"])
    for name in ("sent", "declared", "predicted_scores", "suite_version", "dataset_revision"):
        shown = evidence.get(name)
        if isinstance(shown, dict) and {"a", "b"} <= shown.keys():
            return _words(shown["a"]), _words(shown["b"])
        if isinstance(shown, dict) and shown:
            key, values = next(iter(shown.items()))
            if isinstance(values, dict) and {"a", "b"} <= values.keys():
                return f"{key}: {_words(values['a'])}", f"{key}: {_words(values['b'])}"
    if {"a", "b"} <= evidence.keys():
        return _words(evidence["a"]), _words(evidence["b"])
    return _words(evidence.get("alarm", "")), ""


def _words(value: Any) -> str:
    """A value without the signs of JSON."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{key.replace('_', ' ')}: {_words(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        return " | ".join(_words(entry) for entry in value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
