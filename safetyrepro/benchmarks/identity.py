"""Ids of items that the official data give none: by the hash of their text, the same in every copy of the data."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from safetyrepro.benchmarks.base import Item
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.config import BenchmarkSpec

DIGITS = 12


def text_id(prefix: str, text: str) -> str:
    """`prefix-` and the first hex digits of the text's SHA-256."""
    return f"{prefix}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


def numbered(parsed: Iterable[Item]) -> tuple[Item, ...]:
    """The items; one whose id stands again gets a number behind it, and stays in its cluster."""
    seen: dict[str, int] = {}
    items = []
    for item in parsed:
        seen[item.item_id] = count = seen.get(item.item_id, 0) + 1
        items.append(item if count == 1 else dataclasses.replace(item, item_id=f"{item.item_id}-{count}"))
    return tuple(items)


def of_categories(items: tuple[Item, ...], spec: BenchmarkSpec, shown: str) -> tuple[Item, ...]:
    """The items of the categories that the spec names; all of them where it names none.

    Raises:
        InputError: a category that the data in `shown` do not have.
    """
    if spec.categories is None:
        return items
    known = {item.category for item in items} - {""}
    unknown = sorted(set(spec.categories) - known)
    if unknown:
        has = ", ".join(sorted(known)) or "none"
        raise InputError(f"benchmark.categories names {unknown[0]!r}, the categories in {shown} are: {has}.")
    return tuple(item for item in items if item.category in spec.categories)
