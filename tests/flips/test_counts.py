from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.proportion import proportion_confint

from safetyrepro.analysis.flips.churn import churn_of_repeats, churn_of_second_run
from safetyrepro.analysis.flips.counts import flip_table
from safetyrepro.analysis.flips.mcnemar import mcnemar
from safetyrepro.analysis.flips.pairing import pair_items
from safetyrepro.analysis.flips.proportion import proportion
from safetyrepro.analysis.flips.stability import flip_stability
from tests.flips.outcomes import paired


def test_counts_by_hand() -> None:
    # i0 stays right, i1 and i2 are lost, i3 is won, i4 stays wrong; 0.5 is right, 0.49 is not.
    table = flip_table(paired([1, 1, 0.5, 0, 0.49], [0.5, 0, 0.49, 1, 0]))
    assert (table.items, table.negative_flips, table.positive_flips) == (5, 2, 1)
    assert (table.both_right, table.both_wrong) == (1, 1)
    assert table.accuracy_old.value == pytest.approx(3 / 5)
    assert table.accuracy_new.value == pytest.approx(2 / 5)
    assert table.nfr.value == pytest.approx(2 / 5)
    assert table.nfr_old_correct.value == pytest.approx(2 / 3)
    assert table.difference == pytest.approx(-1 / 5)


def test_another_threshold() -> None:
    frame = pd.DataFrame({"item_id": ["a", "b"], "cluster": ["a", "b"], "score": [0.8, 0.6]})
    other = frame.assign(score=[0.6, 0.8])
    table = flip_table(pair_items(frame, other, right_at=0.7))
    assert (table.negative_flips, table.positive_flips) == (1, 1)


def test_difference_interval_by_hand() -> None:
    # Bonett and Price: (b + 1) / (n + 2) and (c + 1) / (n + 2) with b = 3 lost, c = 1 won, n = 20.
    low, high = flip_table(paired([1] * 13 + [0] * 7, [0] * 3 + [1] * 10 + [1] + [0] * 6)).difference_ci or (0, 0)
    lost, won = 4 / 22, 2 / 22
    half = stats.norm.ppf(0.975) * math.sqrt((lost + won - (won - lost) ** 2) / 22)
    assert (low, high) == pytest.approx((won - lost - half, won - lost + half))


@pytest.mark.parametrize(("count", "n"), [(0, 10), (3, 40), (40, 40), (1, 1)])
def test_wilson_against_statsmodels(count: int, n: int) -> None:
    hits = np.array([True] * count + [False] * (n - count))
    part = proportion(hits, [str(place) for place in range(n)])
    assert part.method == "Wilson"
    assert part.ci == pytest.approx(proportion_confint(count, n, method="wilson"), abs=1e-12)


