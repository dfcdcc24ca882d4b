"""Mean scores: denominators by hand, intervals against coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from safetyrepro.analysis.mean import mean_score


def test_errors_leave_the_denominator_and_both_values_stand() -> None:
    scores = [1.0] * 80 + [0.0] * 10 + [None] * 10
    mean = mean_score(scores, [str(i) for i in range(100)])
    assert (mean.n, mean.n_items, mean.n_clusters) == (90, 100, 90)
    assert mean.score == pytest.approx(80 / 90)
    assert mean.score_over_all == pytest.approx(80 / 100)
    assert "90 of 100" in mean.summary()


def test_no_score_and_a_single_cluster_claim_nothing() -> None:
    nothing = mean_score([None, None], ["a", "b"])
    assert (nothing.score, nothing.ci, nothing.score_over_all) == (None, None, None)
    alone = mean_score([1.0, 0.0], ["a", "a"])
    assert alone.score == 0.5
    assert alone.ci is None
    assert alone.holds(0.9)


def test_floor_and_ceiling_keep_a_width() -> None:
    clusters = [str(i) for i in range(24)]
    floor, ceiling = mean_score([0.0] * 24, clusters), mean_score([1.0] * 24, clusters)
    assert floor.ci == pytest.approx((0.0, 1 - 0.05 ** (1 / 24)))
    assert ceiling.ci == pytest.approx((0.05 ** (1 / 24), 1.0))


def test_near_copies_add_nothing() -> None:
    single = [float(i % 3 == 0) for i in range(30)]
    once = mean_score(single, [f"{i:02}" for i in range(30)])
    copied = mean_score(single * 4, [f"{i:02}" for i in range(30)] * 4)
    assert copied.ci == pytest.approx(once.ci)


def test_large_sample_interval_is_the_normal_one() -> None:
    scores = [float(i % 10 < 4) for i in range(800)]
    mean = mean_score(scores, [str(i) for i in range(800)])
    half = stats.norm.ppf(0.975) * np.sqrt(0.4 * 0.6 / 800)
    assert mean.ci == pytest.approx((0.4 - half, 0.4 + half), abs=0.004)


@pytest.mark.parametrize(("share", "items"), [(0.5, 24), (0.2, 60)])
def test_interval_covers(share: float, items: int) -> None:
    draw = np.random.default_rng(11)
    covered = sum(
        mean_score(
            (draw.random(items) < share).astype(float).tolist(), [str(i) for i in range(items)], draws=999
        ).holds(share)
        for _ in range(400)
    )
    assert 0.92 <= covered / 400 <= 0.995
