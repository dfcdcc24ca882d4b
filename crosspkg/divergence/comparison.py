"""Two sides with their shared items, and what the detectors found so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.crosspkg.divergence.finding import CLASSES, RANK, Explains, Finding
from safetyrepro.crosspkg.divergence.pair import Pair
from safetyrepro.crosspkg.sides.exchange import Exchange, Side

EXAMPLES = 3
"""Items of a class that are shown with their evidence."""


class Comparison:
    """Side A against side B."""

    def __init__(self, a: Side, b: Side) -> None:
        """Match the two sides' items and repeats."""
        self.a = a
        self.b = b
        self.items = tuple(item for item in a.by_item if item in b.by_item)
        self.only_a = tuple(item for item in a.by_item if item not in b.by_item)
        self.only_b = tuple(item for item in b.by_item if item not in a.by_item)
        self.pairs = [pair for item in self.items for pair in _paired(a.by_item[item], b.by_item[item])]
        self.found: dict[str, Finding] = {}
        self.explained: dict[str, set[str]] = {item: set() for item in self.items}
        """Classes found so far by item."""
        moving = {pair.item_id for pair in self.pairs if pair.moving}
        if 2 * len(moving) >= len(self.items):
            for pair in self.pairs:
                pair.masked = bool(pair.moving)

    def add(self, finding: Finding) -> None:
        """Keep a finding; a class stands once."""
        if finding.id in self.found:
            raise ValueError(f"{finding.id} was found twice")
        self.found[finding.id] = finding
        for item in finding.items:
            if item in self.explained:
                self.explained[item].add(finding.id)

    def has(self, item: str, *classes: str) -> bool:
        """Whether one of these classes (or of these families, such as `shots`) was found on the item."""
        return any(found in classes or found.partition(".")[0] in classes for found in self.explained.get(item, ()))

    def explains(self, item: str, what: Explains) -> bool:
        """Whether a class found on the item can be the cause of `what`."""
        return any(RANK[CLASSES[found]] >= RANK[what] for found in self.explained.get(item, ()))

    @cached_property
    def changed(self) -> frozenset[str]:
        """Items whose score differs, averaged over repeats."""
        found = set()
        for item in self.items:
            a, b = self.a.score(item), self.b.score(item)
            if a is not None and b is not None and abs(a - b) > TOLERANCE:
                found.add(item)
        return frozenset(found)

    @cached_property
    def scored(self) -> tuple[str, ...]:
        """Items that hold a score on both sides."""
        return tuple(i for i in self.items if self.a.score(i) is not None and self.b.score(i) is not None)

    @cached_property
    def readings_logged(self) -> bool:
        """Whether both logs say what was read; one that never does and yet scores does not."""
        return all(_logs_readings(side) for side in (self.a, self.b))

    def meta(self, name: str) -> tuple[Any, Any]:
        """A fact that each side states about itself: the value of most of its rows, None where none states it."""
        return _stated(self.a, name), _stated(self.b, name)

    def touched(self, test: Callable[[Pair], bool]) -> tuple[str, ...]:
        """Items with a pair that passes `test`, in order."""
        return tuple(dict.fromkeys(pair.item_id for pair in self.pairs if test(pair)))

    def examples(self, items: Iterable[str], show: Callable[[Pair], Any]) -> list[dict[str, Any]]:
        """The first few items of a class with what there is to see."""
        wanted = set(list(items)[: EXAMPLES * 4])
        shown: dict[str, Any] = {}
        for pair in self.pairs:
            if pair.item_id in wanted and pair.item_id not in shown and len(shown) < EXAMPLES:
                seen = show(pair)
                if seen is not None:
                    shown[pair.item_id] = seen
        return [
            {"item_id": item, **(seen if isinstance(seen, dict) else {"shown": seen})} for item, seen in shown.items()
        ]


def _paired(a: Sequence[Exchange], b: Sequence[Exchange]) -> list[Pair]:
    """Repeats by number; where they are numbered differently, in their order."""
    numbers_b = {exchange.repeat: exchange for exchange in b}
    pairs = [Pair(exchange, numbers_b[exchange.repeat]) for exchange in a if exchange.repeat in numbers_b]
    return pairs or [Pair(x, y) for x, y in zip(a, b, strict=False)]


def _logs_readings(side: Side) -> bool:
    exchanges = side.exchanges.values()
    if any(exchange.extracted not in (None, "") for exchange in exchanges):
        return True
    scores = [exchange.score for exchange in exchanges if exchange.score is not None]
    return bool(scores) and max(scores) <= 0


def _stated(side: Side, name: str) -> Any:
    values = [exchange.meta[name] for exchange in side.exchanges.values() if exchange.meta.get(name) is not None]
    counted = Counter(repr(value) for value in values)
    if not counted:
        return None
    most = counted.most_common(1)[0][0]
    return next(value for value in values if repr(value) == most)
