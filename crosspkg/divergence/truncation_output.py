"""Outputs that ended at a limit on one side, with no other limit sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.decoding import sent
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.pair import Pair
from safetyrepro.crosspkg.sides.exchange import Side


def _detect(comparison: Comparison) -> Iterator[Finding]:
    items = comparison.touched(lambda pair: _cut_on_one_side(comparison, pair))
    if not items:
        return
    evidence: dict[str, Any] = {}
    for name, side in (("a", comparison.a), ("b", comparison.b)):
        told = [e for e in side.exchanges.values() if e.finish_reason is not None]
        cut = [e for e in told if e.finish_reason == "length"]
        evidence[name] = {
            "rate": len(cut) / len(told) if told else None,
            "score": _mean(side, None),
            "score_on_completed": _mean(side, "completed"),
        }
    yield Finding("truncation.output", items, evidence)


def _cut_on_one_side(comparison: Comparison, pair: Pair) -> bool:
    if pair.a.path != "free" or pair.b.path != "free":
        return False
    if (pair.a.finish_reason == "length") == (pair.b.finish_reason == "length"):
        return False
    if pair.a.finish_reason is None or pair.b.finish_reason is None:
        return False
    limits = sent(pair.a.settings).get("max_tokens"), sent(pair.b.settings).get("max_tokens")
    return limits[0] == limits[1] and not comparison.has(pair.item_id, "decoding.stop")


def _mean(side: Side, only: str | None) -> float | None:
    scores = [
        e.score
        for e in side.exchanges.values()
        if e.score is not None and (only is None or e.finish_reason != "length")
    ]
    return sum(scores) / len(scores) if scores else None


DETECTOR = Detector(
    "truncation_output",
    ("truncation.output",),
    "outputs that ended at a limit on one side only, though both sent the same one; rate and score on the completed",
    _detect,
)
