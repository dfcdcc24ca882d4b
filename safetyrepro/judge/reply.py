"""Reads a judge's reply: six marks, or the reason why there are none.

Marks are read from the last JSON object in the reply that has `overall`, else from pairs `name: number`, the last of
each. A mark is a whole number from 1 to 5. Without a readable `overall` there is no verdict; another that is missing or
unreadable is left empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from safetyrepro.judge.verdicts import HIGHEST, LOWEST, MARKS, OVERALL

Status = Literal["ok", "unparsed", "refused", "truncated", "error"]
EVEN = 3
LONGEST_REPLY = 100_000
PAIR = re.compile(
    rf"\b(?P<name>{'|'.join(MARKS)})[\s*\"'`]{{0,4}}[:=][\s*\"'`\[(]{{0,4}}"
    r"(?P<mark>-?\d+(?:\.\d+)?)(?P<out>\s*/\s*5\b)?(?![\w/%]|\.\d|\s*(?:/|out of\b))",
    re.IGNORECASE,
)
MOST_OBJECTS = 50


@dataclass(frozen=True)
class Reply:
    """What a judge said of one comparison, in the order shown."""

    status: Status
    reason: str | None
    verdict: str
    """`first`, `second`, `tie`, or "" where none could be read."""
    marks: Mapping[str, int]
    """1 (the second answer is much better) to 5 (the first is)."""


def read_reply(response: Mapping[str, Any]) -> Reply:
    """The verdict in a chat completion.

    A reply that the endpoint calls refused, or cut off before a verdict, is unparsed under its own name.
    """
    choices = response.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    told = choice.get("message")
    message: Mapping[str, Any] = told if isinstance(told, dict) else {}
    refusal, text, finish = message.get("refusal"), message.get("content"), choice.get("finish_reason")
    if refusal or finish == "content_filter":
        return Reply("refused", "the endpoint calls it a refusal", "", {})
    if not isinstance(text, str) or not text.strip():
        return Reply("truncated" if finish == "length" else "unparsed", "the reply holds no text", "", {})
    marks = _marks(text[-LONGEST_REPLY:])
    if OVERALL in marks:
        overall = marks[OVERALL]
        return Reply("ok", None, "first" if overall > EVEN else "second" if overall < EVEN else "tie", marks)
    if finish == "length":
        return Reply("truncated", "cut off by max_tokens before a mark for overall", "", {})
    return Reply("unparsed", f"no mark from 1 to 5 for overall in {' '.join(text.split())[:80]!r}", "", {})


def toward_a(marks: Mapping[str, int], order: str) -> dict[str, int]:
    """Marks as a verdict table has them: 5 means that answer a is much better, whichever was shown first."""
    return {name: mark if order == "ab" else 6 - mark for name, mark in marks.items()}


def _marks(text: str) -> dict[str, int]:
    for body in _objects(text):
        folded = {str(key).strip().casefold(): value for key, value in body.items()}
        found = {name: mark for name in MARKS if (mark := _mark(folded.get(name))) is not None}
        if OVERALL in found:
            return found
    found = {}
    for match in PAIR.finditer(text):
        mark = _mark(match["mark"])
        if mark is not None:
            found[match["name"].casefold()] = mark
    return found


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects in a text, the last one first."""
    decoder = json.JSONDecoder()
    starts = [match.start() for match in re.finditer(r"\{", text)][-MOST_OBJECTS:]
    for start in reversed(starts):
        try:
            body, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(body, dict):
            yield body


def _mark(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d+(\.\d+)?\s*", value):
        value = float(value)
    if not isinstance(value, (int, float)) or value != value or not LOWEST <= value <= HIGHEST or value != int(value):
        return None
    return int(value)
