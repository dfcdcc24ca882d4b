from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from safetyrepro.analysis.flips.added_value import SignalValue, study_population
from safetyrepro.analysis.flips.crossvalidation import auroc, corrected_mean, fold_aurocs, repeated_folds, train_ranks
from safetyrepro.analysis.flips.signals import SignalTable
from safetyrepro.analysis.flips.updates import UpdateStudy, study_update, summarise
from tests.flips.outcomes import planted, signal_table


def by_name(rows: tuple[SignalValue, ...]) -> dict[str, SignalValue]:
    return {row.signal: row for row in rows}


@pytest.mark.parametrize("ties", [False, True])
def test_auroc_against_sklearn(ties: bool) -> None:
    generator = np.random.default_rng(3)
    target = generator.random(200) < 0.2
    values = generator.normal(size=200) + target
    values = np.round(values) if ties else values
    assert auroc(target, values) == pytest.approx(roc_auc_score(target, values))
    assert auroc(np.zeros(5, dtype=np.bool_), np.arange(5.0)) is None
    assert auroc(np.ones(5, dtype=np.bool_), np.arange(5.0)) is None


def test_auroc_by_hand() -> None:
    # Pairs (positive over negative): 3>1, 3>2, 2>1 and one tie of 2 with 2: 3.5 of 4.
    assert auroc(np.array([True, True, False, False]), np.array([3.0, 2.0, 1.0, 2.0])) == 3.5 / 4


def test_corrected_interval_by_hand() -> None:
    # Four folds of 8 train and 2 test items: variance (1/4 + 1/4) s2 with 3 degrees of freedom; one fold undefined.
    folds = [(np.arange(8), np.arange(2))] * 5
    differences = np.array([0.1, 0.2, 0.3, 0.4, math.nan])
    result = corrected_mean(differences, folds)
    error = math.sqrt((1 / 4 + 2 / 8) * np.var([0.1, 0.2, 0.3, 0.4], ddof=1))
    half = stats.t.ppf(0.975, 3) * error
    assert (result.folds, result.undefined) == (4, 1)
    assert result.ci == pytest.approx((0.25 - half, 0.25 + half))
    assert result.p == pytest.approx(2 * stats.t.sf(0.25 / error, 3))


def test_ranks_come_from_training_items_alone() -> None:
    ranks = train_ranks(np.array([10.0, 20.0, 30.0, 1000.0]), np.array([0, 1, 2]))
    assert ranks / math.sqrt(12) + 0.5 == pytest.approx([1 / 6, 3 / 6, 5 / 6, 1.0])


def test_planted_signals_are_ranked_as_planted() -> None:
    study = study_population(planted(), "old_correct")
    rows = by_name(study.signals)
    assert study.signals[0].signal == "knows"
    assert study.adding == ("knows",)
    assert rows["knows"].auroc == pytest.approx(1.0)
    assert rows["knows"].added.ci is not None
    assert rows["knows"].added.ci[0] > 0.2
    # The copy is confidence on another scale: ranks are the same, so that nothing at all is added.
    assert rows["copy"].added.mean == pytest.approx(0, abs=1e-9)
    assert rows["copy"].verdict == rows["noise"].verdict == "no added value shown"
    assert abs(rows["noise"].added.mean or 0) < 0.02
    assert rows["confidence_new"].verdict == "baseline"
    assert rows["noise"].added.folds == 25


def test_standalone_auroc_is_turned_to_risk() -> None:
    whole = planted()
    table = replace(whole, signals={name: whole.signals[name] for name in ("confidence_new", "copy")})
    confidence = by_name(study_population(table, "old_correct").signals)["confidence_new"].auroc
    assert confidence == pytest.approx(roc_auc_score(table.negative, -table.signals["confidence_new"]))
    turned = by_name(study_population(replace(table, lower=frozenset({"copy"})), "old_correct").signals)
    assert turned["copy"].auroc == pytest.approx(confidence)


def test_all_together_against_the_best_single_one() -> None:
    together = study_population(planted(), "old_correct").together
    assert together is not None
    assert together.auroc_best_single == pytest.approx(1.0, abs=0.01)
    assert together.gain.mean == pytest.approx(0, abs=0.01)


def test_two_halves_of_the_truth_are_better_together() -> None:
    generator = np.random.default_rng(1)
    lost = np.arange(600) < 200
    halves = [lost * (np.arange(600) % 2 == side) * 2.0 + 0.5 * generator.normal(size=600) for side in (0, 1)]
    table = signal_table(
        [True] * 600, list(~lost), confidence_new=list(generator.normal(size=600)), a=list(halves[0]), b=list(halves[1])
    )
    together = study_population(table, "old_correct").together
    assert together is not None
    assert together.gain.ci is not None
    assert together.gain.ci[0] > 0.05


