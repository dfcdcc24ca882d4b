"""What no class accounts for, and is not explained away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.decoding import other_settings
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.pair import Pair, value_key


def _detect(comparison: Comparison) -> Iterator[Finding]:
    open_pairs = [(pair, what) for pair in comparison.pairs if (what := _open(comparison, pair)) is not None]
    items = dict.fromkeys(pair.item_id for pair, _ in open_pairs)
    if not items:
        return
    kinds = {what for _, what in open_pairs}
    evidence: dict[str, Any] = {
        "what": {kind: sum(what == kind for _, what in open_pairs) for kind in sorted(kinds)},
        "examples": comparison.examples(items, lambda pair: _shown(pair)),
    }
    keys = sorted({key for pair, _ in open_pairs for key in other_settings(pair)})
    if keys:
        evidence["sent_with_other_values"] = keys
    models = comparison.meta("model")
    if models[0] != models[1]:
        evidence["models"] = {"a": models[0], "b": models[1]}
    yield Finding("unexplained", tuple(items), evidence)


def _open(comparison: Comparison, pair: Pair) -> str | None:
    """What of an item differs without a class that can be its cause."""
    item = pair.item_id
    if pair.outputs_differ and not comparison.explains(item, "output"):
        return "other output to an equal request"
    readings = pair.readings_differ and comparison.readings_logged
    if readings and not comparison.explains(item, "reading"):
        return "other reading"
    if pair.scores_differ and not comparison.explains(item, "score"):
        return "other score"
    return None


def _shown(pair: Pair) -> dict[str, Any]:
    from safetyrepro.crosspkg.divergence.hunks import first_difference

    shown: dict[str, Any] = {
        "scores": [pair.a.score, pair.b.score],
        "read": [value_key(pair.a.extracted), value_key(pair.b.extracted)],
    }
    if pair.a.output != pair.b.output and pair.a.output is not None and pair.b.output is not None:
        shown["outputs"] = first_difference(pair.a.output, pair.b.output)
    if pair.logprob_difference:
        shown["logprob_difference"] = pair.logprob_difference
    return shown


DETECTOR = Detector(
    "unexplained",
    ("unexplained",),
    "outputs, readings or scores that differ on items where nothing found can be the cause",
    _detect,
)
