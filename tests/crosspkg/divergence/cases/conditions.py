"""Under what an item was run: machine, repeats, cache, release; and what nothing explains."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tests.crosspkg.divergence.cases.case import case, edited, metas, requests
from tests.crosspkg.divergence.rows import LETTERS, Row, answer, free


@case("numerics.dtype")
def compute_dtype() -> Any:
    a = metas(free(), compute_dtype="float32")
    b = metas(a, compute_dtype="bfloat16")
    for row in b[::4]:
        answer(row, " C", "C")
    return a, b, metas(a, compute_dtype="bfloat16")


@case("numerics.batch")
def batch_size() -> Any:
    a = metas(free(), batch_size=1)
    b = metas(a, batch_size=16)
    for row in b[::4]:
        answer(row, " C", "C")
    return a, b, metas(a, batch_size=16)


def _repeats(rows: list[Row], times: int) -> list[Row]:
    return [copy.deepcopy(row) | {"repeat": number} for number in range(times) for row in rows]


def _logprobs(rows: list[Row], values: Callable[[int], float]) -> list[Row]:
    for number, row in enumerate(rows):
        row["response"]["choices"][0]["logprobs"] = {
            "tokens": [" A"],
            "token_logprobs": [values(number)],
            "top_logprobs": None,
            "text_offset": [0],
        }
    return rows


@case("nondeterminism")
def logprobs_vary_at_temperature_0() -> Any:
    a = _logprobs(_repeats(free(3), 5), lambda number: -0.5 - 0.01 * (number // 3))
    b = _logprobs(_repeats(free(3), 5), lambda number: -0.5 - 0.013 * (number // 3))
    return a, b, copy.deepcopy(a)


@case("nondeterminism")
def repeats_on_one_side() -> Any:
    a = free(3)
    b = _repeats(a, 3)
    answer(b[3], " D", "D")
    return a, b, _repeats(a, 3)


@case("cache.reuse")
def sampled_and_always_the_same() -> Any:
    base = edited(requests(free(4), temperature=1.0), lambda row: row["request"].pop("seed"))
    a = _repeats(base, 4)
    for number, row in enumerate(a):
        answer(row, f" {LETTERS[number // 4]}", LETTERS[number // 4])
    b = metas(_repeats(base, 4), cached=True)
    return a, b, copy.deepcopy(a)


@case("suite.version")
def two_releases_read_the_same_output() -> Any:
    a = free()
    for row in a:
        answer(row, f"the answer is ({row['gold']})", None)
    a[0]["extracted"], a[0]["score"] = a[0]["gold"], 1.0
    b = edited(a, lambda row: row.update(extracted=row["gold"], score=1.0))
    return a, metas(b, suite_version="2.0"), metas(a, suite_version="2.0")


@case("unexplained")
def all_equal_but_the_output() -> Any:
    a = free()
    b = copy.deepcopy(a)
    answer(b[2], " A", "A")
    answer(b[7], " A", "A")
    return a, b, copy.deepcopy(a)