def test_difficulty_explains_a_signal_that_only_marks_hard_items() -> None:
    generator = np.random.default_rng(2)
    difficulty = generator.normal(size=1000)
    lost = difficulty + generator.normal(size=1000) > 1.2
    table = signal_table(
        [True] * 1000,
        list(~lost),
        confidence_new=list(generator.normal(size=1000)),
        confidence_old=list(-difficulty),
        hard=list(difficulty + 0.3 * generator.normal(size=1000)),
    )
    row = by_name(study_population(table, "old_correct").signals)["hard"]
    assert row.verdict == "adds value"
    assert (row.added.mean or 0) > 0.1
    assert abs(row.beyond_difficulty.mean or 1) < 0.02


@pytest.mark.parametrize(
    ("flips", "verdict"), [(0, "refused"), (24, "refused"), (25, "too few to compare"), (99, "too few to compare")]
)
def test_few_flips_are_said_to_be_few(flips: int, verdict: str) -> None:
    study = study_population(planted(300, flips), "old_correct")
    assert {row.verdict for row in study.signals} <= {verdict, "baseline"}
    assert study.reason is not None
    assert f"{flips} negative flips" in study.reason
    if verdict == "refused":
        assert all(row.auroc is None for row in study.signals)


def test_all_flips_are_as_little_to_learn_from_as_none() -> None:
    study = study_population(planted(200, 200), "old_correct")
    assert {row.verdict for row in study.signals} == {"refused"}
    assert study.reason == "0 items that do not flip: under 25 no signal is judged"


def test_folds_of_one_class_are_undefined_and_counted() -> None:
    target = np.array([True] * 3 + [False] * 60)
    folds = repeated_folds(target, [str(place) for place in range(63)])
    values = fold_aurocs(target, [np.arange(63.0)], folds)[:, 1]
    result = corrected_mean(values, folds)
    assert (result.folds, result.undefined) == (15, 10)


def test_near_copies_stay_in_one_fold() -> None:
    clusters = [str(place // 4) for place in range(200)]
    target = np.arange(200) % 3 == 0
    for train, test in repeated_folds(target, clusters):
        assert not {clusters[place] for place in train} & {clusters[place] for place in test}


def test_undefined_values_are_left_out_and_counted() -> None:
    table = planted()
    holes = np.where(np.arange(600) % 6 == 0, np.nan, table.signals["noise"])
    holes[1] = np.inf
    rows = by_name(
        study_population(
            replace(table, signals={**table.signals, "noise": holes, "void": np.full(600, np.nan)}), "old_correct"
        ).signals
    )
    assert (rows["noise"].items, rows["noise"].undefined, rows["noise"].added.folds) == (499, 101, 25)
    assert (rows["void"].verdict, rows["void"].added.mean) == ("undefined", None)


def test_without_confidence_there_is_nothing_to_add_to() -> None:
    table = planted()
    kept = {name: values for name, values in table.signals.items() if name != "confidence_new"}
    row = by_name(study_population(replace(table, signals=kept), "old_correct").signals)["knows"]
    assert (row.auroc, row.verdict, row.reason) == (1.0, "refused", "no confidence_new to compare with")


def test_label_free_looks_at_all_items() -> None:
    table = planted(400, 20)
    wrong = replace(table, old_right=table.old_right & (np.arange(400) < 350))
    study = study_update(wrong)
    assert (study.old_correct.items, study.label_free.items) == (350, 400)
    assert study.old_correct.flips == study.label_free.flips == 20


def study(table: SignalTable) -> UpdateStudy:
    """Old-correct items alone, which are all items of planted tables."""
    part = study_population(table, "old_correct")
    return UpdateStudy(table.update, table.task, part.items, part.flips, part, part)


def test_summary_says_whether_a_signal_wins_everywhere() -> None:
    first = study(planted(seed=1))
    table = planted(seed=2)
    mute = study(replace(table, update="v2 to v3", signals={**table.signals, "knows": table.signals["noise"]}))
    few = study(planted(300, 20))
    assert summarise([first, first], "old_correct").everywhere == ("knows",)
    mixed = summarise([first, mute, few], "old_correct")
    assert (mixed.updates, mixed.comparable, mixed.everywhere) == (3, 2, ())
    knows = next(row for row in mixed.signals if row.signal == "knows")
    assert (knows.compared, knows.adds, knows.best) == (2, 1, 1)
    assert summarise([first], "old_correct").everywhere == ()
