"""What counts as right: numbered from another start, or simply another answer."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.options_listed import MARKS, place_of
from safetyrepro.crosspkg.divergence.pair import Pair, value_key
from safetyrepro.crosspkg.divergence.rescoring import hit, rescorer
from safetyrepro.crosspkg.sides.exchange import Exchange, Side

MOSTLY = 0.9
"""Share of items that one shift has to explain."""


def _detect(comparison: Comparison) -> Iterator[Finding]:
    apart = [pair for pair in comparison.pairs if _other_gold(comparison, pair)]
    offset = _shift(comparison, apart)
    undone = _undone(comparison)
    if offset is not None:
        items = tuple(dict.fromkeys(p.item_id for p in apart if _distance(p) == offset))
        evidence = {
            "shift": offset,
            "accuracy_by_shift": _by_shift(comparison),
            "examples": _examples(comparison, items),
        }
        yield Finding("gold.offset", items, evidence, undone=undone)
        apart = [pair for pair in apart if _distance(pair) != offset]
    elif not apart:
        yield from _read_shifted(comparison)
    if apart:
        items = tuple(dict.fromkeys(pair.item_id for pair in apart))
        yield Finding("gold.value", items, {"examples": _examples(comparison, items)}, undone=undone)


def _examples(comparison: Comparison, items: tuple[str, ...]) -> list[dict[str, Any]]:
    return comparison.examples(items, lambda pair: {"a": pair.a.gold, "b": pair.b.gold})


def _other_gold(comparison: Comparison, pair: Pair) -> bool:
    """Whether another answer counts as right, however each side names it."""
    if not pair.golds_differ or comparison.has(pair.item_id, "gold.order", "dataset.revision"):
        return False
    a, b = _meant(pair.a), _meant(pair.b)
    if a & b:
        return False
    kinds = place_of(pair.a.gold) is None, place_of(pair.b.gold) is None
    # A letter against a text that no list of options resolves may well be the same answer.
    return kinds[0] == kinds[1] and not comparison.has(pair.item_id, "candidate.object")


def _meant(exchange: Exchange) -> set[str]:
    """The texts that a right answer stands for."""
    golds = exchange.gold if isinstance(exchange.gold, list) else [exchange.gold]
    meant = set()
    for gold in golds:
        place = place_of(gold)
        options = exchange.anatomy.options
        if place is not None and isinstance(gold, str) and gold.isalpha() and options is not None:
            text = options.text_of(gold)
        else:
            text = None if place is not None else str(gold)
        if text is not None:
            meant.add(" ".join(text.strip(MARKS).casefold().split()))
    return meant


def _distance(pair: Pair) -> int | None:
    a, b = place_of(pair.a.gold), place_of(pair.b.gold)
    return None if a is None or b is None else b - a


def _shift(comparison: Comparison, apart: list[Pair]) -> int | None:
    """The one distance between nearly all right answers; one item alone shows no shift."""
    told = [
        pair for pair in comparison.pairs if value_key(pair.a.gold) is not None and value_key(pair.b.gold) is not None
    ]
    distances = Counter(distance for pair in apart if (distance := _distance(pair)) is not None)
    if not distances:
        return None
    distance, count = distances.most_common(1)[0]
    return distance if len({p.item_id for p in told}) > 1 and count >= MOSTLY * len(told) else None


def _read_shifted(comparison: Comparison) -> Iterator[Finding]:
    """Right answers named alike, which one side's scores take for their neighbours."""
    pairs = [p for p in comparison.pairs if p.a.score is not None and p.b.score is not None]
    if not any(p.scores_differ for p in pairs) or any(place_of(p.a.gold) is None for p in pairs):
        return
    if any(p.golds_differ or p.readings_differ for p in pairs) or len({p.item_id for p in pairs}) < 2:
        return
    for shift in (-1, 1):
        for one, other in (("a", "b"), ("b", "a")):
            if all(_fits(getattr(p, one), 0) and _fits(getattr(p, other), shift) for p in pairs):
                items = tuple(dict.fromkeys(p.item_id for p in pairs if p.scores_differ))
                evidence = {"shift": shift, "read_with_shift_by": other, "accuracy_by_shift": _by_shift(comparison)}
                yield Finding("gold.offset", items, evidence, undone=lambda _pair: True)
                return


def _fits(exchange: Exchange, shift: int) -> bool:
    value = hit(exchange.extracted, _moved(exchange.gold, shift), exchange)
    return value is not None and exchange.score is not None and abs(value - exchange.score) <= TOLERANCE


def _moved(gold: Any, shift: int) -> Any:
    place = place_of(gold)
    if place is None:
        return gold
    if str(value_key(gold)).isdecimal():
        return place + shift
    letters = string.ascii_uppercase
    return letters[place + shift] if 0 <= place + shift < len(letters) else None


def _by_shift(comparison: Comparison) -> dict[str, dict[str, float | None]]:
    return {name: _accuracies(side) for name, side in (("a", comparison.a), ("b", comparison.b))}


def _accuracies(side: Side) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for shift in (-1, 0, 1):
        values = [hit(e.extracted, _moved(e.gold, shift), e) for e in side.exchanges.values()]
        told = [value for value in values if value is not None]
        found[f"{shift:+d}"] = sum(told) / len(told) if told else None
    return found


def _undone(comparison: Comparison) -> Callable[[Pair], bool | None]:
    """Whether A's reading held to B's right answer scores as B does."""
    score = rescorer(comparison)

    def undone(pair: Pair) -> bool | None:
        if pair.b.score is None:
            return None
        if score is not None:
            value = score(pair.a, pair.a.extracted, pair.b.gold)
            return None if value is None else abs(value - pair.b.score) <= TOLERANCE
        return None if comparison.explains(pair.item_id, "reading") or pair.readings_differ else True

    return undone


DETECTOR = Detector(
    "gold",
    ("gold.offset", "gold.value"),
    "right answers a constant step apart, or scored so; other right answers",
    _detect,
)
