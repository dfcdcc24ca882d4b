"""What an OpenAI response body holds, read without trusting its shape."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One choice of a response."""

    text: str | None = None
    finish_reason: str | None = None
    tokens: tuple[str, ...] = ()
    logprobs: tuple[float | None, ...] = ()
    """One a token, in nats; of the prompt as well where it was echoed."""
    offsets: tuple[int, ...] = ()
    """Where each token begins in the text (characters), where the server says so."""
    top: Mapping[str, float] = field(default_factory=dict)
    """The likeliest tokens at the first place that has any."""


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        real = float(value)
    except OverflowError:
        return None
    return real if math.isfinite(real) else None


def answers(body: Mapping[str, Any] | None) -> list[Answer]:
    """The choices of a response in order of their index."""
    choices = (body or {}).get("choices")
    if not isinstance(choices, list):
        return []
    found = [choice for choice in choices if isinstance(choice, dict)]
    found.sort(key=lambda choice: number(choice.get("index")) or 0.0)
    return [_answer(choice) for choice in found]


def usage_prompt_tokens(body: Mapping[str, Any] | None) -> int | None:
    """How many prompt tokens the server counted."""
    usage = (body or {}).get("usage")
    count = number(usage.get("prompt_tokens")) if isinstance(usage, dict) else None
    return None if count is None else int(count)


def _answer(choice: Mapping[str, Any]) -> Answer:
    message = choice.get("message")
    text = _text(message.get("content")) if isinstance(message, dict) else _text(choice.get("text"))
    reason = choice.get("finish_reason")
    logprobs = choice.get("logprobs")
    detail = _logprobs(logprobs) if isinstance(logprobs, dict) else {}
    return Answer(text=text, finish_reason=reason if isinstance(reason, str) else None, **detail)


def _text(content: Any) -> str | None:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _logprobs(body: Mapping[str, Any]) -> dict[str, Any]:
    content = body.get("content")
    if isinstance(content, list):
        entries = [entry for entry in content if isinstance(entry, dict)]
        tops = [_named(entry.get("top_logprobs")) for entry in entries]
        return {
            "tokens": tuple(str(entry.get("token", "")) for entry in entries),
            "logprobs": tuple(number(entry.get("logprob")) for entry in entries),
            "top": next((top for top in tops if top), {}),
        }
    tokens, values, offsets = (body.get(name) for name in ("tokens", "token_logprobs", "text_offset"))
    listed = body.get("top_logprobs")
    tops = [_table(entry) for entry in listed] if isinstance(listed, list) else []
    return {
        "tokens": tuple(str(token) for token in tokens) if isinstance(tokens, list) else (),
        "logprobs": tuple(number(value) for value in values) if isinstance(values, list) else (),
        "offsets": tuple(int(number(at) or 0) for at in offsets) if isinstance(offsets, list) else (),
        "top": next((top for top in tops if top), {}),
    }


def _named(entries: Any) -> dict[str, float]:
    if not isinstance(entries, list):
        return {}
    pairs = [(entry.get("token"), number(entry.get("logprob"))) for entry in entries if isinstance(entry, dict)]
    return {token: value for token, value in pairs if isinstance(token, str) and value is not None}


def _table(entry: Any) -> dict[str, float]:
    if not isinstance(entry, dict):
        return {}
    return {str(token): value for token, value in ((t, number(v)) for t, v in entry.items()) if value is not None}
