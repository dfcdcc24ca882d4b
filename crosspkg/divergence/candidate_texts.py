"""What is scored: other texts, the same texts with other white space, or the same text in other tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.hunks import visible
from safetyrepro.crosspkg.divergence.pair import Pair

_AROUND = 4


def _detect(comparison: Comparison) -> Iterator[Finding]:
    kinds: dict[str, dict[str, None]] = {
        "candidate.object": {},
        "candidate.whitespace": {},
        "candidate.token_boundary": {},
    }
    for pair in comparison.pairs:
        if comparison.has(pair.item_id, "gold.leak"):
            continue
        kind = _kind(comparison, pair)
        if kind is not None:
            kinds[kind][pair.item_id] = None
    for name, items in kinds.items():
        if items:
            show = _ids_shown if name == "candidate.token_boundary" else _texts_shown
            yield Finding(name, tuple(items), {"examples": comparison.examples(items, show)})


def _kind(comparison: Comparison, pair: Pair) -> str | None:
    a, b = pair.a.candidates, pair.b.candidates
    if not a or not b:
        return None
    bare_a, bare_b = [c.bare for c in a], [c.bare for c in b]
    if None not in bare_a and None not in bare_b:
        if sorted(map(str, bare_a)) != sorted(map(str, bare_b)):
            return "candidate.object"
        if any(one.text != other.text for one, other in pair.aligned):
            return "candidate.whitespace"
    return "candidate.token_boundary" if _split_elsewhere(comparison, pair) else None


def _split_elsewhere(comparison: Comparison, pair: Pair) -> bool:
    """The same whole text in other tokens, which no token at the start explains."""
    if pair.a.path != "logprob" or pair.b.path != "logprob" or pair.template_differs:
        return False
    if comparison.has(pair.item_id, "truncation.sent", "prompt", "shots", "chat_template", "gold.order"):
        return False
    if not pair.bodies_agree and not (pair.a.prompt is None and pair.b.prompt is None):
        return False
    opening = comparison.has(pair.item_id, "bos")
    for one, other in pair.aligned:
        if one.ids is None or other.ids is None or one.ids == other.ids:
            continue
        if one.text is None or other.text is None:
            continue
        if not opening or not _ends_alike(one.ids, other.ids):
            return True
    return False


def _ends_alike(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether all that differs stands at the start."""
    short = min(len(a), len(b)) - 1
    return a[len(a) - short :] == b[len(b) - short :]


def _texts_shown(pair: Pair) -> dict[str, Any]:
    return {
        name: [visible(candidate.text or "?", 80) for candidate in exchange.candidates[:6]]
        for name, exchange in (("a", pair.a), ("b", pair.b))
    }


def _ids_shown(pair: Pair) -> dict[str, Any] | None:
    for one, other in pair.aligned:
        if one.ids is not None and other.ids is not None and one.ids != other.ids:
            pairs = enumerate(zip(one.ids, other.ids, strict=False))
            at = next((i for i, (x, y) in pairs if x != y), min(len(one.ids), len(other.ids)))
            start = max(0, at - _AROUND)
            return {
                "candidate": visible(one.text or "?", 80),
                "at_token": at,
                "a": list(one.ids[start : at + _AROUND]),
                "b": list(other.ids[start : at + _AROUND]),
            }
    return None


DETECTOR = Detector(
    "candidates",
    ("candidate.object", "candidate.whitespace", "candidate.token_boundary"),
    "texts whose likelihood is scored: which, with what white space in front, in which tokens",
    _detect,
)
