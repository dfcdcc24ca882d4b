"""Counts and times in sentences: `1 model`, `2 models`, `4 min`."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun, in the plural unless it is one.

    Args:
        count: how many.
        noun: the singular.
        plural: the plural, where it does not just take an s.
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def lasting(seconds: float) -> str:
    """A time in the unit that a reader would choose."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
