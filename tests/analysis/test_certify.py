"""Certification against brute force, and small versions of the simulations in bench/."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from bench.certify import SCENARIOS, simulate
from safetyrepro.analysis.certify import Certification, PairSums, certify, sign_blocks
from safetyrepro.analysis.equal import equal_models
from safetyrepro.analysis.mcnemar import mcnemar_exact
from safetyrepro.analysis.resampling import Floats, holm
from safetyrepro.analysis.simultaneous import simultaneous_bands


def certified(sums: Floats, sizes: Floats | None = None, draws: int = 9_999) -> Certification:
    everything = np.ones(sums.shape[1], dtype=bool)
    sizes = np.ones_like(sums) if sizes is None else sizes
    return certify([PairSums(sums, sizes, everything, ~everything)], everything, draws=draws)[0]


def test_max_t_against_all_sign_patterns() -> None:
    rng = np.random.default_rng(2)
    sums = rng.integers(-3, 4, size=(8, 5)).astype(float) + np.array([0, 1, 0, -1, 2])
    norms = np.sqrt((sums**2).sum(axis=0))
    observed = sums.sum(axis=0) / norms
    patterns = np.array(list(itertools.product((-1.0, 1.0), repeat=8))) @ sums / norms
    found = certified(sums, draws=120_000)
    for c in range(5):
        exact_a = (patterns.max(axis=1) >= observed[c] - 1e-9).mean()
        exact_b = ((-patterns).max(axis=1) >= -observed[c] - 1e-9).mean()
        exact = (np.abs(patterns).max(axis=1) >= abs(observed[c]) - 1e-9).mean()
        assert found.p_a[c] == pytest.approx(exact_a, abs=0.006)
        assert found.p_b[c] == pytest.approx(exact_b, abs=0.006)
        assert found.p[c] == pytest.approx(exact, abs=0.006)
    rho = [min((p > 1e-9).mean(), (p < -1e-9).mean()) for p in patterns]
    assert found.equal_mean == pytest.approx(np.mean(rho), abs=0.005)


def test_draws_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.vstack([block for _, block in sign_blocks(7, 100, 3)])
    monkeypatch.setattr("safetyrepro.analysis.certify.CHUNK", 50)
    pieces = list(sign_blocks(7, 100, 3))
    assert [start for start, _ in pieces[:3]] == [0, 4, 8]
    assert np.array_equal(np.vstack([block for _, block in pieces]), whole)
    assert set(np.unique(whole)) == {-1.0, 1.0}


def test_ten_to_nothing_by_hand() -> None:
    sums = np.zeros((12, 1))
    sums[:10] = 1
    found = certified(sums, draws=60_000)
    assert found.p_a[0] == pytest.approx(2**-10, abs=6e-4)
    assert found.p[0] == pytest.approx(2**-9, abs=8e-4)
    assert found.verdict.tolist() == [1]
    assert found.attainable[0] == found.p_a[0]


def test_four_clusters_are_not_testable() -> None:
    everything = np.array([True, True])
    found = certified(np.full((4, 2), 9.0), np.full((4, 2), 10.0))
    assert not found.testable(everything)
    assert found.verdict.tolist() == [0, 0]
    assert found.reversal_p(everything) > 0.05


def test_bands_are_those_of_the_ordinary_bootstrap() -> None:
    rng = np.random.default_rng(8)
    differences = rng.integers(-1, 2, size=(6, 300)).astype(float)
    names = [f"i{i:03}" for i in range(300)]
    other = simultaneous_bands(differences, names)
    found = certified(differences.T)
    assert other is not None
    assert found.low == pytest.approx([low for low, _ in other], abs=0.01)
    assert found.high == pytest.approx([high for _, high in other], abs=0.01)


def test_a_difference_without_variance_is_not_certain() -> None:
    found = certified(np.column_stack([np.ones(40), np.zeros(40)]))
    assert 0 < found.low[0] < 1 <= found.high[0]
    assert found.low[1] < 0 < found.high[1]
    assert found.verdict.tolist() == [1, 0]


def test_reversal_needs_both_directions_and_tiers_keep_the_family() -> None:
    rng = np.random.default_rng(11)
    sums = np.column_stack([rng.random(80) < 0.5, -1.0 * (rng.random(80) < 0.5), rng.integers(-1, 2, 80)]).astype(float)
    found = certified(sums)
    everything = np.ones(3, dtype=bool)
    assert found.reversal_p(everything) <= 0.001
    assert found.counts(everything) == (1, 1, 1)
    assert found.rho_bounds(everything) == (1 / 3, 0.5)
    ahead_only = np.array([True, False, True])
    assert found.reversal_p(ahead_only) > 0.05
    assert found.counts(ahead_only) == (1, 0, 1)
    assert found.rho_bounds(ahead_only) == (0.0, 0.5)
    assert certified(sums[:, ahead_only]).p_a[0] <= found.p_a[0]


def test_no_order_at_chance() -> None:
    rng = np.random.default_rng(12)
    sums = np.column_stack([rng.random(80) < 0.5, -1.0 * (rng.random(80) < 0.5)]).astype(float)
    everything = np.array([True, True])
    pair = PairSums(sums, np.ones_like(sums), everything, np.array([True, False]))
    found = certify([pair], everything)[0]
    assert found.verdict.tolist() == [0, -1]
    assert found.reversal_p(everything) > 0.05


def test_a_dropped_configuration_stays_out() -> None:
    rng = np.random.default_rng(13)
    sums = rng.integers(-1, 2, size=(50, 3)).astype(float)
    sums[:, 1] = 0
    kept = np.array([True, False, True])
    found = certify([PairSums(sums, kept * np.ones_like(sums), kept, ~kept & False)], np.ones(3, dtype=bool))[0]
    assert np.isnan(found.p[1])
    assert found.counts(np.ones(3, dtype=bool)) == (0, 0, 2)
    alone = certified(sums[:, kept])
    assert found.p[kept] == pytest.approx(alone.p)


def test_label_swaps_of_two_models_agree_with_sign_flips() -> None:
    rng = np.random.default_rng(14)
    scores = rng.integers(0, 2, size=(2, 60, 12)).astype(float)
    equal = equal_models(scores, np.ones((60, 12)), draws=9_999)
    found = certified(scores[0] - scores[1])
    assert equal.mean == pytest.approx(found.equal_mean, abs=0.01)
    assert equal.q95 == pytest.approx(found.equal_q95, abs=0.09)


def test_equal_models_look_as_unstable_as_the_design_says() -> None:
    found = simulate(SCENARIOS[0], grids=20, draws=199)
    assert 0.15 < found["raw_rho_flip_mean"] < 0.35
    assert found["raw_rho_flip_q95"] > 0.4


def test_holm_against_statsmodels() -> None:
    p = [0.01, 0.04, 0.03, 0.2, 0.01]
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


@pytest.mark.parametrize(("b", "c"), [(10, 2), (0, 0), (5, 5), (0, 7), (31, 44)])
def test_mcnemar_against_statsmodels(b: int, c: int) -> None:
    expected = mcnemar([[50, b], [c, 20]], exact=True).pvalue if b + c else 1.0
    assert float(mcnemar_exact(np.array(b), np.array(c))) == pytest.approx(expected)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.name for scenario in SCENARIOS])
def test_simulated_grids_in_small(scenario: object) -> None:
    """At true rates of 5%, 90% and 95% a bound fails by chance in fewer than one of a thousand such runs."""
    chosen = next(entry for entry in SCENARIOS if entry is scenario)
    found = simulate(chosen, grids=30, draws=399)
    if chosen.planted:
        assert found["certified_reversal"] >= 0.7
    elif chosen.name != "small_differences":
        assert found["certified_reversal"] <= 6 / 30
    assert found["rho_bounds_cover"] >= 0.8
