"""A card on the disk: written as card.json, card.md and card.html, and read back with one clear sentence on errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from safetyrepro.analysis.card.model import Card
from safetyrepro.atomic import json_text, write_texts
from safetyrepro.crosspkg.importers.values import one_line
from safetyrepro.errors import InputError

LARGEST = 64_000_000
"""Bytes of a card that is read."""
_STATES = frozenset({"given", "unverified", "not disclosed", "not applicable"})
_SHOWN = 80


def write_card(card: Card, folder: Path) -> tuple[Path, Path, Path]:
    """Write a card into `folder`: all three files or none."""
    from safetyrepro.reports.card import render_html, render_markdown

    as_html, as_markdown = render_html(card), render_markdown(card)
    paths = folder / "card.json", folder / "card.md", folder / "card.html"
    write_texts({paths[0]: json_text(card.model_dump(mode="json")), paths[1]: as_markdown, paths[2]: as_html})
    return paths


def read_card(path: Path) -> Card:
    """Read a card and hold it to its schema.

    Raises:
        InputError: naming the file, the field, what was found and what would be right.
    """
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise InputError(f"{path}: has {size:,} bytes, a card has at most {LARGEST:,}.")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); name a card.json.") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: is not UTF-8 text ({error.reason} at byte {error.start}); name a card.json."
        ) from None
    try:
        body = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}, column {error.colno}: is no JSON ({error.msg}); name a card.json."
        ) from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{path}: is no JSON of a card: {one_line(reason)}.") from None
    if not isinstance(body, dict):
        raise InputError(f"{path}: found {_short(body)}, a card is an object.")
    try:
        return Card.model_validate_json(text)
    except ValidationError as error:
        raise InputError(_first_problem(path, error)) from None


def _first_problem(path: Path, error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    first = problems[0]
    field = ".".join(str(step) for step in first["loc"] if step not in _STATES) or "the whole"
    more = f" ({len(problems) - 1} more after this one)" if len(problems) > 1 else ""
    kind, found = first["type"], first["input"]
    if kind == "missing":
        return f"{path}: {field} is missing; see `safetyrepro card schema`{more}."
    if kind == "extra_forbidden":
        return f"{path}: {field} is no field of a card; see `safetyrepro card schema`{more}."
    if kind == "json_invalid":
        return f"{path}: is no JSON ({one_line(first['msg'])})."
    if kind.startswith("union_tag"):
        states = ", ".join(f"'{state}'" for state in sorted(_STATES))
        state = found.get("state") if isinstance(found, Mapping) else found
        return f"{path}: {field}.state is {_short(state)}, it should be one of {states}{more}."
    if kind == "string_pattern_mismatch":
        return f"{path}: {field} is {_short(found)}, it should be 64 lower-case hex digits{more}."
    start, _, right = first["msg"].partition(" should ")
    if not right:
        return f"{path}: {field} is {_short(found)}: {one_line(start)}{more}."
    return f"{path}: {field} is {_short(found)}, it should {one_line(right)}{more}."


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {_short(twice)} stands twice in one object")
    return body


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _short(value: Any) -> str:
    shown = one_line(json.dumps(value, ensure_ascii=True, default=str))
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
