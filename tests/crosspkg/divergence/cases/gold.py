"""What counts as right."""

from __future__ import annotations

import copy
from typing import Any

from tests.crosspkg.divergence.cases.case import case, edited, metas
from tests.crosspkg.divergence.rows import LETTERS, QUESTIONS, answer, free, question, scored, set_prompt


@case("gold.offset")
def gold_from_one_read_from_zero() -> Any:
    a = free()
    for row in a:
        place = LETTERS.index(row["gold"])
        row["extracted"] = LETTERS.index(row["extracted"])
        row["gold"] = place
    b = edited(a, lambda row: row.update(gold=row["gold"] + 1, score=float(row["extracted"] == row["gold"] + 1)))
    return a, b, copy.deepcopy(a)


@case("gold.offset")
def the_same_gold_scored_one_off() -> Any:
    a = free()
    for row in a:
        row["extracted"] = LETTERS.index(row["extracted"])
        row["gold"] = LETTERS.index(row["gold"]) + 1
        row["score"] = float(row["extracted"] == row["gold"] - 1)
    b = edited(a, lambda row: row.update(score=float(row["extracted"] == row["gold"])))
    return a, b, copy.deepcopy(a)


@case("gold.order")
def options_in_another_order() -> Any:
    a = free()
    b = copy.deepcopy(a)
    for index, row in enumerate(b):
        text, options, gold = QUESTIONS[index]
        turned = options[1:] + options[:1]
        lines = "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, turned, strict=True))
        set_prompt(row, f"Question: {text}\n{lines}\nAnswer:")
        row["gold"] = LETTERS[turned.index(options[gold])]
        row["score"] = float(row["gold"] == row["extracted"])
    return a, b, copy.deepcopy(a)


@case("gold.value")
def other_right_answers() -> Any:
    a = free()
    b = edited(a, lambda row: row.update(gold="D" if row["gold"] != "D" else "A"), every=5)
    for row in b:
        row["score"] = float(row["gold"] == row["extracted"])
    return a, b, copy.deepcopy(a)


@case("gold.leak")
def the_right_candidate_alone_has_a_space() -> Any:
    a = scored(letters=True, delimiter="")
    b = copy.deepcopy(a)
    for place, row in enumerate(b):
        index = place // 4
        if place % 4 == QUESTIONS[index][2]:
            set_prompt(row, question(index) + " " + LETTERS[place % 4])
    return a, b, copy.deepcopy(a)


@case("gold.leak")
def the_right_option_in_bold() -> Any:
    a = free()
    b = copy.deepcopy(a)
    for index, row in enumerate(b):
        _, options, gold = QUESTIONS[index]
        set_prompt(row, row["request"]["prompt"].replace(f". {options[gold]}", f". **{options[gold]}**"))
    return a, b, copy.deepcopy(a)


@case("metric.definition")
def another_score_for_the_same_answer() -> Any:
    a = free()
    return a, edited(a, lambda row: row.update(score=0.5), every=2), copy.deepcopy(a)


@case("metric.weighting")
def subtasks_averaged_two_ways() -> Any:
    a = []
    for number in range(100):
        row = free(1)[0] | {"item_id": f"w{number}"}
        row["meta"] = {"suite": "made", "subtask": "small" if number < 10 else "large"}
        row |= {"extracted": "B" if number < 10 else "A", "score": float(number < 10)}
        answer(row, row["extracted"])
        a.append(row)
    b = metas(a, reported=0.5)
    a = metas(a, reported=0.1)
    return a, b, copy.deepcopy(a)
