"""Two or three causes at once, each one named once."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.crosspkg.divergence.rows import (
    LETTERS,
    SHOTS,
    Row,
    answer,
    classes,
    free,
    ids_of,
    scored,
    set_prompt,
    with_shots,
)

Plant = Callable[[list[Row]], None]


def prompt(change: Callable[[str], str]) -> Plant:
    def plant(rows: list[Row]) -> None:
        for row in rows:
            set_prompt(row, change(row["request"]["prompt"]))

    return plant


def request(**values: object) -> Plant:
    def plant(rows: list[Row]) -> None:
        for row in rows:
            row["request"].update(values)

    return plant


def leave_out_top_p(rows: list[Row]) -> None:
    for row in rows:
        del row["request"]["top_p"]


def declare(rows: list[Row]) -> None:
    for row in rows:
        row["meta"]["top_k"] = 40


def read_otherwise(rows: list[Row]) -> None:
    for row in rows[::4]:
        row["extracted"], row["score"] = None, 0.0


def other_gold(rows: list[Row]) -> None:
    for row in rows[1::4]:
        row["gold"] = LETTERS[(LETTERS.index(row["gold"]) + 2) % 4]
        row["score"] = float(row["gold"] == row["extracted"])


def fewer_items(rows: list[Row]) -> None:
    del rows[-8:]


def echo(rows: list[Row]) -> None:
    for row in rows:
        answer(row, row["request"]["prompt"] + row["response"]["choices"][0]["text"])


def two_bos(rows: list[Row]) -> None:
    for row in rows:
        row["prompt_token_ids"] = [2, 2, *ids_of(row["request"]["prompt"])]


def no_bos(rows: list[Row]) -> None:
    for row in rows:
        row["prompt_token_ids"] = ids_of(row["request"]["prompt"])


HEADER = "Answer with one letter.\n\n"
FREE: dict[str, Plant] = {
    "prompt.whitespace": prompt(lambda text: text + "\n"),
    "prompt.boilerplate": prompt(lambda text: HEADER + text),
    "prompt.option_layout": prompt(
        lambda text: (
            text.replace("\nA. ", "\n(A) ")
            .replace("\nB. ", "\n(B) ")
            .replace("\nC. ", "\n(C) ")
            .replace("\nD. ", "\n(D) ")
        )
    ),
    "shots.count": prompt(lambda text: text.replace("Question:", with_shots("Question:", SHOTS), 1)),
    "decoding.temperature": request(temperature=1.0),
    "decoding.max_tokens": request(max_tokens=64),
    "decoding.stop": request(stop=["###"]),
    "decoding.seed": request(seed=5),
    "decoding.default": leave_out_top_p,
    "decoding.no_effect": declare,
    "extraction.rule": read_otherwise,
    "gold.value": other_gold,
    "dataset.items": fewer_items,
    "extraction.echo": echo,
    "bos.double": two_bos,
    "bos.missing": no_bos,
}
SCORED: dict[str, Plant] = {
    "prompt.boilerplate": prompt(lambda text: HEADER + text),
    "shots.count": prompt(lambda text: with_shots(text, SHOTS[:2])),
    "candidate.whitespace": prompt(lambda text: text[:-2] + text[-1]),
    "dataset.items": fewer_items,
    "bos.double": two_bos,
    "bos.missing": no_bos,
}
LAST = ("extraction.echo", "bos.double", "bos.missing")
"""Planted behind the others: they are made of the final prompt."""
APART = ({"bos.double", "bos.missing"}, {"extraction.rule", "extraction.echo"})
"""Causes that are not told apart where they come together: both change the same byte, or the text that is read."""


def planted(rows: list[Row], names: list[str], plants: dict[str, Plant]) -> list[Row]:
    changed = copy.deepcopy(rows)
    for name in sorted(names, key=lambda name: (LAST.index(name) + 1 if name in LAST else 0, name)):
        plants[name](changed)
    return changed


def combinations(plants: dict[str, Plant]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(sorted(plants)), min_size=2, max_size=3, unique=True).filter(
        lambda names: not any(pair <= set(names) for pair in APART)
    )


def leaves_top_p(rows: list[Row]) -> list[Row]:
    """A base in which leaving `top_p` out is another request (1 is what the API takes where none is named)."""
    for row in rows:
        row["request"]["top_p"] = 0.8
    return rows


@settings(max_examples=60, deadline=None)
@given(names=combinations(FREE), swap=st.booleans())
def test_generated(names: list[str], swap: bool) -> None:
    a = leaves_top_p(free())
    for row in a:
        row["meta"]["top_k"] = 1
    b = planted(a, names, FREE)
    with tempfile.TemporaryDirectory() as folder:
        found = classes(Path(folder), b, a) if swap else classes(Path(folder), a, b)
    assert found == set(names)


@settings(max_examples=30, deadline=None)
@given(names=combinations(SCORED), swap=st.booleans())
def test_scored_by_likelihood(names: list[str], swap: bool) -> None:
    a = scored(letters=True)
    b = planted(a, names, SCORED)
    with tempfile.TemporaryDirectory() as folder:
        found = classes(Path(folder), b, a) if swap else classes(Path(folder), a, b)
    assert found == set(names)
