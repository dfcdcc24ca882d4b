from __future__ import annotations

import pytest

from safetyrepro.plurals import counted
from safetyrepro.reports.labels import labels

MODELS = ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen2.5-7B-Instruct")


@pytest.mark.parametrize("longest", [30, 22, 18, 12, 8])
@pytest.mark.parametrize(
    "names",
    [
        MODELS,
        [f"{'org/' * 30}model-{letter}" for letter in "ab"],
        ["one-owner/the-very-same-model-name", "another-owner/the-very-same-model-name"],
        ["x" * 90 + letter + "y" * 90 for letter in "abc"],
        ["p" * 40 + "a" * 20 + letter + "z" * 60 for letter in "abc"],
        ["p" * 40 + middle + "z" * 60 + end + "q" * 40 for middle, end in (("a", "a"), ("a", "b"), ("b", "a"))],
        ["n" * length for length in range(60, 75)],
        ["a" * 30 + "\u202e", "a" * 30 + "[U+202E]"],
        ["a/", "b/", ""],
    ],
    ids=["models", "prefix", "owners", "middle", "late", "two-places", "lengths", "hidden", "slashes"],
)
def test_no_two_names_look_the_same(names: tuple[str, ...] | list[str], longest: int) -> None:
    found = labels(names, longest)
    assert list(found) == list(names)
    assert len(set(found.values())) == len(names)
    assert all(len(label) <= longest for label in found.values())
    assert all("\u202e" not in label for label in found.values())


def test_names_that_fit_stay_and_owners_go_first() -> None:
    assert labels(["alpha", "beta", "alpha"], 8) == {"alpha": "alpha", "beta": "beta"}
    assert list(labels(MODELS, 22).values()) == [
        "Llama-3.1-8B-Instruct",
        "Llama-3.1-70B-Instruct",
        "Qwen2.5-7B-Instruct",
    ]


def test_a_size_is_not_cut_in_two() -> None:
    short = labels(MODELS, 18)
    assert short[MODELS[0]].endswith("8B-Instruct")
    assert "70B" in short[MODELS[1]]


@pytest.mark.parametrize(("count", "words"), [(0, "0 items"), (1, "1 item"), (2, "2 items"), (12_000, "12,000 items")])
def test_counts_in_sentences(count: int, words: str) -> None:
    assert counted(count, "item") == words
