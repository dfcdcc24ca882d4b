"""A class planted alone, with a twin of the same shape in which its cause is absent, and the edits that plant it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.crosspkg.divergence.rows import Row, set_prompt


@dataclass(frozen=True)
class Case:
    """Two sides that differ in one cause, and the second side without it."""

    name: str
    expected: frozenset[str]
    a: list[Row]
    b: list[Row]
    twin: list[Row]


CASES: list[Case] = []


def case(*expected: str) -> Callable[[Callable[[], tuple[list[Row], list[Row], list[Row]]]], Any]:
    def register(make: Callable[[], tuple[list[Row], list[Row], list[Row]]]) -> Any:
        a, b, twin = make()
        CASES.append(Case(make.__name__, frozenset(expected), a, b, twin))
        return make

    return register


def edited(rows: list[Row], edit: Callable[[Row], None], *, every: int = 1) -> list[Row]:
    """A copy with `edit` applied to every so-manyth row."""
    changed = copy.deepcopy(rows)
    for row in changed[::every]:
        edit(row)
    return changed


def prompts(rows: list[Row], change: Callable[[str], str]) -> list[Row]:
    return edited(rows, lambda row: set_prompt(row, change(row["request"]["prompt"])))


def requests(rows: list[Row], **values: Any) -> list[Row]:
    def edit(row: Row) -> None:
        for key, value in values.items():
            row["request"].pop(key, None)
            if value is not None:
                row["request"][key] = value

    return edited(rows, edit)


def metas(rows: list[Row], **values: Any) -> list[Row]:
    return edited(rows, lambda row: row["meta"].update(values))


def ids(rows: list[Row], change: Callable[[list[int]], list[int]]) -> list[Row]:
    return edited(rows, lambda row: row.update(prompt_token_ids=change(row["prompt_token_ids"])))
