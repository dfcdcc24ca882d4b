"""Where a card differs from the one that its run gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from safetyrepro.analysis.card.model import Card

TOLERANCE = 2e-6
"""Two machines may round the last decimal of a card differently."""
_OWN = ("written_by",)


@dataclass(frozen=True)
class Difference:
    """One value."""

    path: str
    card: Any
    run: Any


def differences(card: Card, run: Card) -> tuple[Difference, ...]:
    """What a card says otherwise than its run, value by value; who wrote it is left out."""
    skip = set(_OWN)
    return tuple(_between(card.model_dump(mode="json", exclude=skip), run.model_dump(mode="json", exclude=skip), ""))


def _between(card: Any, run: Any, path: str) -> Iterator[Difference]:
    if isinstance(card, dict) and isinstance(run, dict):
        for name in dict.fromkeys((*card, *run)):
            yield from _between(card.get(name), run.get(name), f"{path}.{name}" if path else name)
    elif isinstance(card, list) and isinstance(run, list) and len(card) == len(run):
        for number, (left, right) in enumerate(zip(card, run, strict=True)):
            yield from _between(left, right, f"{path}.{number}")
    elif not _same(card, run):
        yield Difference(path, card, run)


def _same(card: Any, run: Any) -> bool:
    if isinstance(card, float) and isinstance(run, float):
        return math.isclose(card, run, rel_tol=0.0, abs_tol=TOLERANCE)
    return type(card) is type(run) and bool(card == run)
