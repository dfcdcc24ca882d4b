"""Reads numbers and texts out of other programs' JSON, and says what is none."""

from __future__ import annotations

import json
import math
from typing import Any

MAX_KEPT = 20_000
"""Characters of a text kept in a record's `extra`; prompts and responses are kept whole."""
_LARGEST = 2**53


def number(value: Any) -> float | None:
    """`value` as a number: NaN and infinities as they are, None for anything that is no number.

    Truth values are 1 and 0, numbers written as text are read (`"-1.47"`, `"NaN"`); empty text, words, lists and
    objects are none.
    """
    if isinstance(value, (bool, int, float)) or (isinstance(value, str) and "_" not in value):
        try:
            return float(value)
        except ValueError:
            return None
        except OverflowError:
            return math.inf
    return None


def finite(value: Any) -> float | None:
    """`value` as a finite number, or None."""
    found = number(value)
    return found if found is not None and math.isfinite(found) else None


def whole(value: Any) -> int | None:
    """`value` as a whole number that a float holds exactly, or None."""
    found = finite(value)
    return int(found) if found is not None and found.is_integer() and abs(found) <= _LARGEST else None


def clean(text: str) -> str:
    """`text` without the halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def text_of(value: Any) -> str | None:
    """A text as it is, anything else as compact JSON; None stays None."""
    if value is None:
        return None
    try:
        return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    except RecursionError:
        return "nested too deeply to show"


def one_line(text: str) -> str:
    """A log's text as a terminal may show it: on one line, without control characters."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))


def short(value: Any) -> str:
    """A value as a message shows it: one line, at most 60 characters."""
    shown = one_line(str(text_of(value)))
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def mapping(value: Any) -> dict[str, Any]:
    """`value` where it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """`value` where it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []
