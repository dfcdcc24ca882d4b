"""Order of two models under several suites."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from safetyrepro.analysis.order import model_order
from safetyrepro.analysis.resampling import Floats


def names(count: int) -> list[str]:
    return [f"c{i:03}" for i in range(count)]


def scores(rng: np.random.Generator, shares: list[float], items: int) -> Floats:
    return (rng.random((len(shares), items)) < np.array(shares)[:, None]).astype(float)


def test_one_suite_is_the_sign_flip_test() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random((1, 30)) + 0.05, rng.random((1, 30))
    order = model_order(np.minimum(a, 1), b, names(30), ["x"])
    exact = stats.permutation_test(
        (np.minimum(a, 1)[0] - b[0],), np.sum, permutation_type="samples", n_resamples=20_000, rng=1
    )
    assert order.suites[0].p == pytest.approx(float(exact.pvalue), abs=0.02)


def test_ten_to_nothing_by_hand() -> None:
    a, b = np.ones((1, 12)), np.ones((1, 12))
    b[0, :10] = 0
    row = model_order(a, b, names(12), ["x"], draws=60_000).suites[0]
    assert row.p == pytest.approx(2 / 2**10, abs=0.0008)
    assert row.p_a == pytest.approx(1 / 2**10, abs=0.0006)
    assert (row.a_better, row.b_better, row.verdict) == (10, 0, "A ahead")
    assert row.difference_points == pytest.approx(100 * 10 / 12)


def test_certified_reversal_needs_both_directions() -> None:
    rng = np.random.default_rng(7)
    order = model_order(scores(rng, [0.8, 0.2], 80), scores(rng, [0.2, 0.8], 80), names(80), ["x", "y"])
    assert [row.verdict for row in order.suites] == ["A ahead", "B ahead"]
    assert order.reversal_p <= 0.001
    assert order.point_reversal
    one_way = model_order(scores(rng, [0.8, 0.45], 80), scores(rng, [0.2, 0.5], 80), names(80), ["x", "y"])
    assert one_way.suites[0].verdict == "A ahead"
    assert one_way.reversal_p > 0.05


def test_swapping_the_models_mirrors_everything() -> None:
    rng = np.random.default_rng(9)
    a, b = scores(rng, [0.7, 0.4], 60), scores(rng, [0.4, 0.5], 60)
    one, other = model_order(a, b, names(60), ["x", "y"]), model_order(b, a, names(60), ["x", "y"])
    assert one.reversal_p == pytest.approx(other.reversal_p, abs=0.02)
    for row, mirror in zip(one.suites, other.suites, strict=True):
        assert row.difference_points == -mirror.difference_points
        assert row.p_a == pytest.approx(mirror.p_b, abs=0.02)


def test_no_order_is_claimed_at_chance() -> None:
    rng = np.random.default_rng(12)
    a, b = scores(rng, [0.8, 0.2], 80), scores(rng, [0.2, 0.8], 80)
    order = model_order(a, b, names(80), ["x", "y"], at_chance=[True, False])
    assert [row.verdict for row in order.suites] == ["not told apart", "B ahead"]
    assert order.reversal_p > 0.05


def test_too_few_discordant_clusters_are_not_testable() -> None:
    a, b = np.ones((1, 40)), np.ones((1, 40))
    b[0, :5] = 0
    row = model_order(a, b, names(40), ["x"]).suites[0]
    assert not row.testable
    assert row.verdict == "not told apart"
    clustered = model_order(np.ones((1, 40)), np.zeros((1, 40)), [f"{i // 10}" for i in range(40)], ["x"])
    assert not clustered.suites[0].testable


def test_family_wise_level_and_false_reversals() -> None:
    rng = np.random.default_rng(15)
    claims = reversals = 0
    for _ in range(300):
        base = rng.random(40)
        order = model_order(
            (rng.random((3, 40)) < base).astype(float),
            (rng.random((3, 40)) < base).astype(float),
            names(40),
            ["x", "y", "z"],
            draws=399,
        )
        claims += any(row.verdict != "not told apart" for row in order.suites)
        reversals += order.reversal_p <= 0.05
    assert claims / 300 <= 0.085
    assert reversals / 300 <= 0.03


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="shapes"):
        model_order(np.ones((1, 3)), np.ones((2, 3)), names(3), ["x"])
    with pytest.raises(ValueError, match="no number"):
        model_order(np.full((1, 3), np.nan), np.ones((1, 3)), names(3), ["x"])
