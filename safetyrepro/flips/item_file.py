"""Items from JSONL files: any multiple-choice set (MMLU-Pro, GPQA), and problems with one answer (GSM8K, MATH).

Multiple choice: `question`, `options` and `answer` (a letter, an index from 0, or the option's text), or GPQA's columns
`Question`, `Correct Answer`, `Incorrect Answer 1` to `3`, whose options are put in an order of the question's hash.
Problems: `question` or `problem`, and `answer` or `solution`, of which the answer is what follows `####`, else the last
`\\boxed{}`, else the whole. Optional for both: `item_id` (or `question_id`, `id`), `category`, `cluster`, `context`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from safetyrepro.benchmarks.extraction import letters
from safetyrepro.errors import InputError
from safetyrepro.flips.final_answer import final_answer
from safetyrepro.unicode import is_text

Row = Mapping[str, Any]
MOST_OPTIONS = 26
LARGEST = 1 << 30
"""Bytes that a packed file may unpack to."""
_CORRECT = "Correct Answer"
_INCORRECT = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


@dataclass(frozen=True)
class FileItem:
    """One row."""

    item_id: str
    cluster: str
    category: str
    question: str
    context: str
    options: tuple[str, ...]
    """Empty for a problem."""
    gold: int
    """Index of the right option; 0 for a problem."""
    answer: str
    """The right answer as text."""


ItemKind = TypeVar("ItemKind", bound=FileItem)


def read_choices(path: Path, limit: int | None = None) -> tuple[tuple[FileItem, ...], str]:
    """Multiple-choice items, and the SHA-256 of the file.

    Raises:
        InputError: naming file and line, what was found and what would be right.
    """
    return read_items(path, limit, _choice)


def read_problems(path: Path, limit: int | None = None) -> tuple[tuple[FileItem, ...], str]:
    """Problems with one answer, and the SHA-256 of the file.

    Raises:
        InputError: naming file and line, what was found and what would be right.
    """
    return read_items(path, limit, _problem)


def read_items(path: Path, limit: int | None, make: Callable[[str, Row], ItemKind]) -> tuple[tuple[ItemKind, ...], str]:
    """Items of a JSONL file, packed with gzip where its name ends in `.gz`, and the SHA-256 of the file.

    Args:
        path: one JSON object a line.
        limit: take only so many.
        make: an item of a row, given where it stands.

    Raises:
        InputError: naming file and line, what was found and what would be right.
    """
    raw, text = _text_of(path)
    items: dict[str, ItemKind] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or (limit is not None and len(items) >= limit):
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not JSON ({error}).") from None
        if not isinstance(row, dict):
            raise InputError(f"{where}: found {line.strip()[:40]!r}, it should be a JSON object.")
        if not is_text(row):
            raise InputError(f"{where}: holds half of a surrogate pair, which is no text; take it out.")
        item = make(where, row)
        if item.item_id in items:
            raise InputError(f"{where}: item {item.item_id!r} stands twice; give each item once, or ids of their own.")
        items[item.item_id] = item
    if not items:
        raise InputError(f"{path}: holds no items.")
    return tuple(items.values()), hashlib.sha256(raw).hexdigest()


def _text_of(path: Path) -> tuple[bytes, str]:
    """A file's bytes, and its text."""
    try:
        raw = path.read_bytes()
        plain = _unpacked(path, raw) if path.suffix == ".gz" else raw
        return raw, plain.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); name a JSONL file.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; write the items as UTF-8.") from None


def _unpacked(path: Path, raw: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
            plain = packed.read(LARGEST + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: cannot be unpacked ({error}); fetch it again.") from None
    if len(plain) > LARGEST:
        raise InputError(f"{path}: unpacks to more than {LARGEST >> 20} MB; give the items in smaller files.")
    return plain


def _choice(where: str, row: Row) -> FileItem:
    question = _text(where, row, "question", "Question")
    if _CORRECT in row:
        texts = [_text(where, row, name) for name in (_CORRECT, *_INCORRECT)]
        order = sorted(range(len(texts)), key=lambda place: hashlib.sha256(f"{question}\n{place}".encode()).digest())
        options, gold = tuple(texts[place] for place in order), order.index(0)
    else:
        options = _options(where, row)
        gold = _gold(where, row, options)
    if len(set(options)) < len(options):
        raise InputError(f"{where}: two options are the same text; a choice between them cannot be told.")
    return _item(where, row, question, options, gold, options[gold])


def _problem(where: str, row: Row) -> FileItem:
    question = _text(where, row, "question", "problem")
    answer = final_answer(_text(where, row, "answer", "solution"))
    return _item(where, row, question, (), 0, answer)


def _item(where: str, row: Row, question: str, options: tuple[str, ...], gold: int, answer: str) -> FileItem:
    context = "" if row.get("context") is None else _text(where, row, "context")
    digest = hashlib.sha256(json.dumps([context, question, *options]).encode()).hexdigest()[:12]
    item_id = _optional(row, "item_id", "question_id", "id") or f"item-{digest}"
    cluster, category = _optional(row, "cluster") or item_id, _optional(row, "category", "subject", "High-level domain")
    return FileItem(item_id, cluster, category, question, context, options, gold, answer)


def _options(where: str, row: Row) -> tuple[str, ...]:
    options = row.get("options", row.get("choices"))
    if not isinstance(options, list) or not all(isinstance(option, str) and option.strip() for option in options):
        raise InputError(f"{where}: options is {str(options)[:60]!r}, it should be a list of texts.")
    if not 2 <= len(options) <= MOST_OPTIONS:
        raise InputError(f"{where}: holds {len(options)} options, it should be 2 to {MOST_OPTIONS}.")
    return tuple(options)


def _gold(where: str, row: Row, options: tuple[str, ...]) -> int:
    answer = row.get("answer", row.get("answer_index"))
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(options):
        return answer
    if isinstance(answer, str) and answer in options:
        return options.index(answer)
    if isinstance(answer, str) and answer.strip().upper() in letters(len(options)):
        return letters(len(options)).index(answer.strip().upper())
    raise InputError(
        f"{where}: answer is {str(answer)[:60]!r}, it should be a letter from A to {letters(len(options))[-1]}, an "
        f"index from 0 to {len(options) - 1}, or one of the options."
    )


def _text(where: str, row: Row, *names: str) -> str:
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
    found = next((f"{name} is {str(row[name])[:60]!r}" for name in names if name in row), f"{names[0]} is missing")
    raise InputError(f"{where}: {found}, it should be text.")


def _optional(row: Row, *names: str) -> str:
    for name in names:
        value = row.get(name)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    return ""
