"""Prompts side by side, and hostile text made visible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyrepro.crosspkg.promptdiff import compare_prompts
from safetyrepro.reports.visible import cleaned, cut, plain, shown


def common(prompts: dict[str, str]) -> dict[str, str]:
    return {
        suite: "|".join(segment.text for segment in segments if segment.common)
        for suite, segments in compare_prompts(prompts).items()
    }


def test_the_question_is_common_and_boilerplate_is_not() -> None:
    found = common(
        {
            "a": "Q: What is life?\nA: 42.\n\nQ: How long is the bridge?\nA:",
            "b": "Question: How long is the bridge?\nA. short\nAnswer:",
            "c": "Do so.\n\nHow long is the bridge?\n",
        }
    )
    assert set(found.values()) == {"How long is the bridge?"}


def test_white_space_that_differs_is_not_common() -> None:
    found = common({"a": "How long is the bridge?", "b": "How long is  the bridge?"})
    assert found == {"a": "How long is|the bridge?", "b": "How long is|the bridge?"}


@given(st.dictionaries(st.sampled_from("abcd"), st.text(max_size=60), min_size=1))
def test_segments_join_to_the_prompt(prompts: dict[str, str]) -> None:
    for suite, segments in compare_prompts(prompts).items():
        assert "".join(segment.text for segment in segments) == prompts[suite]


def test_white_space_and_special_tokens_are_visible() -> None:
    html = str(shown("<|im_start|>user\nhi  there\t<s>"))
    assert '<b class="tok">&lt;|im_start|&gt;</b>' in html
    assert '<b class="tok">&lt;s&gt;</b>' in html
    assert html.count("·") == 2
    assert "⏎" in html
    assert "⇥" in html


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\u200b", "\u0000", "\u001b", "\u2028", "\ufeff", "\u00a0"])
def test_hidden_characters_are_named(character: str) -> None:
    for made in (str(shown(f"a{character}b")), str(cleaned(f"a{character}b")), plain(f"a{character}b")):
        assert character not in made
        assert f"U+{ord(character):04X}" in made


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=80))
def test_no_text_opens_a_tag(text: str) -> None:
    for made in (str(shown(text)), str(cleaned(text)), str(cut(text, len(text), longest=20))):
        for allowed in ("<i>", "</i>", "<wbr>", '<b class="tok">', "</b>", '<span class="cut">', "</span>"):
            made = made.replace(allowed, "")
        assert "<" not in made.replace('<b class="hid" title="', "")


def test_long_text_is_cut_with_its_length() -> None:
    assert "first 600 of 1,000,000 characters" in str(cut("x" * 1_000_000, 1_000_000))
    assert "last 10 of 20 characters" in str(cut("x" * 20, 20, keep="end", longest=10))
    assert "characters" not in str(cut("short", 5))
