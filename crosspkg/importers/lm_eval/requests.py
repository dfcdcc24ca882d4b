"""What a row of a samples file says was asked and answered, in each layout that the harness has written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safetyrepro.crosspkg.importers.values import mapping, number, sequence, text_of

_WRITTEN_OUT = re.compile(r"(?:prompt|logit)_\d+$")


@dataclass(frozen=True)
class Request:
    """One request of a row."""

    context: str | None
    continuation: str | None
    """What was scored after the context; None where text was generated, or the log does not hold it."""
    options: Mapping[str, Any]
    """Options of a generation."""


@dataclass(frozen=True)
class Asked:
    """The requests of one row with their answers."""

    requests: tuple[Request, ...]
    complete: bool
    """Whether the log holds every request, and not the first only."""
    logprobs: tuple[float | None, ...] | None
    """Summed logprob of every request; None where text was generated."""
    responses: tuple[str, ...]
    """The first request's generated texts."""


def read_asked(row: Mapping[str, Any]) -> Asked:
    """The requests and answers of a row."""
    requests, complete = _requests(row)
    answers = _answers(row)
    firsts = [one[0] for one in answers if one]
    if firsts and all(_is_scored(first) for first in firsts):
        return Asked(requests, complete, tuple(number(first[0]) for first in firsts), ())
    written_out = [key for key in row if key.startswith("logit_")]
    if written_out and not answers:
        numbers = tuple(number(row[key]) for key in written_out)
        if all(one is not None for one in numbers):
            return Asked(requests, complete, numbers, ())
        return Asked(requests, complete, None, (text_of(row[written_out[0]]) or "",))
    rolling = bool(requests) and not requests[0].options and requests[0].continuation is None and "prompt_0" not in row
    if rolling and firsts and all(number(first) is not None for first in firsts):
        return Asked(requests, complete, tuple(number(first) for first in firsts), ())
    # What the filters left is no response.
    given = answers[0] if answers and row.get("resps") else []
    return Asked(requests, complete, None, tuple(text_of(one) or "" for one in given))


def is_metric_key(key: str) -> bool:
    """Whether a row's key may be a metric's name, and is none of the harness's own."""
    return key not in _OWN_KEYS and not _WRITTEN_OUT.match(key)


_OWN_KEYS = frozenset(
    {
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
        "truth",
        "task_name",
        "sample_id",
        "input",
    }
)


def _requests(row: Mapping[str, Any]) -> tuple[tuple[Request, ...], bool]:
    arguments = row.get("arguments")
    if isinstance(arguments, dict):
        ordered = sorted(arguments, key=lambda key: (len(key), key))
        return tuple(_request(_positional(arguments[key])) for key in ordered), True
    held = sequence(arguments)
    if not held:
        sent = [key for key in row if key.startswith("prompt_") and key != "prompt_hash"]
        return tuple(Request(text_of(row[key]), None, {}) for key in sent), True
    if isinstance(held[0], str):
        flat = _request(held)
        answers = sequence(row.get("resps")) or sequence(row.get("filtered_resps"))
        return (flat,), len(answers) <= 1
    return tuple(_request(_positional(one)) for one in held), True


def _positional(one: Any) -> list[Any]:
    if isinstance(one, dict):
        return [one[key] for key in sorted(one, key=lambda key: (len(key), key))]
    return sequence(one)


def _request(arguments: list[Any]) -> Request:
    first = arguments[0] if arguments else None
    second = arguments[1] if len(arguments) > 1 else None
    # A chat is logged as a list that holds its messages as JSON.
    if isinstance(first, list) and len(first) == 1 and isinstance(first[0], str):
        first = first[0]
    return Request(text_of(first), second if isinstance(second, str) else None, mapping(second))


def _answers(row: Mapping[str, Any]) -> list[list[Any]]:
    """Per request its answers; without `resps` the filtered ones, of which there is one each."""
    held = row.get("resps")
    if isinstance(held, list) and held:
        return [one if isinstance(one, list) else [one] for one in held]
    return [[one] for one in sequence(row.get("filtered_resps"))]


def _is_scored(answer: Any) -> bool:
    return (
        isinstance(answer, list)
        and len(answer) == 2
        and number(answer[0]) is not None
        and (isinstance(answer[1], bool) or answer[1] in ("True", "False"))
    )
