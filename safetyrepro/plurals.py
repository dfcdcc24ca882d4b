"""Counts in sentences: `1 model`, `2 models`."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun, in the plural unless it is one.

    Args:
        count: how many.
        noun: the singular.
        plural: the plural, where it does not just take an s.
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
