"""A wire set (JSONL, one row a request) as one side of a comparison.

Columns: `item_id, repeat?, request, prompt_token_ids, response, extracted, gold, score, meta`. Any of them may be
missing or null. Rows of one item and repeat that score texts by likelihood are its candidates; rows that repeat a
request are its repeats, where the log does not number them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from safetyrepro.crosspkg.sides.candidates import Asked, context_of, scored_texts
from safetyrepro.crosspkg.sides.exchange import Exchange, Ids, Side
from safetyrepro.crosspkg.sides.responses import Answer, answers, usage_prompt_tokens
from safetyrepro.crosspkg.sides.turns import Turn
from safetyrepro.errors import InputError

_TOLD = ("request", "prompt_token_ids", "response", "extracted", "gold", "meta")
"""Fields that can tell why two sides differ; a file without any of them has scores at most."""
NOT_SETTINGS = frozenset({"prompt", "messages", "model", "user", "stream", "stream_options", "metadata"})


class WireSetRow(BaseModel):
    """One line."""

    model_config = ConfigDict(extra="allow")

    item_id: str | int | float | None = None
    repeat: int | None = None
    request: dict[str, Any] | None = None
    prompt_token_ids: list[int] | list[list[int]] | None = None
    response: dict[str, Any] | None = None
    extracted: Any = None
    gold: Any = None
    score: float | None = None
    meta: dict[str, Any] | None = None

    @field_validator("score", mode="before")
    @classmethod
    def _finite(cls, value: Any) -> Any:
        if value == "" or (isinstance(value, float) and math.isnan(value)):
            return None
        return value

    @field_validator("score")
    @classmethod
    def _no_infinity(cls, value: float | None) -> float | None:
        if value is not None and not math.isfinite(value):
            raise ValueError("make it a finite number or null")
        return value


@dataclass(frozen=True)
class _Sent:
    """One prompt of one row."""

    row: WireSetRow
    settings: Mapping[str, Any]
    messages: tuple[Turn, ...] | None
    text: str | None
    sent_ids: Ids | None
    seen_ids: Ids | None
    answer: Answer
    alone: bool
    """Whether the row holds this prompt and no other."""

    @property
    def prompt_key(self) -> Any:
        """What was asked, so that a repeated request is recognised."""
        return self.messages, self.text, self.sent_ids if self.text is None else None, _hint(self.row)


def read_wireset(path: Path) -> Side:
    """Read a wire set.

    Raises:
        InputError: no such file, no UTF-8, no rows, a line that is no wire row (line and field named), or no row that
            could tell why two sides differ.
    """
    rows = list(_rows(path))
    if not rows:
        raise InputError(f"{path}: holds no rows; a wire set has a JSON object a line, one a request.")
    if all(getattr(row, name) is None for row in rows for name in _TOLD):
        looks = " and looks like a score table, which safetyrepro grid reads" if rows[0].score is not None else ""
        raise InputError(
            f"{path}: is no wire set{looks}: no row holds a request, a response or anything else that could tell why "
            f"two sides differ ({', '.join(_TOLD)})."
        )
    named, nameless = _names(rows)
    exchanges: dict[tuple[str, int], Exchange] = {}
    for item_id, sent in named.items():
        for exchange in _exchanges(item_id, sent):
            exchanges[item_id, exchange.repeat] = exchange
    warnings = []
    if nameless:
        warnings.append(f"{nameless} rows without an item_id are matched by their order.")
    return Side(path.stem, exchanges, tuple(warnings))


def _rows(path: Path) -> Iterator[WireSetRow]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; write the wire set as UTF-8.") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            body = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON ({error}).") from None
        if not isinstance(body, dict):
            raise InputError(f"{path}, line {number}: found {line.strip()[:40]!r}, it should be a JSON object.")
        if "wire_id" in body and "seen" in body:
            raise InputError(f"{path}: is a gateway's wire log, which names no items; name its cell's folder instead.")
        if not body.keys() & WireSetRow.model_fields.keys():
            raise InputError(
                f"{path}, line {number}: holds none of a wire row's fields ({', '.join(WireSetRow.model_fields)})."
            )
        try:
            yield WireSetRow.model_validate(body)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"][:1])
            shown = repr(body.get(where))[:60]
            reason = first["msg"].removeprefix("Value error, ")
            raise InputError(f"{path}, line {number}: {where} is {shown}: {reason[0].lower()}{reason[1:]}.") from None


def _names(rows: Sequence[WireSetRow]) -> tuple[dict[str, list[_Sent]], int]:
    """Rows by item; a row without an item gets its place among those, one item for each prompt."""
    several = len({_filter(row) for row in rows}) > 1
    found: dict[str, list[_Sent]] = {}
    nameless = 0
    for row in rows:
        if row.item_id is None:
            nameless += 1
            name = f"row {nameless}"
        else:
            name = (
                str(int(row.item_id))
                if isinstance(row.item_id, float) and row.item_id.is_integer()
                else str(row.item_id)
            )
        if several and _filter(row) is not None:
            name = f"{name} [{_filter(row)}]"
        found.setdefault(name, []).extend(_sent(row))
    return found, nameless


def _filter(row: WireSetRow) -> str | None:
    value = (row.meta or {}).get("filter")
    return value if isinstance(value, str) else None


def _sent(row: WireSetRow) -> list[_Sent]:
    request = row.request or {}
    settings = {k: v for k, v in request.items() if k not in NOT_SETTINGS and v is not None}
    messages = _turns(request.get("messages"))
    prompts = _prompts(request.get("prompt"))
    given = answers(row.response)
    seen = _id_lists(row.prompt_token_ids)
    count = max(len(prompts), 1)
    sent = []
    for index in range(count):
        text, ids = prompts[index] if prompts else (None, None)
        sent.append(
            _Sent(
                row,
                settings,
                messages,
                text,
                ids,
                seen[index] if index < len(seen) else None,
                given[index] if index < len(given) else Answer(),
                alone=count == 1,
            )
        )
    return sent


def _turns(messages: Any) -> tuple[Turn, ...] | None:
    if not isinstance(messages, list):
        return None
    turns = []
    for message in messages:
        if not isinstance(message, dict):
            continue
        content = message.get("content")
        if isinstance(content, list):
            parts = [part.get("text") for part in content if isinstance(part, dict)]
            content = "\n".join(part for part in parts if isinstance(part, str))
        role = str(message.get("role", "user"))
        turns.append(Turn("system" if role == "developer" else role, content if isinstance(content, str) else ""))
    return tuple(turns)


def _prompts(prompt: Any) -> list[tuple[str | None, Ids | None]]:
    if isinstance(prompt, str):
        return [(prompt, None)]
    if not isinstance(prompt, list) or not prompt:
        return []
    if all(_is_id(token) for token in prompt):
        return [(None, tuple(prompt))]
    return [
        (part, None) if isinstance(part, str) else (None, tuple(t for t in part if _is_id(t)))
        for part in prompt
        if isinstance(part, str | list)
    ]


def _id_lists(ids: list[int] | list[list[int]] | None) -> list[Ids]:
    if not ids:
        return []
    lists = ids if isinstance(ids[0], list) else [ids]
    return [tuple(part) for part in lists if isinstance(part, list)]


def _is_id(token: Any) -> bool:
    return isinstance(token, int) and not isinstance(token, bool)


def _hint(row: WireSetRow) -> str | None:
    """The candidate that a row says it scores."""
    for place in (row.meta or {}, row.model_extra or {}):
        for name in ("candidate", "continuation"):
            if isinstance(place.get(name), str):
                return str(place[name])
    return None


def _listed(row: WireSetRow) -> list[str]:
    """The candidates that a row lists."""
    for place in (row.meta or {}, row.model_extra or {}):
        for name in ("candidates", "choices", "options"):
            values = place.get(name)
            if isinstance(values, list) and len(values) > 1 and all(isinstance(value, str) for value in values):
                return list(values)
    return []


def _is_scoring(sent: _Sent) -> bool:
    limit = sent.settings.get("max_tokens")
    if sent.settings.get("prompt_logprobs") is not None or limit == 0:
        return True
    return bool(sent.settings.get("echo")) and (limit is None or limit == 1)


def _exchanges(item_id: str, sent: Sequence[_Sent]) -> Iterator[Exchange]:
    repeats: dict[int, list[_Sent]] = {}
    times: dict[Any, int] = {}
    for one in sent:
        key = one.prompt_key
        number = one.row.repeat
        if number is None:
            number = times.get(key, 0)
            times[key] = number + 1
        repeats.setdefault(number, []).append(one)
    for number, group in sorted(repeats.items()):
        yield _exchange(item_id, number, group)


def _exchange(item_id: str, repeat: int, group: Sequence[_Sent]) -> Exchange:
    first = group[0]
    scoring = _is_scoring(first) or (len(group) > 1 and _alike(group)) or _hint(first.row) is not None
    row = next((one.row for one in group if one.row.score is not None), first.row)
    shared: dict[str, Any] = {
        "item_id": item_id,
        "repeat": repeat,
        "settings": first.settings,
        "settings_known": first.row.request is not None,
        "path_known": first.row.request is not None,
        "extracted": next((one.row.extracted for one in group if one.row.extracted is not None), None),
        "gold": next((one.row.gold for one in group if one.row.gold is not None), None),
        "score": row.score,
        "meta": {key: value for one in reversed(group) for key, value in (one.row.meta or {}).items()},
        "ids": first.seen_ids,
        "sent_ids": first.sent_ids,
        "prompt_tokens": usage_prompt_tokens(first.row.response) if first.alone else None,
        "messages": first.messages,
    }
    if not scoring or first.messages is not None:
        answer = group[-1].answer
        listed = tuple(scored_texts([Asked(None, None, Answer(), hint=text) for text in _listed(first.row)], None))
        return Exchange(
            path="free",
            prompt=first.text,
            candidates=listed,
            output=answer.text,
            token_logprobs=tuple(value for value in answer.logprobs if value is not None),
            top=answer.top,
            finish_reason=answer.finish_reason,
            **shared,
        )
    known = [text for text in (*_texts(shared["gold"]), *_texts(shared["extracted"])) if len(text) >= 1]
    texts = [one.text for one in group if one.text is not None]
    hints = [_hint(one.row) for one in group]
    context = _context(texts, hints, known)
    asked = [
        Asked(one.text, one.seen_ids or one.sent_ids, one.answer, hint) for one, hint in zip(group, hints, strict=True)
    ]
    return Exchange(path="logprob", prompt=context, candidates=scored_texts(asked, context), **shared)


def _context(texts: Sequence[str], hints: Sequence[str | None], known: Sequence[str]) -> str | None:
    if not texts:
        return None
    if hints and hints[0] is not None:
        return texts[0].removesuffix(hints[0])
    return context_of(texts, known)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _alike(group: Sequence[_Sent]) -> bool:
    """Whether prompts that differ are one context with several endings."""
    texts = [one.text for one in group]
    if any(text is None for text in texts):
        return all(one.sent_ids is not None for one in group)
    known = [text for text in texts if text is not None]
    shared = context_of(known, ())
    return len(shared) * 2 >= min(len(text) for text in known) and len(set(known)) > 1