def test_clusters_widen_the_interval() -> None:
    hits = np.repeat([True, False, False, False, True, False, False, False, False, False], 10)
    alone = proportion(hits, [str(place) for place in range(100)])
    near = proportion(hits, [str(place // 10) for place in range(100)])
    assert "bootstrap" in near.method
    assert near.value == alone.value == 0.2
    assert alone.ci is not None
    assert near.ci is not None
    assert near.ci[1] - near.ci[0] > 1.5 * (alone.ci[1] - alone.ci[0])


@pytest.mark.parametrize(("lost", "won"), [(0, 0), (5, 0), (7, 2), (30, 31), (1, 12)])
def test_mcnemar_against_statsmodels(lost: int, won: int) -> None:
    negative = np.array([True] * lost + [False] * (won + 9))
    positive = np.array([False] * lost + [True] * won + [False] * 9)
    ours = mcnemar(negative, positive, [str(place) for place in range(len(negative))])
    theirs = statsmodels_mcnemar([[4, lost], [won, 5]], exact=True)
    assert ours.p == pytest.approx(min(1.0, theirs.pvalue))
    assert ours.discordant == lost + won


def test_mcnemar_keeps_near_copies_together() -> None:
    # Four clusters of ten copies each, all lost: forty items alone would give 2 ** -39, four clusters give 2 / 16.
    negative = np.ones(40, dtype=np.bool_)
    near = mcnemar(negative, ~negative, [str(place // 10) for place in range(40)])
    assert near.moving_clusters == 4
    assert near.p == pytest.approx(2 / 16, abs=0.02)
    assert mcnemar(negative, ~negative, [str(place) for place in range(40)]).p < 1e-9


def test_flips_that_cancel_in_their_cluster_move_nothing() -> None:
    negative, positive = np.array([True, False, False]), np.array([False, True, False])
    result = mcnemar(negative, positive, ["a", "a", "b"])
    assert (result.p, result.discordant, result.moving_clusters) == (1.0, 2, 0)


def test_no_flips_and_all_flips() -> None:
    none = flip_table(paired([1] * 10 + [0] * 10, [1] * 10 + [0] * 10))
    assert (none.nfr.value, none.mcnemar.p) == (0.0, 1.0)
    assert none.nfr.ci is not None
    assert none.nfr.ci[1] > 0.1
    everything = flip_table(paired([1] * 10, [0] * 10))
    assert (everything.nfr.value, everything.nfr_old_correct.value, everything.accuracy_new.value) == (1.0, 1.0, 0.0)
    nothing_right = flip_table(paired([0] * 10, [1] * 10))
    assert nothing_right.nfr_old_correct.value is None
    assert nothing_right.nfr_old_correct.method == "none: no item"


def repeated(scores: dict[str, list[float | None]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"item_id": item, "cluster": item, "score": score, "repeat": number}
            for item, values in scores.items()
            for number, score in enumerate(values)
        ]
    )


def test_one_lucky_sample_is_no_flip() -> None:
    old = repeated({"lucky": [1, 0, 0, 0], "firm": [1, 1, 1, 1], "mostly": [1, 1, 1, 0]})
    new = repeated({"lucky": [0, 0, 0, 0], "firm": [0, 0, 0, 0], "mostly": [0, 0, 1, 0]})
    together = pair_items(old, new)
    table = flip_table(together)
    assert dict(zip(together.items, together.negative.tolist(), strict=True)) == {
        "lucky": False,
        "firm": True,
        "mostly": True,
    }
    assert (table.negative_flips, table.unanimous_negative) == (2, 1)
    assert table.repeats_old == (4, 4)


def test_churn_of_repeats_by_hand() -> None:
    # Right in 3 of 4, 4 of 4, 0 of 4 repeats: p (1 - p) 4 / 3 = 1/4, 0, 0, mean 1/12.
    # Across the update p_old (1 - p_new): 3/4 * 1, 1 * 1/2, 0, mean 5/12.
    old = repeated({"a": [1, 1, 1, 0], "b": [1, 1, 1, 1], "c": [0, 0, 0, 0]})
    new = repeated({"a": [0, 0], "b": [1, 0], "c": [0, 0]})
    churn = churn_of_repeats(pair_items(old, new))
    assert churn is not None
    assert churn.rate == pytest.approx(1 / 12)
    assert churn.update_rate == pytest.approx(5 / 12)
    assert churn.excess == pytest.approx(1 / 3)
    assert churn.items == 3
    assert churn_of_repeats(paired([1, 0], [0, 0])) is None


def test_churn_counts_every_pair_of_repeats() -> None:
    scores = [1, 0, 1, 1, 0]
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j]
    lost = sum(scores[i] == 1 and scores[j] == 0 for i, j in pairs) / len(pairs)
    churn = churn_of_repeats(pair_items(repeated({"a": scores, "b": [1] * 5}), repeated({"a": [1], "b": [1]})))
    assert churn is not None
    assert churn.rate == pytest.approx(lost / 2)


def test_churn_of_a_second_run_by_hand() -> None:
    # Old against itself: i1 is lost, i3 won: half of each, so (0 + .5 + 0 + .5) / 4; the update loses i0 and i1.
    old, again, new = [1, 1, 1, 0], [1, 0, 1, 1], [0, 0, 1, 0]
    churn = churn_of_second_run(paired(old, new), paired(old, again), "v1 again")
    assert churn is not None
    assert (churn.source, churn.rate, churn.update_rate) == ("v1 again", 0.25, 0.5)


def test_stable_and_fragile_flips_by_hand() -> None:
    one, two = paired([1, 1, 1, 0], [0, 0, 1, 0]), paired([1, 1, 1, 1], [0, 1, 1, 1])
    part = flip_stability("bench", [one, two])
    assert part is not None
    assert (part.stable, part.fragile, part.never) == (("i0",), ("i1",), 2)
    assert part.counts == (2, 1, 1)
    assert flip_stability("bench", [one]) is None


def test_unequal_items_are_left_out_and_counted() -> None:
    old = repeated({"a": [1], "b": [1], "c": [1], "d": [None]})
    new = repeated({"b": [0], "c": [None], "d": [1], "e": [1], "f": [1]})
    together = pair_items(old, new)
    assert together.items == ("b",)
    left = together.left_out
    assert (left.only_old, left.only_new, left.without_score) == (1, 2, 2)


def test_statuses_decide_what_counts() -> None:
    old = pd.DataFrame({"item_id": list("abcd"), "cluster": list("abcd"), "score": [1.0] * 4, "status": ["ok"] * 4})
    new = old.assign(score=[None, None, 0.0, 1.0], status=["unparsed", "missing", "error", "ok"])
    together = pair_items(old, new)
    assert together.items == ("a", "d")
    assert together.negative.tolist() == [True, False]


def test_groups() -> None:
    frame = pd.DataFrame(
        {"item_id": list("abcd"), "cluster": list("abcd"), "score": [1.0] * 4, "category": list("xxyy")}
    )
    table = flip_table(pair_items(frame, frame.assign(score=[1.0, 1.0, 0.0, 1.0]), by="category"))
    assert [(group.name, group.items, group.negative_flips) for group in table.groups] == [("y", 2, 1), ("x", 2, 0)]
