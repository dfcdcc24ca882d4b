"""Questions and models' answers, from files in the usual shapes.

A question is a row with an id (`item_id`, `question_id` or `id`) and a text (`question`, `prompt`, or `turns` with one
turn). An answer is a row with an id, a model (`model`, `model_id`) and a text (`answer`, `response`, `output`, or
`choices` with one turn, as Arena-Hard publishes them). A `records.parquet` of an anchor run is such a file too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetyrepro.errors import InputError
from safetyrepro.tables import read_rows

IDS = ("item_id", "question_id", "id")
QUESTIONS = ("question", "prompt", "turns")
ANSWERS = ("answer", "response", "output", "choices")
MODELS = ("model", "model_id")


@dataclass(frozen=True)
class Answer:
    """One model's answer to one question."""

    item_id: str
    model: str
    text: str


def read_questions(path: Path) -> dict[str, str]:
    """Question texts by id, in the file's order.

    Raises:
        InputError: naming file, row and field; an id twice; a question with more than one turn.
    """
    columns, rows = read_rows(path, "a file of questions")
    id_column, text_column = _column(path, columns, IDS), _column(path, columns, QUESTIONS)
    found: dict[str, str] = {}
    for where, row in rows:
        item = _id(path, where, id_column, row)
        if item in found:
            raise InputError(f"{path}, {where}: {id_column} {item!r} stands twice; give each question once.")
        found[item] = _turn(path, where, text_column, row.get(text_column))
    if not found:
        raise InputError(f"{path}: holds no questions.")
    return found


def read_answers(path: Path) -> list[Answer]:
    """Answers, in the file's order.

    Raises:
        InputError: naming file, row and field; two answers of one model to one question.
    """
    columns, rows = read_rows(path, "a file of answers")
    id_column, text_column = _column(path, columns, IDS), _column(path, columns, ANSWERS)
    model_column = next((name for name in MODELS if name in columns), None)
    found: dict[tuple[str, str], Answer] = {}
    for where, row in rows:
        item = _id(path, where, id_column, row)
        model = path.stem if model_column is None else str(row.get(model_column) or "").strip()
        if not model:
            raise InputError(f"{path}, {where}: {model_column} is empty, it should be the model's name.")
        if (model, item) in found:
            raise InputError(f"{path}, {where}: {model} answers {item!r} twice; give one answer per question.")
        found[model, item] = Answer(item, model, _answer(path, where, text_column, row.get(text_column)))
    if not found:
        raise InputError(f"{path}: holds no answers.")
    return list(found.values())


def draw(items: Sequence[str], count: int | None, seed: int) -> list[str]:
    """The first `count` items by the SHA-256 of `seed:item_id`, so that a draw of 20 is part of a draw of 50."""
    ranked = sorted(items, key=lambda item: hashlib.sha256(f"{seed}:{item}".encode()).digest())
    return ranked if count is None else ranked[:count]


def _column(path: Path, columns: Sequence[str], names: Sequence[str]) -> str:
    found = next((name for name in names if name in columns), None)
    if found is None:
        shown = ", ".join(columns)[:200] or "nothing"
        raise InputError(f"{path}: found the fields {shown}; one of {', '.join(names)} is needed.")
    return found


def _id(path: Path, where: str, column: str, row: Mapping[str, Any]) -> str:
    value = row.get(column)
    if isinstance(value, (list, dict, bool)) or value is None or not str(value).strip():
        raise InputError(f"{path}, {where}: {column} is {value!r:.80}, it should be an id.")
    return str(value).strip()


def _turn(path: Path, where: str, column: str, value: Any) -> str:
    """A text, or the only turn of a list of turns."""
    if isinstance(value, list):
        if len(value) != 1:
            raise InputError(f"{path}, {where}: {column} has {len(value)} turns; only single turns are judged.")
        value = value[0]
    if isinstance(value, dict):
        value = value.get("content")
        value = value.get("answer") if isinstance(value, dict) else value
    if not isinstance(value, str):
        raise InputError(f"{path}, {where}: {column} is {value!r:.80}, it should be a text.")
    return value


def _answer(path: Path, where: str, column: str, value: Any) -> str:
    if column == "choices" and isinstance(value, list) and value and isinstance(value[0], dict):
        return _turn(path, where, "choices[0].turns", value[0].get("turns"))
    return _turn(path, where, column, value)
