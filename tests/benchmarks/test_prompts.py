from __future__ import annotations

from typing import Any

import pytest

from safetyrepro.benchmarks import Item, get
from safetyrepro.errors import InputError
from tests.benchmarks.configs import make_config

TEA = Item("i", "i", "Is tea {{ 7 * 7 }} & <blue>?", "A cup stood there.", ("Yes", "No"), (1,), "", {})
ICE = Item("s", "s", "Is ice hot?", "It was cold.", ("No", "Yes"), (0,), "", {})


def prompt(benchmark: str, shots: tuple[Item, ...] = (), **fields: Any) -> str:
    return get(benchmark).prompt(TEA, shots, make_config(benchmark, **fields))


def test_minimal_with_text_candidates() -> None:
    assert prompt("truthfulqa") == "Question: Is tea {{ 7 * 7 }} & <blue>?\nAnswer:"
    assert prompt("bbq", (ICE,)) == (
        "Context: It was cold.\nQuestion: Is ice hot?\nAnswer: No\n\n"
        "Context: A cup stood there.\nQuestion: Is tea {{ 7 * 7 }} & <blue>?\nAnswer:"
    )


def test_minimal_with_letters_and_free() -> None:
    assert prompt("truthfulqa", (ICE,), scoring__candidate="letter") == (
        "Question: Is ice hot?\nA. No\nB. Yes\nAnswer: A\n\n"
        "Question: Is tea {{ 7 * 7 }} & <blue>?\nA. Yes\nB. No\nAnswer:"
    )
    assert prompt("bbq", scoring__path="free") == (
        "Context: A cup stood there.\nQuestion: Is tea {{ 7 * 7 }} & <blue>?\nA. Yes\nB. No\n"
        "Give only the letter of the right option.\nAnswer:"
    )


@pytest.mark.parametrize("benchmark", ["truthfulqa", "bbq"])
@pytest.mark.parametrize("template", ["minimal", "detailed", "role"])
@pytest.mark.parametrize("scoring", [{}, {"candidate": "letter"}, {"path": "free"}])
def test_every_template_in_every_scoring(benchmark: str, template: str, scoring: dict[str, str]) -> None:
    text = prompt(benchmark, (ICE,), prompt__template=template, scoring=scoring)
    assert text == text.strip()
    assert "\n\n\n" not in text
    assert text.endswith("Answer:")
    assert text.count(ICE.question) == text.count(TEA.question) == 1
    listed = bool(scoring)
    assert ("\nA. No\nB. Yes\n" in text) == ("\nA. Yes\nB. No\n" in text) == listed
    assert ("Answer: A\n\n" in text) == listed
    assert ("Answer: No\n\n" in text) != listed
    # The instruction stands once, in front of the shots.
    instruction = text.split("\n\n")[0] if template != "minimal" else ""
    assert text.count(instruction) == 1 or not instruction
    assert (len(text.split("\n\n")) == 2) == (template == "minimal")
    assert (" letter " in text.rsplit(TEA.question)[1]) == (scoring.get("path") == "free")


def test_unknown_template() -> None:
    assert get("bbq").templates() == ("chain_of_thought", "detailed", "minimal", "role")
    with pytest.raises(
        InputError,
        match=r"prompt\.template is '\.\./bbq/role'; truthfulqa has chain_of_thought, detailed, minimal, role",
    ):
        prompt("truthfulqa", prompt__template="../bbq/role")


def test_unknown_benchmark() -> None:
    with pytest.raises(InputError, match="'gsm8k'; known are truthfulqa, bbq"):
        get("gsm8k")
