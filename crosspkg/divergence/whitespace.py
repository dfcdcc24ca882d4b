"""White space of the prompt, down to the last byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from safetyrepro.crosspkg.divergence.comparison import EXAMPLES, Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.hunks import first_difference, visible
from safetyrepro.crosspkg.divergence.pair import Pair
from safetyrepro.crosspkg.sides.options import PLACE

Change = tuple[str, str, str]
"""Where, and how it looks on both sides, made visible."""


def _detect(comparison: Comparison) -> Iterator[Finding]:
    found: dict[str, list[Change]] = {}
    for pair in comparison.pairs:
        if not pair.texts_known or comparison.has(pair.item_id, "truncation.sent"):
            continue
        changes = _changes(comparison, pair)
        if changes:
            found.setdefault(pair.item_id, []).extend(changes)
    if not found:
        return
    times = Counter(change for changes in found.values() for change in set(changes))
    listed = [
        {"where": where, "a": a, "b": b, "items": count} for (where, a, b), count in times.most_common(2 * EXAMPLES)
    ]
    yield Finding("prompt.whitespace", tuple(found), {"changes": listed})


def _changes(comparison: Comparison, pair: Pair) -> list[Change]:
    layout = comparison.has(pair.item_id, "prompt.option_layout")
    spaces = [s for s in pair.text_diff.spaces if not (layout and PLACE in (s.before, s.after))]
    changes = [space.shown() for space in spaces]
    a, b = pair.a.anatomy, pair.b.anatomy
    if not layout and a.options is not None and b.options is not None and a.options.layout != b.options.layout:
        changes.append(("around the options", visible(a.options.layout), visible(b.options.layout)))
    if not changes and _between_shots(comparison, pair):
        part = first_difference(a.body, b.body)
        changes.append(("between the shots", str(part["a"]), str(part["b"])))
    return changes


def _between_shots(comparison: Comparison, pair: Pair) -> bool:
    """Whether nothing but white space tells the two texts apart, and it stands among the worked examples."""
    a, b = pair.a.anatomy, pair.b.anatomy
    if a.body == b.body or pair.template_differs or comparison.has(pair.item_id, "shots", "gold.order"):
        return False
    return bool(a.shots) and a.body.split() == b.body.split() and not pair.text_diff.hunks


DETECTOR = Detector(
    "whitespace",
    ("prompt.whitespace",),
    "spaces, line ends and tabs between words that both prompts have, and at the prompt's end",
    _detect,
)
