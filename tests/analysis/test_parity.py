"""Parity of a share: by hand, against brute force, and its level and coverage by simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from safetyrepro.analysis.aggregate import cell_score, folded, folded_difference, parity_parts
from safetyrepro.analysis.mean import mean_score
from safetyrepro.analysis.order import model_order
from safetyrepro.analysis.resampling import Floats
from safetyrepro.analysis.simultaneous import difference_bands
from safetyrepro.analysis.spread import suite_spread


def names(count: int) -> list[str]:
    return [f"c{i:03}" for i in range(count)]


def draw(rng: np.random.Generator, shares: list[float], items: int) -> Floats:
    return (rng.random((len(shares), items)) < np.array(shares)[:, None]).astype(float)


def test_parity_by_hand() -> None:
    # 3 of 10 pairs prefer the less stereotyping sentence: p = 0.7, parity 1 - |1.4 - 1| = 0.6.
    mean = mean_score([1.0] * 3 + [0.0] * 7, names(10), aggregate="parity")
    assert mean.score == pytest.approx(0.6)
    assert mean.item_mean == pytest.approx(0.3)
    assert mean.other_share is not None
    share, interval = mean.other_share
    assert share == pytest.approx(0.7)
    assert mean.item_ci is not None
    assert interval == pytest.approx((1 - mean.item_ci[1], 1 - mean.item_ci[0]))
    assert mean.score_over_all is None
    plain = mean_score([1.0] * 3 + [0.0] * 7, names(10))
    assert plain.ci == mean.item_ci
    assert plain.other_share is None
    for score, expected in ((0.0, 0.0), (1.0, 0.0), (0.5, 1.0), (0.25, 0.5), (0.75, 0.5)):
        assert cell_score("parity", score) == pytest.approx(expected)
    nothing = mean_score([None], ["a"], aggregate="parity")
    assert (nothing.score, nothing.ci, nothing.other_share) == (None, None, None)


def test_an_interval_is_folded_at_an_even_split() -> None:
    assert folded("parity", (0.4, 0.55)) == pytest.approx((0.8, 1.0))
    assert folded("parity", (0.1, 0.3)) == pytest.approx((0.2, 0.6))
    assert folded("parity", (0.8, 0.9)) == pytest.approx((0.2, 0.4))
    assert folded("mean", (0.4, 0.55)) == (0.4, 0.55)


def test_a_fair_model_is_never_told_from_a_coin() -> None:
    even = mean_score([1.0, 0.0] * 30, names(60), aggregate="parity")
    assert even.score == 1.0
    assert even.holds(1.0)
    one_sided = mean_score([0.0] * 60, names(60), aggregate="parity")
    assert one_sided.score == 0.0
    assert not one_sided.holds(1.0)
    assert one_sided.ci == pytest.approx((0.0, 2 * (1 - 0.05 ** (1 / 60))))


def test_differences_are_their_parts() -> None:
    rng = np.random.default_rng(3)
    for a, b in rng.random((200, 2)):
        u, w = parity_parts(np.array([a]), np.array([b]))
        difference = cell_score("parity", a) - cell_score("parity", b)
        assert abs(u[0] + w[0]) - abs(u[0] - w[0]) == pytest.approx(difference)
        assert np.sign(u[0] * w[0]) == np.sign(difference)


def test_what_two_intervals_reach_is_found_by_brute_force() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        u, w = sorted(rng.uniform(-0.5, 0.5, 2)), sorted(rng.uniform(-0.5, 0.5, 2))
        grid = [abs(x + y) - abs(x - y) for x, y in itertools.product(np.linspace(*u, 60), np.linspace(*w, 60))]
        assert folded_difference((u[0], u[1]), (w[0], w[1])) == pytest.approx((min(grid), max(grid)))
    assert folded_difference((-0.6, 0.6), (-0.9, 0.9)) == (-1.0, 1.0)


def test_far_from_the_fold_the_interval_is_twice_that_of_the_means() -> None:
    scores = draw(np.random.default_rng(9), [0.15, 0.3], 300)
    means = difference_bands(scores[:1], scores[1:], names(300))
    parity = difference_bands(scores[:1], scores[1:], names(300), aggregate="parity")
    assert means is not None
    assert parity is not None
    low, high = (2 * end for end in means[0])
    assert parity[0][0] <= low
    assert parity[0][1] >= high
    assert parity[0] == pytest.approx((low, high), abs=0.06)


def test_opposite_preferences_have_no_spread_of_parity() -> None:
    scores = np.zeros((2, 20))
    scores[0, :6], scores[1, 6:] = 1.0, 1.0
    spread = suite_spread(scores, names(20), ["x", "y"], aggregate="parity")
    assert spread.scores == pytest.approx((0.6, 0.6))
    assert spread.points == pytest.approx(0.0)
    pair = spread.pairs[0]
    assert (pair.difference_points, pair.discordant) == (pytest.approx(0.0), 20)
    assert suite_spread(scores, names(20), ["x", "y"]).points == pytest.approx(40.0)


def test_spread_by_hand_and_its_null_by_enumeration() -> None:
    scores = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0]], dtype=float)
    spread = suite_spread(scores, names(6), ["x", "y"], aggregate="parity", draws=40_000)
    # Parity 1 against 1 - |2 / 6 - 1| = 1 / 3.
    assert spread.points == pytest.approx(100 * 2 / 3)
    exact = []
    for swap in itertools.product((0, 1), repeat=2):
        x, y = 1 + sum(1 - s for s in swap), 1 + sum(swap)
        exact.append(100 * abs(abs(2 * x / 6 - 1) - abs(2 * y / 6 - 1)))
    assert spread.null_mean == pytest.approx(float(np.mean(exact)), abs=0.5)
    assert spread.p == pytest.approx(np.mean(np.array(exact) >= 100 * 2 / 3 - 1e-9), abs=0.01)


def test_order_goes_by_distance_from_an_even_split() -> None:
    rng = np.random.default_rng(7)
    fair, less, more = draw(rng, [0.5], 200), draw(rng, [0.9], 200), draw(rng, [0.1], 200)
    for other in (less, more):
        row = model_order(fair, other, names(200), ["x"], aggregate="parity").suites[0]
        assert row.verdict == "A ahead"
        mirrored = model_order(other, fair, names(200), ["x"], aggregate="parity").suites[0]
        assert mirrored.verdict == "B ahead"
        assert (row.p_a, row.p_b) == pytest.approx((mirrored.p_b, mirrored.p_a), abs=0.01)
        assert row.difference_points == pytest.approx(-mirrored.difference_points)
    # The mean tells these apart with certainty; as parities they are equal.
    alike = model_order(less, more, names(200), ["x"], aggregate="parity").suites[0]
    assert alike.verdict == "not told apart"
    assert model_order(less, more, names(200), ["x"]).suites[0].verdict == "A ahead"


def test_few_or_equal_pairs_are_not_testable() -> None:
    few = model_order(np.ones((1, 5)), np.zeros((1, 5)), names(5), ["x"], aggregate="parity").suites[0]
    assert (few.testable, few.verdict) == (False, "not told apart")
    same = draw(np.random.default_rng(1), [0.4], 40)
    equal = model_order(same, same, names(40), ["x"], aggregate="parity").suites[0]
    assert (equal.difference_points, equal.testable, equal.p) == (0.0, False, 1.0)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (0.3, 0.7), (0.45, 0.55), (0.4, 0.4)])
def test_level_where_two_parities_are_equal(a: float, b: float) -> None:
    rng = np.random.default_rng(12)
    ahead = covered = 0
    for _ in range(120):
        order = model_order(draw(rng, [a], 120), draw(rng, [b], 120), names(120), ["x"], aggregate="parity", draws=299)
        row = order.suites[0]
        ahead += row.p_a <= 0.05
        assert row.ci_points is not None
        covered += row.ci_points[0] <= 1e-9 and row.ci_points[1] >= -1e-9
    assert ahead / 120 <= 0.10
    assert covered / 120 >= 0.92


@pytest.mark.parametrize("share", [0.5, 0.55, 0.8])
def test_interval_covers(share: float) -> None:
    rng = np.random.default_rng(31)
    truth = cell_score("parity", share)
    held = sum(
        mean_score(draw(rng, [share], 60)[0].tolist(), names(60), aggregate="parity", draws=499).holds(truth)
        for _ in range(200)
    )
    assert held / 200 >= 0.92
