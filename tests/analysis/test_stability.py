"""rho_flip, orderings and rank agreement on tables whose right values were worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from safetyrepro.analysis.agreement import rank_agreement
from safetyrepro.analysis.cells import common_cells, pair_cells
from safetyrepro.analysis.orderings import orderings
from safetyrepro.analysis.resampling import Floats
from safetyrepro.analysis.stability import FlipRate, flip_rate


def table(ahead: int, behind: int, ties: int = 0, missing: int = 0) -> Floats:
    """Cell scores of two models with so many configurations of each kind, in mixed order."""
    a = [0.6] * ahead + [0.4] * behind + [0.5] * ties + [np.nan] * missing
    b = [0.5] * (ahead + behind + ties) + [0.5] * missing
    order = np.random.default_rng(len(a)).permutation(len(a))
    return np.array([a, b])[:, order]


@pytest.mark.parametrize(
    ("ahead", "behind", "ties", "missing", "flips", "configs"),
    [
        (25, 23, 0, 0, 23, 48),
        (12, 11, 4, 0, 11, 27),
        (24, 21, 3, 0, 21, 48),
        (30, 17, 1, 3, 17, 48),
        (17, 30, 1, 3, 17, 48),
    ],
)
def test_known_counts(ahead: int, behind: int, ties: int, missing: int, flips: int, configs: int) -> None:
    a, b = table(ahead, behind, ties, missing)
    cells = pair_cells(a[:, None], b[:, None])
    rate = flip_rate(cells.difference)
    assert (rate.n_plus, rate.n_minus, rate.n_ties, rate.n_configs) == (ahead, behind, ties, configs)
    assert rate.rho == flips / configs
    assert sum(reason is not None for reason in cells.reasons) == missing


def test_witness_and_no_reversal() -> None:
    rate = flip_rate(np.array([0.1, -0.05, 0.0, np.nan, 0.3, -0.2]))
    assert rate.witness == (4, 5)
    assert rate.strict_reversal
    assert flip_rate(np.array([0.1, 0.0, np.nan])) == FlipRate(1, 0, 1, None)
    assert flip_rate(np.array([np.nan])).rho is None
    assert flip_rate(np.array([1e-13, -0.1])).n_ties == 1


def test_thirds_that_add_up_alike_are_tied() -> None:
    a = np.array([[0.1, 0.2, 0.3, 0.0, 1 / 3, 2 / 3]])
    b = np.array([[0.3, 0.0, 0.1, 0.2, 2 / 3, 1 / 3]])
    assert flip_rate(pair_cells(a, b).difference).n_ties == 1


def test_unequal_items_are_compared_on_shared_ones() -> None:
    nan = np.nan
    a = np.array([[1, 1, 0, 0, 1, 0, nan], [1, 1, nan, nan, nan, nan, nan], [nan] * 7])
    b = np.array([[0, 0, 1, 1, 0, nan, 1], [0, 0, 0, 0, 0, 0, 0], [1] * 7])
    cells = pair_cells(a, b, min_shared=5)
    assert cells.difference[0] == pytest.approx(1 / 5)
    assert cells.n_items.tolist() == [5, 2, 0]
    assert cells.left_out.tolist() == [2, 5, 7]
    assert cells.reasons == (None, "2 shared items, 5 are the least", "a has no score")
    assert pair_cells(a, b, min_shared=2).difference[1] == 1.0
    common = common_cells(np.array([a, b]), min_shared=5)
    assert common[:, 0] == pytest.approx([3 / 5, 2 / 5])
    assert np.isnan(common[:, 1:]).all()


def test_few_items_are_no_reason_where_both_have_the_same() -> None:
    assert pair_cells(np.array([[1.0, 0.0]]), np.array([[0.0, 0.0]])).reasons == (None,)


def test_parity_ranks_by_distance_from_one_half() -> None:
    a, b = np.array([[1.0, 1, 1, 0], [1, 1, 0, 0]]), np.array([[0.0, 0, 0, 0], [1, 0, 0, 0]])
    difference = pair_cells(a, b, kind="parity").difference
    assert difference == pytest.approx([0.5, 0.5])
    mirrored = pair_cells(np.array([[1.0, 1, 1, 0, 0]]), np.array([[0.0, 0, 0, 1, 1]]), kind="parity")
    assert flip_rate(mirrored.difference).n_ties == 1


def test_six_orderings() -> None:
    columns = [np.array(order, dtype=float) for order in itertools.permutations((0.1, 0.2, 0.3))]
    full = np.array([*columns, columns[0], np.array([0.2, 0.2, 0.1]), np.array([np.nan, 0.1, 0.2])]).T
    reached = orderings(full)
    assert (reached.strict, reached.possible, reached.weak, reached.n_configs) == (6, 6, 1, 8)
    core = orderings(np.array(columns[1:]).T)
    assert (core.strict, core.weak) == (5, 0)
    assert reached.counts[0] == (((2,), (1,), (0,)), 2)


def test_tau_against_scipy_with_ties() -> None:
    rng = np.random.default_rng(4)
    cells = rng.integers(0, 4, size=(5, 12)).astype(float)
    cells[:, 3] = 1.0
    expected = [
        stats.kendalltau(cells[:, i], cells[:, j], variant="b").statistic
        for i, j in itertools.combinations(range(12), 2)
    ]
    found = rank_agreement(cells)
    assert found.tau_r == pytest.approx(np.nanmean(expected))
    assert found.undefined == np.isnan(expected).sum() == 11
    assert found.pairs == 66
    assert found.identity is None


def test_tau_identity_without_ties() -> None:
    rng = np.random.default_rng(6)
    cells = rng.random((4, 9))
    found = rank_agreement(cells)
    by_pair = []
    for a, b in itertools.combinations(range(4), 2):
        plus = int((cells[a] > cells[b]).sum())
        by_pair.append(1 - 4 * plus * (9 - plus) / (9 * 8))
    assert found.tau_r == pytest.approx(np.mean(by_pair))
    assert found.identity == pytest.approx(found.tau_r)


def test_the_odd_configuration_is_the_least_representative() -> None:
    cells = np.array([[3.0, 3, 1, 3], [2, 2, 2, 1], [1, 1, 3, 2]])
    found = rank_agreement(cells)
    assert found.least == 2
    assert found.most in (0, 1)
    assert rank_agreement(cells[:, :1]).tau_r is None


cells_of_two = st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=1, max_size=60)


def rate_of(pairs: list[tuple[int, int]]) -> FlipRate:
    values = np.array(pairs, dtype=float)
    return flip_rate(pair_cells(values[:, :1], values[:, 1:]).difference)


@given(cells_of_two)
def test_rho_is_symmetric_and_at_most_one_half(pairs: list[tuple[int, int]]) -> None:
    rate, swapped = rate_of(pairs), rate_of([(b, a) for a, b in pairs])
    assert rate.rho is not None
    assert rate.rho == swapped.rho <= 0.5
    assert (rate.n_plus, rate.n_minus) == (swapped.n_minus, swapped.n_plus)


@given(cells_of_two)
def test_rho_is_zero_exactly_without_a_strict_reversal(pairs: list[tuple[int, int]]) -> None:
    rate = rate_of(pairs)
    ahead, behind = any(a > b for a, b in pairs), any(a < b for a, b in pairs)
    assert (rate.rho == 0) == (not rate.strict_reversal) == (not (ahead and behind))
    assert (rate.witness is None) == (rate.rho == 0)
    if rate.witness is not None:
        plus, minus = (pairs[c] for c in rate.witness)
        assert plus[0] > plus[1]
        assert minus[0] < minus[1]


@given(cells_of_two, st.floats(0.01, 100), st.floats(-1e3, 1e3))
def test_rho_survives_increasing_maps(pairs: list[tuple[int, int]], slope: float, shift: float) -> None:
    for through in (lambda x: slope * x + shift, lambda x: x**3 + x, lambda x: np.exp(x / 10)):
        mapped = np.array([[through(float(a)), through(float(b))] for a, b in pairs])
        rate = flip_rate(pair_cells(mapped[:, :1], mapped[:, 1:]).difference)
        assert (rate.n_plus, rate.n_minus, rate.n_ties) == (
            rate_of(pairs).n_plus,
            rate_of(pairs).n_minus,
            rate_of(pairs).n_ties,
        )
