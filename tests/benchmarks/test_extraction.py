from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyrepro.benchmarks.extraction import LENIENT, RULES, STRICT, extract, letters


def read(rule: str, text: str, n_options: int = 4, finish_reason: str = "stop") -> str | None:
    return extract(RULES[rule], text, n_options, finish_reason).letter


@pytest.mark.parametrize(
    "text", ["B", " B", "B.", "(B)", "B)", "(B).", "B:", "\n\nB\n", "B\nThe answer is A", "B  \r\nx"]
)
def test_strict_reads_a_first_line_that_is_a_letter(text: str) -> None:
    assert read("strict", text) == "B"
    assert read("lenient", text) in {"B", "A"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b",
        "B is right",
        "The answer is B",
        "**B**",
        "BB",
        "B. The grandson",
        "x\nB",
        "E",
        "ß",
        "\uff22",
        "B,",
        "- B",
    ],
)
def test_strict_reads_nothing_else(text: str) -> None:
    assert read("strict", text) is None


@pytest.mark.parametrize(
    "text",
    [
        "ANSWER: $B$",
        "ANSWER: B",
        "Answer: (B)",
        "answer: **B**",
        "**Answer:** B",
        "**Answer: B**",
        "The answer is (B).",
        "The answer is B because A is wrong.",
        "The correct answer is option B.",
        "the best choice would be B",
        r"So \boxed{B}.",
        r"$\boxed{\text{B}}$",
        r"The answer is $\boxed{B}$",
        "**B**",
        "B. The grandson",
        "B) The grandson",
        "(B) The grandson",
        "B: The grandson",
        "B is right",
        "I would choose B.",
        "I pick option B",
        "A is tempting. Still, the answer is B",
        "Let us see. A and C are out.\nAnswer: B\n",
        "Answer: A\n\nWait, no.\n\nAnswer: B",
        "Answer:\nB",
        "It must be (B), I think",
        "I think it is **B**.",
        "Clearly option B",
        "Answer - B",
        '"B"',
        "`B`",
        "_B_",
    ],
)
def test_lenient_reads_the_stated_letter(text: str) -> None:
    assert read("lenient", text) == "B"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I have no comment",
        "A penny can kill",
        "Answer: A penny dropped from a tower",
        "The answer is A lot of water",
        "The answer is U.S. law",
        "Because of the tilt",
        "answer",
        "The answer is bees",
        "Vitamin C helps",
        "It depends. A person might say so",
    ],
)
def test_lenient_leaves_words_alone(text: str) -> None:
    assert read("lenient", text) is None


def test_a_letter_beyond_the_options_is_unparsed() -> None:
    for rule in RULES.values():
        assert extract(rule, "D", 4, "stop").letter == "D"
        beyond = extract(rule, "D", 3, "stop")
        assert (beyond.letter, beyond.status) == (None, "unparsed")


def test_a_text_cut_at_its_limit_is_truncated_only_where_nothing_was_read() -> None:
    assert extract(STRICT, "The answer is", 4, "length").status == "truncated"
    assert extract(STRICT, "B", 4, "length").status == "ok"
    assert extract(STRICT, "The answer is", 4, None).status == "unparsed"


def test_rules_are_data_that_a_suite_can_run() -> None:
    for rule in RULES.values():
        assert re.compile(rule.pattern).groups == 1
        # A suite that collects all matches gets the one letter, as text.
        assert re.findall(rule.pattern, "Answer: B\nAnswer: C" if rule is LENIENT else "C\nB") == ["C"]


HOSTILE = {
    "one letter": "A" * 1_000_000,
    "spaces": " " * 1_000_000 + "x",
    "newlines": "\n" * 1_000_000,
    "brackets": "(" * 1_000_000,
    "stated": "answer is " * 100_000,
    "stated, bold": "answer:** ** " * 80_000,
    "boxed": "\\boxed{" * 150_000,
    "chosen": "choose option " * 70_000,
    "decorated": "answer: " + "$*_([{" * 160_000,
    "tail": "(" + " " * 999_999 + "B",
    "script": "<script>alert(1)</script>" * 40_000,
    "nul": "\0" * 1_000_000,
    "combining": "e\u0301" * 500_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_megabyte_of_anything_is_read_in_linear_time(name: str) -> None:
    text = HOSTILE[name]
    for rule in ("strict", "lenient"):
        begin = time.perf_counter()
        read(rule, text)
        whole = time.perf_counter() - begin
        # Quadratic time would be some hours for a megabyte; linear is well under a second.
        assert whole < 10


@given(st.text(alphabet=st.sampled_from("AB()*$ \nanswer:is.\\boxed{}"), max_size=60), st.integers(2, 5))
def test_whatever_is_read_is_a_letter_of_the_options_that_stands_in_the_text(text: str, n_options: int) -> None:
    for rule in RULES:
        letter = read(rule, text, n_options)
        assert letter is None or (letter in letters(n_options) and letter in text)


def test_letters() -> None:
    assert letters(3) == ("A", "B", "C")
    with pytest.raises(ValueError, match="27 options"):
        letters(27)
