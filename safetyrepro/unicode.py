"""Halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""

from __future__ import annotations

import json
from typing import Any


def encoded(text: str) -> bytes:
    """`text` as UTF-8, half a surrogate pair as JSON's own escape."""
    return text.encode("utf-8", "backslashreplace")


def is_text(value: Any) -> bool:
    """Whether every text in a value of JSON is whole."""
    try:
        (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode()
    except UnicodeEncodeError:
        return False
    return True


def cleaned(row: dict[str, Any]) -> dict[str, Any]:
    """A JSON object with a question mark for every half of a surrogate pair."""
    whole: dict[str, Any] = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
    return whole
