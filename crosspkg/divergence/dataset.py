"""Other items, or another revision of the same data set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import EXAMPLES, Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.hunks import visible
from safetyrepro.crosspkg.divergence.itemtext import own_changes


def _detect(comparison: Comparison) -> Iterator[Finding]:
    only_a, only_b = comparison.only_a, comparison.only_b
    if only_a or only_b:
        evidence = {
            "only_a": len(only_a),
            "only_b": len(only_b),
            "shared": len(comparison.items),
            "examples": {"a": list(only_a[:EXAMPLES]), "b": list(only_b[:EXAMPLES])},
        }
        yield Finding("dataset.items", (*only_a, *only_b), evidence)
    stated = comparison.meta("dataset_revision")
    stated_differ = None not in stated and stated[0] != stated[1]
    changed = own_changes(comparison)
    if not stated_differ and not changed:
        return
    evidence_revision: dict[str, Any] = {"dataset_revision": {"a": stated[0], "b": stated[1]}}
    golds = comparison.touched(lambda pair: pair.golds_differ) if stated_differ else ()
    if changed:
        evidence_revision["item_text"] = [
            {"item_id": item, "a": visible(hunk.a), "b": visible(hunk.b)}
            for item, hunk in list(changed.items())[:EXAMPLES]
        ]
        if not stated_differ:
            evidence_revision["inferred"] = "the same item ids with other words of the items' own"
    if golds:
        evidence_revision["right_answers_changed"] = len(golds)
    items = tuple(i for i in comparison.items if i in changed or i in golds)
    yield Finding("dataset.revision", items or comparison.items, evidence_revision)


DETECTOR = Detector(
    "dataset",
    ("dataset.items", "dataset.revision"),
    "items that one side alone holds; a stated revision that differs, or the same ids with other words of their own",
    _detect,
)
