from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from safetyrepro.analysis.judge.between import judge_agreement
from safetyrepro.analysis.judge.consistency import consistency
from safetyrepro.analysis.judge.edits import paired_change
from safetyrepro.analysis.judge.effects import surface_effects
from safetyrepro.judge.verdicts import read_verdicts

HEADER = "judge,item_id,order,verdict,model_a,model_b,gold\n"


def table(folder: Path, rows: str) -> Path:
    path = folder / "v.csv"
    path.write_text(HEADER + rows, encoding="utf-8")
    return path


def test_counts_by_hand(tmp_path: Path) -> None:
    rows = (
        "j,1,ab,first,m,r,a\nj,1,ba,second,m,r,a\n"  # a both times
        "j,2,ab,first,m,r,b\nj,2,ba,first,m,r,b\n"  # a flip
        "j,3,ab,tie,m,r,a\nj,3,ba,tie,m,r,a\n"  # a tie both times
        "j,4,ab,tie,m,r,a\nj,4,ba,first,m,r,a\n"  # a tie in one order
        "j,5,ab,,m,r,a\nj,5,ba,second,m,r,a\n"  # unparsed in one order
        "j,6,ab,second,m,r,\n"  # one order alone, no gold
    )
    found = consistency(read_verdicts(table(tmp_path, rows)).frame)
    assert (found.items, found.rows, found.comparisons, found.both_orders) == (6, 11, 6, 4)
    assert (found.consistent.count, found.flips.count, found.half) == (2, 1, 1)
    assert found.consistent.share == 0.5
    assert found.consistent.bounds == (2 / 5, 3 / 5)
    assert (found.unparsed.count, found.unparsed.of) == (1, 11)
    assert (found.first.count, found.first.of) == (4, 7)
    assert found.first.bounds == (4 / 8, 5 / 8)
    assert (found.first_balanced.count, found.first_balanced.of) == (3, 4)
    assert found.accuracy is not None
    # Rows 1a, 1b, 2b (its gold is b, shown first in ba) and 5b name the right answer; ties name none.
    assert (found.accuracy.count, found.accuracy.of) == (4, 9)
    assert found.accuracy_both is not None
    assert (found.accuracy_both.count, found.accuracy_both.of) == (1, 4)
    assert [(win.model_a, win.model_b, win.share.of) for win in found.wins] == [("m", "r", 10)]
    assert found.wins[0].share.share == pytest.approx((1 + 1 + 1 + 0 + 0.5 + 0.5 + 0.5 + 0 + 1 + 0) / 10)


def test_several_models_on_one_item_are_comparisons_of_one_cluster(tmp_path: Path) -> None:
    rows = "".join(f"j,{i},{o},first,m{k},r,\n" for i in range(3) for k in range(4) for o in ("ab", "ba"))
    found = consistency(read_verdicts(table(tmp_path, rows)).frame)
    assert (found.items, found.both_orders, found.flips.count) == (3, 12, 12)
    assert found.flips.ci is not None
    assert found.flips.ci[0] < 0.5


def test_agreement_against_a_second_library() -> None:
    """With two raters, no missing verdict and many units alpha is Scott's pi to within 1 / 2n, by hand from counts."""
    generator = np.random.default_rng(1)
    first = generator.choice(["a", "b", "tie"], 300, p=[0.5, 0.3, 0.2])
    second = np.where(generator.random(300) < 0.6, first, generator.choice(["a", "b", "tie"], 300))
    found = judge_agreement({"x": list(first), "y": list(second)}, [str(k) for k in range(300)], draws=99)
    raw = float((first == second).mean())
    shares = np.array([((first == v).mean() + (second == v).mean()) / 2 for v in ("a", "b", "tie")])
    pi = (raw - (shares**2).sum()) / (1 - (shares**2).sum())
    assert found.raw == pytest.approx(raw)
    assert found.alpha == pytest.approx(pi, abs=1 / 300)
    assert found.alpha_ci is not None
    assert found.alpha_ci[0] < pi < found.alpha_ci[1]


def test_agreement_leaves_unparsed_out_and_is_undefined_where_nothing_varies() -> None:
    found = judge_agreement({"x": ["a", "", "a"], "y": ["a", "b", ""], "z": ["a", "b", ""]}, ["1", "2", "3"], draws=99)
    assert (found.units, found.items, found.raw) == (2, 2, 1.0)
    assert found.alpha == pytest.approx(1.0)
    same = judge_agreement({"x": ["a", "a"], "y": ["a", "a"]}, ["1", "2"], draws=99)
    assert (same.alpha, same.alpha_ci, same.raw) == (None, None, 1.0)
    opposed = judge_agreement({"x": list("abab"), "y": list("baba")}, list("1234"), draws=99)
    assert opposed.alpha is not None
    assert opposed.alpha < 0


def test_paired_change_by_hand_and_for_a_constant_change() -> None:
    items = [str(k // 2) for k in range(40)]
    original = np.array([3.0, 4.0] * 20)
    change = paired_change(original - 1, original, items, reach=4)
    assert (change.n, change.items, change.mean) == (40, 20, -1)
    assert change.established
    nothing = paired_change(original, original, items, reach=4)
    assert not nothing.established
    assert nothing.ci is not None
    assert nothing.ci[0] < 0 < nothing.ci[1]
    holes = paired_change(np.array([np.nan, 2.0]), np.array([1.0, 1.0]), ["a", "b"], reach=4)
    assert (holes.n, holes.mean, holes.ci) == (1, 1.0, None)


def test_intervals_of_a_family_of_edits_are_wider() -> None:
    generator = np.random.default_rng(2)
    original = generator.normal(size=60)
    edited = original + generator.normal(size=60)
    items = [str(k) for k in range(60)]
    alone, among = (paired_change(edited, original, items, reach=9, family=k).ci or (0, 0) for k in (1, 5))
    assert among[1] - among[0] > 1.2 * (alone[1] - alone[0])


def test_surface_effects_tell_length_from_layout() -> None:
    generator = np.random.default_rng(3)
    a, b = generator.integers(100, 900, (80, 2)).astype(float), generator.integers(100, 900, (80, 2)).astype(float)
    outcome = (a[:, 0] > b[:, 0]).astype(float)
    found = surface_effects(a, b, outcome, ("length", "lists"), [str(k) for k in range(80)])
    assert found.more_wins["length"].share == 1.0
    lists = found.more_wins["lists"]
    assert lists.ci is not None
    assert lists.ci[0] < 0.5 < lists.ci[1]
    assert not isinstance(found.joint, str)
    assert (found.joint.weights["length"].estimate or 0) > 0.6
    ci = found.joint.weights["lists"].ci
    assert ci is not None
    assert ci[0] < 0 < ci[1]


def test_surface_features_that_neither_answer_has() -> None:
    zeros = np.zeros((30, 1))
    found = surface_effects(zeros, zeros, np.ones(30), ("bold",), [str(k) for k in range(30)])
    assert (found.more_wins["bold"].of, found.more_wins["bold"].share) == (0, None)
    assert isinstance(found.joint, str)
