"""The options that a prompt lists: their order, their layout, and marks that single out the right one."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.hunks import visible
from safetyrepro.crosspkg.divergence.pair import Pair, value_key
from safetyrepro.crosspkg.sides.exchange import Exchange

MARKS = " \t\n*_`\"'.!()[]"
"""Signs around an option or a candidate that are its formatting, not its text."""


def _detect(comparison: Comparison) -> Iterator[Finding]:
    usable = [p for p in comparison.pairs if p.texts_known and not comparison.has(p.item_id, "truncation.sent")]
    kinds: dict[str, dict[str, None]] = {"gold.order": {}, "gold.leak": {}, "prompt.option_layout": {}}
    for pair in usable:
        kind = _kind(pair)
        if kind is not None:
            kinds[kind][pair.item_id] = None
        if kind != "prompt.option_layout" and _layouts_differ(pair):
            kinds["prompt.option_layout"][pair.item_id] = None
    for name, items in kinds.items():
        if items:
            yield Finding(name, tuple(items), {"examples": comparison.examples(items, _shown)})


def _kind(pair: Pair) -> str | None:
    if _candidates_leak(pair):
        return "gold.leak"
    a, b = pair.a.anatomy.options, pair.b.anatomy.options
    if a is None or b is None:
        return "gold.order" if a is b and _candidates_reordered(pair) else None
    keys_a, keys_b = [_key(text) for text in a.texts], [_key(text) for text in b.texts]
    if sorted(keys_a) != sorted(keys_b):
        return "prompt.option_layout"
    if keys_a != keys_b:
        return "gold.order"
    apart = [i for i, (x, y) in enumerate(zip(a.texts, b.texts, strict=True)) if x != y]
    if not apart:
        return None
    marked = set(apart) == _gold_places(pair.a, a.texts) or set(apart) == _gold_places(pair.b, b.texts)
    return "gold.leak" if marked and len(apart) < len(keys_a) else "prompt.option_layout"


def _layouts_differ(pair: Pair) -> bool:
    a, b = pair.a.anatomy.options, pair.b.anatomy.options
    if (a is None) != (b is None):
        return True
    if a is None or b is None:
        return False
    return "".join(a.layout.split()) != "".join(b.layout.split())


def _candidates_leak(pair: Pair) -> bool:
    """Whether formatting differs for the right candidate alone."""
    if len(pair.aligned) < 2 or None in [c.text for both in pair.aligned for c in both]:
        pairs = list(zip(pair.a.candidates, pair.b.candidates, strict=False))
    else:
        pairs = list(pair.aligned)
    if len(pairs) < 2 or len(pairs) != len(pair.a.candidates) or len(pairs) != len(pair.b.candidates):
        pairs = list(zip(pair.a.candidates, pair.b.candidates, strict=False))
    texts = [(x.text or "", y.text or "") for x, y in pairs]
    if len(texts) < 2 or any(_key(x) != _key(y) for x, y in texts):
        return False
    apart = {i for i, (x, y) in enumerate(texts) if x != y}
    golds = _gold_places(pair.a, [x for x, _ in texts]) | _gold_places(pair.b, [y for _, y in texts])
    return bool(apart) and apart == golds and len(apart) < len(texts)


def _candidates_reordered(pair: Pair) -> bool:
    """Whether the right answer is named by its place, and the same candidates stand in another order."""
    a, b = [c.bare for c in pair.a.candidates], [c.bare for c in pair.b.candidates]
    if len(a) < 2 or None in a or a == b or sorted(map(str, a)) != sorted(map(str, b)) or not pair.golds_differ:
        return False
    places = place_of(pair.a.gold), place_of(pair.b.gold)
    if places[0] is None or places[1] is None or max(places[0], places[1]) >= len(a):
        return False
    return a[places[0]] == b[places[1]]


def place_of(gold: Any) -> int | None:
    """The place that a right answer names, from 0, as a number or a letter; None where it is a text."""
    key = value_key(gold)
    if not isinstance(key, str):
        return None
    if key.isdecimal() and len(key) < 4:
        return int(key)
    return string.ascii_uppercase.index(key) if len(key) == 1 and key in string.ascii_uppercase else None


def _gold_places(exchange: Exchange, texts: Sequence[str]) -> set[int]:
    golds = exchange.gold if isinstance(exchange.gold, list) else [exchange.gold]
    named = {_key(str(gold)) for gold in golds if gold is not None}
    found = {index for index, text in enumerate(texts) if _key(text) in named}
    if found:
        return found
    place = place_of(exchange.gold)
    return {place} if place is not None and place < len(texts) else set()


def _key(text: str) -> str:
    return " ".join(text.strip(MARKS).casefold().split())


def _shown(pair: Pair) -> dict[str, Any]:
    sides: dict[str, dict[str, Any]] = {}
    for name, exchange in (("a", pair.a), ("b", pair.b)):
        options = exchange.anatomy.options
        if options is not None:
            text = " ⏎ ".join(f"{label}: {text}" for label, text in zip(options.labels, options.texts, strict=True))
            sides[name] = {"layout": visible(options.layout), "options": visible(text, 240)}
        else:
            texts = [visible(candidate.text or "", 60) for candidate in exchange.candidates[:6]]
            sides[name] = {"layout": None, "candidates": texts}
        sides[name]["gold"] = value_key(exchange.gold)
    return sides


DETECTOR = Detector(
    "options",
    ("gold.order", "gold.leak", "prompt.option_layout"),
    "options listed in the prompt: the same ones in another order, other markers or separators, marks on the right one",
    _detect,
)
