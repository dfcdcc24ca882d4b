"""How an answer was read."""

from __future__ import annotations

import copy
from typing import Any

from tests.crosspkg.divergence.cases.case import case, edited
from tests.crosspkg.divergence.rows import LETTERS, answer, free


@case("extraction.rule")
def exact_match_before_and_after_strip() -> Any:
    a = free(5)
    for row in a:
        row["gold"] = "Paris"
        answer(row, "Paris \n", "Paris \n")
    b = edited(a, lambda row: row.update(extracted="Paris", score=1.0))
    return a, b, copy.deepcopy(a)


@case("extraction.rule")
def the_next_passage_behind_the_number() -> Any:
    a = free(5)
    for row in a:
        row["gold"] = "10"
        answer(row, "10\n\nPassage: more", "10\n\nPassage: more")
    b = edited(a, lambda row: row.update(extracted="10", score=1.0))
    return a, b, copy.deepcopy(a)


@case("extraction.rule")
def answers_in_markup() -> Any:
    a = free()
    for row in a[::3]:
        answer(row, f"ANSWER: ${row['gold']}$", row["gold"])
    b = edited(a, lambda row: row.update(extracted=None, score=0.0), every=3)
    return a, b, copy.deepcopy(a)


@case("extraction.position")
def first_letter_or_last() -> Any:
    a = free()
    for row in a:
        other = LETTERS[(LETTERS.index(row["gold"]) + 1) % 4]
        answer(row, f"It may be {other}. No, it is {row['gold']}.", row["gold"])
        row["first"] = other
    b = edited(a, lambda row: row.update(extracted=row["first"], score=0.0))
    return a, b, copy.deepcopy(a)


@case("extraction.failure")
def a_whole_run_unparsed() -> Any:
    a = free()
    return a, edited(a, lambda row: row.update(extracted="", score=0.0)), copy.deepcopy(a)


@case("extraction.echo")
def the_prompt_echoed() -> Any:
    a = free()
    b = edited(a, lambda row: answer(row, row["request"]["prompt"] + row["response"]["choices"][0]["text"], None))
    for row in b:
        row["extracted"] = "Q"
    return a, b, copy.deepcopy(a)
