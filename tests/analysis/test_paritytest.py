"""Which model is nearer to parity: the reduction to two means, its band, and its level at the corner."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyrepro.analysis.aggregate import aggregated
from safetyrepro.analysis.cells import masked_sums
from safetyrepro.analysis.certify import Certification, PairSums, certify
from safetyrepro.analysis.paritytest import _farthest_opposite
from safetyrepro.analysis.resampling import Floats


def certified(a: Floats, b: Floats) -> Certification:
    names = tuple(f"i{i:04}" for i in range(a.shape[1]))
    sums, sizes = masked_sums(a - b, names)
    everything = np.ones(len(a), dtype=bool)
    total, _ = masked_sums(a + b - 1, names)
    return certify([PairSums(sums, sizes, everything, ~everything, total)], everything)[0]


@given(st.floats(0, 1), st.floats(0, 1))
def test_parity_difference_is_twice_the_smaller_mean(p_a: float, p_b: float) -> None:
    u, v = p_a - p_b, p_a + p_b - 1
    expected = -2 * np.sign(u * v) * min(abs(u), abs(v))
    found = aggregated("parity", np.array([p_a, p_b]))
    assert found[0] - found[1] == pytest.approx(expected, abs=1e-9)


def test_the_box_holds_every_parity_difference_in_it() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        low_u, low_v = rng.uniform(-0.5, 0.3, 2)
        high_u, high_v = low_u + rng.uniform(0, 0.4), low_v + rng.uniform(0, 0.4)
        u, v = np.meshgrid(np.linspace(low_u, high_u, 80), np.linspace(low_v, high_v, 80))
        values = -2 * np.sign(u * v) * np.minimum(abs(u), abs(v))
        high = float(_farthest_opposite(*(np.array([x]) for x in (low_u, high_u, low_v, high_v)))[0])
        low = -float(_farthest_opposite(*(np.array([x]) for x in (-high_u, -low_u, low_v, high_v)))[0])
        assert values.max() <= high + 1e-9
        assert high == pytest.approx(values.max(), abs=0.03)
        assert values.min() >= low - 1e-9
        assert low == pytest.approx(values.min(), abs=0.03)


def test_band_and_verdict_on_either_side_of_one_half() -> None:
    rng = np.random.default_rng(5)
    a = (rng.random((2, 400)) < np.array([[0.5], [0.3]])).astype(float)
    b = (rng.random((2, 400)) < np.array([[0.8], [0.5]])).astype(float)
    found = certified(a, b)
    assert found.verdict.tolist() == [1, -1]
    assert found.low[0] > 0 > found.high[1]
    difference = aggregated("parity", a.mean(axis=1)) - aggregated("parity", b.mean(axis=1))
    assert (found.low < difference).all()
    assert (difference < found.high).all()
    assert found.reversal_p(np.array([True, True])) <= 0.05


def test_mirrored_models_are_not_told_apart() -> None:
    rng = np.random.default_rng(6)
    a, b = (rng.random((1, 2_000)) < 0.8).astype(float), (rng.random((1, 2_000)) < 0.2).astype(float)
    found = certified(a, b)
    assert found.verdict.tolist() == [0]
    assert found.low[0] < 0 < found.high[0]


def test_always_against_never_has_the_same_parity() -> None:
    found = certified(np.ones((1, 100)), np.zeros((1, 100)))
    assert found.verdict.tolist() == [0]
