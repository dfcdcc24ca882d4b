"""A suite's spread over its repeats against figures worked out by hand, and how often equal suites lie inside it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from safetyrepro.analysis.repeats import within_spread, within_verdict
from safetyrepro.analysis.resampling import Floats

HAND = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
STEADY = np.array([[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]])


def test_scores_spread_items_and_variance_by_hand() -> None:
    within = within_spread(HAND)
    assert within.scores == (0.5, 0.25)
    assert within.points == 25.0
    assert within.changed == (1,)
    # One item of four varies by 1/2 over two repeats: 1/2 / (2 * 4^2).
    assert within.variance == pytest.approx(0.5 / 32)


def test_a_parity_moves_by_at_most_twice_its_share() -> None:
    within = within_spread(HAND, aggregate="parity")
    assert within.scores == (1.0, 0.5)
    assert within.points == 50.0
    assert within.variance == pytest.approx(4 * 0.5 / 32)


@pytest.mark.parametrize(("points", "inside"), [(24.9, True), (-25.0, True), (25.1, False)])
def test_a_difference_no_larger_than_one_suites_own_is_inside(points: float, inside: bool) -> None:
    verdict = within_verdict(points, within_spread(HAND), within_spread(STEADY))
    assert verdict.points == 25.0
    assert verdict.noise_points == pytest.approx(100 * 1.959964 * math.sqrt(0.5 / 32), abs=1e-3)
    assert verdict.inside is inside


def test_steady_suites_leave_every_difference_outside() -> None:
    verdict = within_verdict(0.5, within_spread(STEADY), within_spread(STEADY))
    assert (verdict.points, verdict.noise_points, verdict.inside) == (0.0, 0.0, False)


def test_repeats_that_happen_to_score_alike_are_no_proof_of_steadiness() -> None:
    swapped = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    verdict = within_verdict(10.0, within_spread(swapped), within_spread(STEADY))
    assert verdict.points == 0.0
    assert verdict.inside


def test_more_comparisons_widen_what_running_again_may_do() -> None:
    one, six = (within_verdict(1.0, within_spread(HAND), comparisons=count) for count in (1, 6))
    assert six.noise_points > one.noise_points


def sampled(rng: np.random.Generator, chances: Floats, repeats: int = 3) -> Floats:
    return (rng.random((repeats, len(chances))) < chances).astype(np.float64)


def test_equal_suites_lie_inside_and_unlike_ones_do_not() -> None:
    rng = np.random.default_rng(5)
    chances = rng.random(100)
    inside = {"equal": 0, "unlike": 0}
    for _ in range(300):
        a, b = sampled(rng, chances), sampled(rng, chances)
        worse = sampled(rng, chances * 0.5)
        for name, other in (("equal", b), ("unlike", worse)):
            gap = 100 * float(a.mean() - other.mean())
            inside[name] += within_verdict(gap, within_spread(a), within_spread(other)).inside
    assert inside["equal"] >= 0.95 * 300
    assert inside["unlike"] <= 0.01 * 300


@pytest.mark.parametrize(
    "scores",
    [np.ones((1, 3)), np.ones((2, 0)), np.array([[1.0, np.nan], [1.0, 0.0]]), np.ones(3)],
    ids=["one repeat", "no item", "no number", "no matrix"],
)
def test_what_has_no_spread_is_refused(scores: Floats) -> None:
    with pytest.raises(ValueError, match="shape"):
        within_spread(scores)


def test_without_a_repeat_there_is_no_verdict() -> None:
    with pytest.raises(ValueError, match="repeat"):
        within_verdict(1.0)
