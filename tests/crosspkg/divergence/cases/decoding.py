"""How text was generated."""

from __future__ import annotations

import copy
from typing import Any

from tests.crosspkg.divergence.cases.case import case, metas, requests
from tests.crosspkg.divergence.rows import answer, free


@case("decoding.temperature")
def temperature() -> Any:
    a = free()
    return a, requests(a, temperature=1.0), copy.deepcopy(a)


@case("decoding.default")
def temperature_left_out() -> Any:
    a = free()
    return a, requests(a, temperature=None), copy.deepcopy(a)


@case("decoding.top_p")
def top_p() -> Any:
    a = requests(free(), temperature=0.7)
    return a, requests(a, top_p=0.9), copy.deepcopy(a)


@case("decoding.seed")
def seed() -> Any:
    a = requests(free(), temperature=0.7)
    return a, requests(a, seed=2), copy.deepcopy(a)


@case("decoding.max_tokens")
def max_tokens() -> Any:
    a = free()
    b = requests(a, max_tokens=1)
    for row in b[::2]:
        answer(row, "", None, finish_reason="length")
    return a, b, copy.deepcopy(a)


@case("decoding.stop")
def numbers_stopped_at_the_point() -> Any:
    a = free(6)
    for row in a:
        row["gold"] = "12.5"
        answer(row, "12.5", "12.5")
    b = requests(a, stop=["."])
    for row in b:
        answer(row, "12", "12")
    return a, b, copy.deepcopy(a)


@case("decoding.no_effect")
def declared_and_not_sent() -> Any:
    a = metas(free(), temperature=0.0, num_beams=1)
    return a, metas(a, temperature=0.7), copy.deepcopy(a)
