"""Fixed words of the prompt: header, labels, the cue before the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from safetyrepro.crosspkg.divergence.comparison import EXAMPLES, Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.hunks import Hunk, first_difference, visible
from safetyrepro.crosspkg.divergence.itemtext import own_changes, word_hunks
from safetyrepro.crosspkg.divergence.pair import Pair
from safetyrepro.crosspkg.sides.options import PLACE


def _detect(comparison: Comparison) -> Iterator[Finding]:
    own = own_changes(comparison)
    times: Counter[Hunk] = Counter()
    items: dict[str, None] = {}
    for pair in comparison.pairs:
        if comparison.has(pair.item_id, "truncation.sent"):
            continue
        hunks = [hunk for hunk in word_hunks(pair) if own.get(pair.item_id) != hunk]
        times.update(set(hunks))
        if hunks or (pair.item_id not in own and _only_shots_are_written_otherwise(comparison, pair)):
            items[pair.item_id] = None
    if not items:
        return
    changes = [
        {"a": _words(hunk.a), "b": _words(hunk.b), "items": count} for hunk, count in times.most_common(2 * EXAMPLES)
    ]
    evidence = {"changes": changes, "examples": comparison.examples(items, _shown)}
    yield Finding("prompt.boilerplate", tuple(items), evidence)


def _words(text: str) -> str:
    return visible(text.replace(PLACE, "[options]"), 240)


def _only_shots_are_written_otherwise(comparison: Comparison, pair: Pair) -> bool:
    """The same examples, options and words around them, and yet not the same text: the examples' own format."""
    a, b = pair.a.anatomy, pair.b.anatomy
    if not pair.texts_known or a.shots == b.shots or comparison.has(pair.item_id, "shots"):
        return False
    return not word_hunks(pair)


def _shown(pair: Pair) -> dict[str, str | int]:
    return (
        first_difference(*pair.rests)
        if pair.rests[0] != pair.rests[1]
        else first_difference(pair.a.anatomy.body, pair.b.anatomy.body)
    )


DETECTOR = Detector(
    "boilerplate",
    ("prompt.boilerplate",),
    "words outside shots, options and candidates that most items share, or that come back in several",
    _detect,
)
