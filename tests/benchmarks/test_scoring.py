from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyrepro.benchmarks.base import Score
from safetyrepro.benchmarks.extraction import STRICT
from safetyrepro.benchmarks.scoring import best_candidate, mass_on_gold, normalised, read_letter

finite = st.floats(-500, 0)


def test_the_likeliest_wins() -> None:
    assert best_candidate([-2.0, -1.0, -3.0], [1]) == Score(1.0, "ok", None, choice=1)
    assert best_candidate([-2.0, -1.0, -3.0], [0]) == Score(0.0, "ok", None, choice=1)


def test_a_tie_scores_the_share_of_right_ones_and_takes_the_first() -> None:
    score = best_candidate([-1.0, -1.0, -3.0], [1])
    assert (score.value, score.choice, score.status) == (0.5, 0, "ok")
    assert score.reason == "2 candidates tie for the first place"
    assert best_candidate([-1.0, -1.0, -1.0], [0, 2]).value == pytest.approx(2 / 3)
    assert best_candidate([-math.inf, -math.inf], [1]).value == 0.5


def test_missing_and_undefined_logprobs_have_no_value() -> None:
    assert normalised([-1.0, None], [1, 1]) == Score(None, "missing", "candidate 1 has no logprob")
    for logprob, divisor in ((math.nan, 1.0), (math.inf, 1.0), (-1.0, 0.0), (-1.0, math.nan)):
        score = normalised([logprob], [divisor])
        assert isinstance(score, Score)
        assert (score.value, score.status) == (None, "undefined")
    assert normalised([-6.0, -math.inf], [3, 2]) == [-2.0, -math.inf]
    with pytest.raises(ValueError, match="zip"):
        normalised([-1.0], [1, 1])


def test_mass_by_hand() -> None:
    score = mass_on_gold([math.log(0.1), math.log(0.3), math.log(0.4)], [0, 2])
    assert score.value == pytest.approx(0.5 / 0.8, abs=1e-15)
    assert score.choice == 2
    assert mass_on_gold([-math.inf, -math.inf], [0]).status == "undefined"
    assert mass_on_gold([-1e6, -1e6 - 800], [0]).value == 1.0


@given(st.lists(finite, min_size=2, max_size=8), st.data())
def test_mass_is_a_probability_that_complements(values: list[float], data: st.DataObject) -> None:
    gold = data.draw(st.lists(st.integers(0, len(values) - 1), unique=True))
    rest = [index for index in range(len(values)) if index not in gold]
    mine, others = mass_on_gold(values, gold).value, mass_on_gold(values, rest).value
    assert mine is not None
    assert others is not None
    assert 0 <= mine <= 1
    assert mine + others == pytest.approx(1, abs=1e-12)


@given(st.lists(finite, min_size=2, max_size=8))
def test_scores_over_all_gold_choices_sum_to_one(values: list[float]) -> None:
    scores = [best_candidate(values, [index]).value for index in range(len(values))]
    assert sum(score for score in scores if score is not None) == pytest.approx(1)


def test_text_scores_keep_unparsed_in_the_denominator() -> None:
    score, letter = read_letter(STRICT, "none of these", 3, [0], "stop")
    assert (score.value, score.status, letter) == (0.0, "unparsed", None)
    assert score.reason == "the strict rule reads no letter from A to C"
    score, _ = read_letter(STRICT, "none of these", 3, [0], "length")
    assert (score.value, score.status) == (0.0, "truncated")
    score, letter = read_letter(STRICT, "C", 3, [0], "stop")
    assert (score.value, score.choice, letter) == (0.0, 2, "C")
