"""Spread between suites: its null by full enumeration, its level by simulation, its pairs against Student's t."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from scipy import stats

from safetyrepro.analysis.spread import permuted_spreads, suite_spread


def names(count: int) -> list[str]:
    return [f"c{i:03}" for i in range(count)]


def test_hand_worked_spread_and_pairs() -> None:
    scores = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 1, 1]], dtype=float)
    spread = suite_spread(scores, names(4), ["x", "y", "z"])
    assert spread.scores == (0.5, 0.25, 0.75)
    assert spread.points == 50.0
    pair = next(p for p in spread.pairs if (p.a, p.b) == ("x", "z"))
    assert (pair.difference_points, pair.discordant, pair.a_higher, pair.b_higher) == (-25.0, 3, 1, 2)


def test_null_is_that_of_full_enumeration() -> None:
    sums = np.array([[1, 1, 0, 0, 2], [1, 0, 0, 1, 0], [0, 1, 1, 0, 0]], dtype=float)
    orders = list(itertools.permutations(range(3)))
    exact = [
        np.ptp(sum(sums[list(order), column] for column, order in enumerate(chosen)))
        for chosen in itertools.product(orders, repeat=5)
    ]
    drawn = permuted_spreads(sums, 20_000, 3)
    assert drawn.mean() == pytest.approx(np.mean(exact), abs=0.03)
    for value in set(exact):
        assert (drawn >= value).mean() == pytest.approx((np.array(exact) >= value).mean(), abs=0.015)


def test_two_suites_give_the_exact_sign_test() -> None:
    scores = np.zeros((2, 12))
    scores[0, :8] = 1.0
    spread = suite_spread(scores, names(12), ["x", "y"], draws=40_000)
    assert spread.p == pytest.approx(stats.binomtest(8, 8).pvalue, abs=0.002)


def test_clusters_move_whole() -> None:
    scores = np.zeros((2, 12))
    scores[0, :8] = 1.0
    spread = suite_spread(scores, ["a"] * 8 + ["b"] * 4, ["x", "y"])
    assert spread.p == 1.0
    assert spread.n_clusters == 2


def test_equal_suites_show_a_positive_spread_that_the_null_expects() -> None:
    draw = np.random.default_rng(2)
    spreads = [
        suite_spread((draw.random((4, 24)) < 0.4).astype(float), names(24), list("abcd"), draws=499) for _ in range(60)
    ]
    assert np.mean([spread.points for spread in spreads]) > 10
    assert np.mean([spread.null_mean for spread in spreads]) == pytest.approx(
        np.mean([spread.points for spread in spreads]), rel=0.25
    )


def test_level_under_equal_suites() -> None:
    draw = np.random.default_rng(8)
    p_values = [
        suite_spread((draw.random((3, 30)) < draw.random(30)).astype(float), names(30), list("abc"), draws=399).p
        for _ in range(300)
    ]
    assert np.mean(np.array(p_values) <= 0.05) <= 0.085
    assert np.mean(np.array(p_values) <= 0.5) == pytest.approx(0.45, abs=0.12)


def test_pairwise_intervals_hold_together() -> None:
    draw = np.random.default_rng(21)
    shares = np.array([0.3, 0.4, 0.6])
    truth = {("a", "b"): -10.0, ("a", "c"): -30.0, ("b", "c"): -20.0}
    held = spread_held = 0
    for _ in range(250):
        scores = (draw.random((3, 50)) < shares[:, None]).astype(float)
        spread = suite_spread(scores, names(50), list("abc"), draws=499)
        held += all(
            p.ci_points is not None and p.ci_points[0] <= truth[p.a, p.b] <= p.ci_points[1] for p in spread.pairs
        )
        spread_held += spread.ci_points is not None and spread.ci_points[0] <= 30 <= spread.ci_points[1]
    assert 0.91 <= held / 250 <= 0.995
    assert spread_held / 250 >= 0.93


def test_one_pair_is_students_interval() -> None:
    draw = np.random.default_rng(4)
    scores = draw.random((2, 40))
    spread = suite_spread(scores, names(40), ["x", "y"])
    difference = scores[0] - scores[1]
    student = stats.ttest_1samp(difference, 0).confidence_interval(0.95)
    assert spread.pairs[0].ci_points == pytest.approx((100 * student.low, 100 * student.high), abs=1.5)


def test_suites_alike_on_every_item_keep_a_width() -> None:
    scores = np.tile((np.arange(24) % 2).astype(float), (4, 1))
    spread = suite_spread(scores, names(24), list("abcd"))
    assert (spread.points, spread.p, spread.null_q95) == (0.0, 1.0, 0.0)
    assert spread.ci_points == pytest.approx((0.0, 100 * (1 - 0.05 ** (1 / 24))))


def test_interval_and_test_never_contradict() -> None:
    draw = np.random.default_rng(6)
    for _ in range(60):
        spread = suite_spread((draw.random((3, 16)) < 0.4).astype(float), names(16), list("abc"), draws=299)
        assert spread.ci_points is not None
        if spread.p > 0.05:
            assert spread.ci_points[0] == 0


def test_missing_entries_are_refused() -> None:
    with pytest.raises(ValueError, match="no number"):
        suite_spread(np.array([[1.0, np.nan], [0.0, 1.0]]), names(2), ["x", "y"])
    with pytest.raises(ValueError, match="shape"):
        suite_spread(np.array([[1.0, 0.0]]), names(2), ["x"])


def test_two_hundred_items_and_four_suites_are_quick() -> None:
    scores = (np.random.default_rng(1).random((4, 200)) < 0.4).astype(float)
    start = time.process_time()
    suite_spread(scores, names(200), list("abcd"))
    assert time.process_time() - start < 5
