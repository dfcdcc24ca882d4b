"""What each of two sides differs from itself over its repeats, and whether their difference is any larger."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from safetyrepro.analysis.repeats import WithinSpread, WithinVerdict, within_spread, within_verdict
from safetyrepro.crosspkg.sides.exchange import Side


@dataclass(frozen=True)
class Within:
    """Both sides beside themselves, on the items that both scored."""

    a: WithinSpread | None
    """None where side A repeats no item."""
    b: WithinSpread | None
    items: tuple[str, ...]
    """Items that `a` and `b` count by their places."""
    verdict: WithinVerdict

    def to_json(self) -> dict[str, Any]:
        """As `diff --json` prints it."""
        return {"a": self._side(self.a), "b": self._side(self.b), **asdict(self.verdict)}

    def _side(self, side: WithinSpread | None) -> dict[str, Any] | None:
        if side is None:
            return None
        return {
            "repeats": len(side.scores),
            "scores": list(side.scores),
            "spread_points": side.points,
            "n_items": side.n_items,
            "score_changed": [self.items[place] for place in side.changed],
        }


def within_sides(a: Side, b: Side, scored: Sequence[str]) -> Within | None:
    """The repeats of two sides beside their difference.

    Args:
        a: one side.
        b: the other.
        scored: items that both scored.

    Returns:
        None where neither side has a second repeat with a score. Items that a side did not score in each of its
        repeats are left out of both.
    """
    numbered = [(side, _numbers(side, scored)) for side in (a, b)]
    kept = tuple(item for item in scored if all(_column(side, item, numbers) for side, numbers in numbered))
    if not kept:
        return None
    spreads = [_spread(side, kept, numbers) for side, numbers in numbered]
    repeated = [spread for spread in spreads if spread is not None]
    if not repeated:
        return None
    means = [float(np.mean([side.score(item) for item in scored])) for side in (a, b)]
    return Within(spreads[0], spreads[1], kept, within_verdict(100 * (means[0] - means[1]), *repeated))


def _numbers(side: Side, scored: Sequence[str]) -> list[int]:
    """Repeats that the side numbers on most items: a stray second row of one item is no repeat of the run."""
    counts: dict[int, int] = {}
    for item in scored:
        for exchange in side.by_item[item]:
            counts[exchange.repeat] = counts.get(exchange.repeat, 0) + 1
    return sorted(number for number, count in counts.items() if 2 * count > len(scored))


def _column(side: Side, item: str, numbers: Sequence[int]) -> list[float] | None:
    scores = {exchange.repeat: exchange.score for exchange in side.by_item[item]}
    column = [score for number in numbers if (score := scores.get(number)) is not None and math.isfinite(score)]
    return column if len(column) == len(numbers) else None


def _spread(side: Side, items: Sequence[str], numbers: Sequence[int]) -> WithinSpread | None:
    if len(numbers) < 2:
        return None
    columns = [_column(side, item, numbers) for item in items]
    return within_spread(np.array(columns, dtype=np.float64).T)
