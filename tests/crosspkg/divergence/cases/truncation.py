"""What was cut."""

from __future__ import annotations

import copy
from typing import Any

from tests.crosspkg.divergence.cases.case import case, edited, ids
from tests.crosspkg.divergence.rows import answer, free


@case("truncation.sent")
def head_of_the_prompt_cut() -> Any:
    a = ids(free(), lambda _: [])
    for index, row in enumerate(a):
        row["prompt_token_ids"] = [1_000 * index + token for token in range(90)]
    return a, ids(a, lambda seen: seen[-64:]), copy.deepcopy(a)


@case("truncation.sent")
def logged_more_than_the_server_counted() -> Any:
    a = free()
    for row in a:
        row["prompt_token_ids"] = list(range(500, 590))
        row["response"]["usage"] = {"prompt_tokens": 90}
    b = edited(a, lambda row: row["response"]["usage"].update(prompt_tokens=64))
    return a, b, copy.deepcopy(a)


@case("truncation.output")
def a_third_of_the_outputs_cut() -> Any:
    a = free()
    b = edited(a, lambda row: answer(row, "Let me think about", None, finish_reason="length"), every=3)
    return a, b, copy.deepcopy(a)
