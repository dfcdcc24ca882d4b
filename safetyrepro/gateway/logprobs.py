"""Per-token log-probabilities in the three shapes that suites read.

The values are the engine's fp32 numbers, written in full. JSON has no infinities: a probability of zero is written
as -9999.0, as vLLM does; anything else that is no number is an error of the model and refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from safetyrepro.engine.api import Generated, Scored, Tokenizer
from safetyrepro.gateway.refusal import Refusal

ZERO_PROBABILITY = -9999.0
BYTES = re.compile(r"bytes:((?:\\x[0-9a-f]{2})+)")
"""How the engine shows a token that is no text by itself."""


@dataclass(frozen=True)
class Position:
    """One token, its log-probability (nats; None for the first of a prompt) and the likeliest at its place."""

    token: int
    logprob: float | None
    top: tuple[tuple[int, float], ...]


def prompt_positions(ids: Sequence[int], scored: Scored) -> list[Position]:
    """The prompt's tokens."""
    return [Position(*row) for row in zip(ids, scored.logprobs, scored.top, strict=True)]


def generated_positions(generated: Generated) -> list[Position]:
    """The generated tokens, those of a stop string and EOS included."""
    return [Position(*row) for row in zip(generated.ids, generated.logprobs, generated.top, strict=True)]


def finite(logprob: float) -> float:
    """The number as JSON can hold it.

    Raises:
        Refusal: 500, the model computed something that is no log-probability.
    """
    if logprob == -math.inf:
        return ZERO_PROBABILITY
    if not math.isfinite(logprob):
        raise Refusal(500, f"The model's log-probability is {logprob}: its weights or numerics are broken.")
    return logprob


def completion_logprobs(tokenizer: Tokenizer, positions: Iterable[Position], text: str, count: int) -> dict[str, Any]:
    """The `logprobs` of a completions choice.

    Args:
        tokenizer: Names the tokens.
        positions: Tokens in order.
        text: The choice's text, which `text_offset` points into (characters). A token that is not in it, such as an
            added BOS or part of a character, points to where it would be.
        count: How many of the likeliest are listed per position; the token itself is always among them. Two tokens
            with one text share an entry, which holds the greater log-probability.

    Returns:
        Lists of equal length; the first token of a prompt has null for log-probability and for the likeliest.
    """
    tokens: list[str] = []
    values: list[float | None] = []
    tops: list[dict[str, float] | None] = []
    for position in positions:
        tokens.append(tokenizer.token_text(position.token))
        if position.logprob is None:
            values.append(None)
            tops.append(None)
            continue
        values.append(finite(position.logprob))
        listed: dict[str, float] = {}
        for token, logprob in (*position.top[:count], (position.token, position.logprob)):
            name = tokenizer.token_text(token)
            listed[name] = max(finite(logprob), listed.get(name, -math.inf))
        tops.append(listed)
    return {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops, "text_offset": _offsets(tokens, text)}


def _offsets(tokens: Sequence[str], text: str) -> list[int]:
    offsets: list[int] = []
    end = 0
    unmatched = 0
    for token in tokens:
        # Every token that was not found may stand for a character that only shows once its last byte is there.
        start = text.find(token, end, end + unmatched + len(token))
        if start < 0:
            offsets.append(min(end, len(text)))
            unmatched += 1
        else:
            offsets.append(start)
            end = start + len(token)
            unmatched = 0
    return offsets


def chat_logprobs(tokenizer: Tokenizer, positions: Iterable[Position], count: int) -> dict[str, Any]:
    """The `logprobs` of a chat choice, with `count` of the likeliest per token."""
    content = []
    for position in positions:
        if position.logprob is None:
            continue
        entry = _named(tokenizer, position.token, position.logprob)
        entry["top_logprobs"] = [_named(tokenizer, token, logprob) for token, logprob in position.top[:count]]
        content.append(entry)
    return {"content": content, "refusal": None}


def _named(tokenizer: Tokenizer, token: int, logprob: float) -> dict[str, Any]:
    text = tokenizer.token_text(token)
    part = BYTES.fullmatch(text)
    raw = bytes.fromhex(part[1].replace("\\x", "")) if part else text.encode()
    return {"token": text, "logprob": finite(logprob), "bytes": list(raw)}


def prompt_logprobs(tokenizer: Tokenizer, positions: Iterable[Position], count: int) -> list[dict[str, Any] | None]:
    """The `prompt_logprobs` of vLLM: per position an object by token id, the prompt's own token first.

    A rank beyond the likeliest that the engine keeps is null.
    """
    rows: list[dict[str, Any] | None] = []
    for position in positions:
        if position.logprob is None:
            rows.append(None)
            continue
        ranks = {token: rank for rank, (token, _) in enumerate(position.top, start=1)}
        row: dict[str, Any] = {}
        for token, logprob in ((position.token, position.logprob), *position.top[:count]):
            row.setdefault(
                str(token),
                {
                    "logprob": finite(logprob),
                    "rank": ranks.get(token),
                    "decoded_token": tokenizer.token_text(token),
                },
            )
        rows.append(row)
    return rows
