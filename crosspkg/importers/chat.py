"""Messages of a chat as text."""

from __future__ import annotations

import json
from typing import Any

from safetyrepro.crosspkg.importers.values import clean, mapping, text_of


def as_chat(messages: list[Any]) -> str:
    """Messages as JSON: roles and texts."""
    kept = [{"role": mapping(one).get("role"), "content": content(mapping(one).get("content"))} for one in messages]
    return clean(json.dumps(kept, ensure_ascii=False))


def content(value: Any) -> str | None:
    """A message's text; of several parts those that are text."""
    if isinstance(value, list):
        return "\n".join(str(part["text"]) for part in value if isinstance(part, dict) and "text" in part)
    return text_of(value)
