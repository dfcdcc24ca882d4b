"""What is scored."""

from __future__ import annotations

import copy
from typing import Any

from tests.crosspkg.divergence.cases.case import case, edited, ids
from tests.crosspkg.divergence.rows import LETTERS, QUESTIONS, answer, free, question, scored, scored_row, set_prompt


@case("candidate.object")
def option_text_or_its_letter() -> Any:
    a, b = scored(), scored()
    for place, row in enumerate(a):
        set_prompt(row, question(place // 4) + " " + QUESTIONS[place // 4][1][place % 4])
    for place, row in enumerate(b):
        index = place // 4
        set_prompt(row, question(index) + " " + LETTERS[place % 4])
        for key in ("extracted", "gold"):
            row[key] = LETTERS[QUESTIONS[index][1].index(row[key])]
    return a, b, copy.deepcopy(a)


@case("candidate.whitespace")
def one_space() -> Any:
    a = scored(letters=True)
    return a, scored(letters=True, delimiter=""), copy.deepcopy(a)


@case("candidate.token_boundary")
def an_extra_space_piece() -> Any:
    a = scored(letters=True)
    return a, ids(a, lambda seen: [*seen[:-1], 29_871, seen[-1]]), copy.deepcopy(a)


@case("scoring.path")
def generated_against_likelihood() -> Any:
    a, b = free(), scored(letters=True)
    for row in a:
        answer(row, " The", "The")
    return a, b, copy.deepcopy(a)


@case("scoring.path")
def likeliest_letter_of_one_generated_token() -> Any:
    a = free()
    for row in a:
        answer(row, "The", None)
        tops = {"The": -0.4, **{letter: -2.0 - (letter != row["gold"]) for letter in LETTERS}}
        row["response"]["choices"][0]["logprobs"] = {
            "tokens": ["The"],
            "token_logprobs": [-0.4],
            "top_logprobs": [tops],
            "text_offset": [0],
        }
    a[0]["extracted"] = "T"
    b = edited(a, lambda row: row.update(extracted=row["gold"], score=1.0))
    return a, b, copy.deepcopy(a)


@case("scoring.normalisation")
def sum_against_sum_per_character() -> Any:
    long = "an answer that goes on for a very long time"
    a = []
    for index in range(4):
        for text, total in (("short", -4.0), (long, -8.0)):
            prompt = question(index, listed=False)
            row = scored_row(index, 0, prompt + " " + text, prompt, total)
            a.append(row | {"extracted": "short", "gold": "short", "score": 1.0})
    b = edited(a, lambda row: row.update(extracted=long, score=0.0))
    return a, b, copy.deepcopy(a)
