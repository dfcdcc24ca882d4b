"""What all intervals and tests share, against other libraries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from safetyrepro.analysis.resampling import (
    alike_slack,
    bootstrap_counts,
    cluster_sums,
    expansion,
    holm,
    random_p,
    sign_flips,
)


def test_cluster_sums_by_hand() -> None:
    sums, sizes = cluster_sums(np.array([[1.0, 2.0, 4.0], [0.0, 1.0, 0.0]]), ["b", "a", "b"])
    assert sums.tolist() == [[2.0, 5.0], [1.0, 0.0]]
    assert sizes.tolist() == [1.0, 2.0]


def test_holm_agrees_with_statsmodels() -> None:
    p_values = [0.04, 0.001, 0.03, 0.9, 0.02]
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())
    assert holm([]) == ()


def test_random_p_is_never_zero() -> None:
    assert random_p(0, 9_999) == 1e-4
    assert random_p(9_999, 9_999) == 1.0


def test_alike_slack_is_the_rule_of_three_and_clopper_pearson() -> None:
    exact = stats.binomtest(0, 24).proportion_ci(confidence_level=0.90, method="exact").high
    assert alike_slack(24) == pytest.approx(exact)


def test_expanded_percentile_is_students_interval_for_normal_means() -> None:
    values = np.random.default_rng(5).normal(size=12)
    tail = stats.norm.cdf(stats.norm.ppf(0.025) * expansion(12))
    means = (bootstrap_counts(12, 40_000, 1) @ values) / 12
    low, high = np.quantile(means, [tail, 1 - tail])
    student = stats.t.interval(0.95, 11, loc=values.mean(), scale=values.std(ddof=1) / np.sqrt(12))
    assert (low, high) == pytest.approx(student, abs=0.12 * (student[1] - student[0]))


def test_draws_are_reproducible_and_fixed() -> None:
    bootstrap_counts.cache_clear()
    first = bootstrap_counts(7, 50, 3).copy()
    bootstrap_counts.cache_clear()
    assert np.array_equal(first, bootstrap_counts(7, 50, 3))
    assert (first.sum(axis=1) == 7).all()
    assert set(np.unique(sign_flips(7, 50, 3))) == {-1.0, 1.0}
    with pytest.raises(ValueError, match="read-only"):
        sign_flips(7, 50, 3)[0, 0] = 5
