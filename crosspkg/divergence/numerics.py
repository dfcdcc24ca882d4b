"""Equal requests, other outputs, and another compute dtype or batch size behind them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.pair import Pair

FACTS = {"compute_dtype": "numerics.dtype", "batch_size": "numerics.batch"}


def _detect(comparison: Comparison) -> Iterator[Finding]:
    free = {item for item in comparison.items if not comparison.explains(item, "output")}
    for fact, name in FACTS.items():
        items = comparison.touched(lambda pair, f=fact: pair.item_id in free and _breaks(pair, f))  # type: ignore[misc]
        if items:
            pairs = [pair for pair in comparison.pairs if pair.item_id in items]
            a, b = pairs[0].a.meta.get(fact), pairs[0].b.meta.get(fact)
            evidence: dict[str, Any] = {
                fact: {"a": a, "b": b},
                "largest_logprob_difference": max(pair.logprob_difference for pair in pairs),
                "other_texts": sum(pair.a.output != pair.b.output for pair in pairs),
            }
            yield Finding(name, items, evidence)


def _breaks(pair: Pair, fact: str) -> bool:
    a, b = pair.a.meta.get(fact), pair.b.meta.get(fact)
    return pair.outputs_differ and a is not None and b is not None and str(a) != str(b)


DETECTOR = Detector(
    "numerics",
    ("numerics.dtype", "numerics.batch"),
    "outputs of equal requests that differ where the stated compute dtype or batch size does",
    _detect,
)
