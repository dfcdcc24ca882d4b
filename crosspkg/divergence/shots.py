"""Worked examples: how many, which, in what order, and whether the item itself is among them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.hunks import visible
from safetyrepro.crosspkg.divergence.pair import Pair
from safetyrepro.crosspkg.sides.exchange import Exchange
from safetyrepro.crosspkg.sides.options import PLACE

_LABEL = re.compile(r"(?:^|(?<=\s))[A-Z][A-Za-z]{0,15} ?:")
_WORDS = re.compile(r"\w+")
SAME = 0.8
"""Share of common words from which two examples are one, written in two formats."""
_SHORTEST_TEXT = 8


def _detect(comparison: Comparison) -> Iterator[Finding]:
    found: dict[str, dict[str, None]] = {}
    fixed = _fixed_lines(comparison)
    for pair in comparison.pairs:
        if pair.texts_known and not comparison.has(pair.item_id, "truncation.sent"):
            for name in _classes(pair, fixed):
                found.setdefault(name, {})[pair.item_id] = None
    seeds = comparison.meta("fewshot_seed")
    for name, items in found.items():
        evidence: dict[str, Any] = {"examples": comparison.examples(items, _shown)}
        if seeds != (None, None):
            evidence["fewshot_seed"] = {"a": seeds[0], "b": seeds[1]}
        yield Finding(name, tuple(items), evidence)


def _classes(pair: Pair, fixed: frozenset[str]) -> list[str]:
    own = _own(pair.a, fixed), _own(pair.b, fixed)
    classes = ["shots.contamination"] if bool(own[0]) != bool(own[1]) else []
    a, b = list(pair.a.anatomy.shots), list(pair.b.anatomy.shots)
    if len(a) != len(b):
        return ["shots.count", *classes]
    keys_a, keys_b = _keys(a), _keys(b)
    matched = _matched(keys_a, keys_b)
    if len(matched) == len(a):
        return [*classes, "shots.order"] if any(i != j for i, j in matched) else classes
    # What the item's own appearance pushed out is no other source.
    pushed_out = abs(len(own[0]) - len(own[1]))
    return classes if classes and len(a) - len(matched) <= pushed_out else [*classes, "shots.source"]


def _keys(shots: Sequence[str]) -> list[Counter[str]]:
    return [_words(shot) for shot in shots]


@lru_cache(maxsize=4_096)
def _words(shot: str) -> Counter[str]:
    """An example's words without labels and case; most examples come back in every prompt."""
    return Counter(_WORDS.findall(_LABEL.sub(" ", shot).casefold()))


def _matched(a: Sequence[Counter[str]], b: Sequence[Counter[str]]) -> list[tuple[int, int]]:
    """Pairs of places at which both sides show the same example; equal ones first, then those in another format."""
    left_a, left_b = dict(enumerate(a)), dict(enumerate(b))
    pairs = []
    for least in (1.0, SAME):
        for i in list(left_a):
            # Its own place first, so that examples shown twice are not taken for another order.
            places = sorted(left_b, key=lambda j: abs(i - j))
            j = next((j for j in places if _likeness(left_a[i], left_b[j]) >= least), None)
            if j is not None:
                pairs.append((i, j))
                del left_a[i], left_b[j]
    return pairs


def _likeness(a: Counter[str], b: Counter[str]) -> float:
    total = (a | b).total()
    return (a & b).total() / total if total else 1.0


def _fixed_lines(comparison: Comparison) -> frozenset[str]:
    """Lines that more than half of the items' prompts have."""
    lines: Counter[str] = Counter()
    for pair in comparison.pairs:
        lines.update({*_lines(pair.a), *_lines(pair.b)})
    return frozenset(line for line, count in lines.items() if 2 * count > len(comparison.pairs) > 1)


def _lines(exchange: Exchange) -> list[str]:
    """The prompt's own lines as bare words, labels and short ones left out."""
    lines = (_bare(line) for line in exchange.anatomy.rest.replace(PLACE, "").splitlines())
    return [line for line in lines if len(line) >= _SHORTEST_TEXT]


@lru_cache(maxsize=4_096)
def _bare(text: str) -> str:
    return " ".join(_WORDS.findall(_LABEL.sub(" ", text).casefold()))


def _own(exchange: Exchange, fixed: frozenset[str]) -> list[str]:
    """Shots that show the item itself: all lines of its own, or the last line where nothing tells which are its own."""
    asked = [line for line in _lines(exchange) if line not in fixed] if fixed else _lines(exchange)[-1:]
    shown = [_bare(shot) for shot in exchange.anatomy.shots]
    return [shot for shot in shown if asked and all(line in shot for line in asked)]


def _shown(pair: Pair) -> dict[str, Any]:
    a, b = pair.a.anatomy.shots, pair.b.anatomy.shots
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    sides = {}
    for name, shots in (("a", a), ("b", b)):
        sides[name] = {"count": len(shots), "first_that_differs": visible(shots[at]) if at < len(shots) else None}
    return sides


DETECTOR = Detector(
    "shots",
    ("shots.count", "shots.source", "shots.order", "shots.contamination"),
    "worked examples in the prompt or in earlier turns, whatever their format; the item's own words among them",
    _detect,
)
