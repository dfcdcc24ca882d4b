from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from safetyrepro.analysis.judge.correlation import agreement, within_strata
from safetyrepro.analysis.judge.factors import factor_scores, influences
from safetyrepro.analysis.judge.stages import Step, step_changes, step_summaries


def names(n: int) -> list[str]:
    return [f"m{k}" for k in range(n)]


def test_coefficients_are_scipys_with_ties() -> None:
    generator = np.random.default_rng(3)
    x = generator.integers(0, 6, 25).astype(float)
    y = (x + generator.integers(-3, 4, 25)).astype(float)
    found = agreement(x, y, names(25), draws=999)
    assert found.pearson.value == pytest.approx(stats.pearsonr(x, y).statistic)
    assert found.spearman.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.kendall.value == pytest.approx(stats.kendalltau(x, y).statistic)


def test_a_draw_counts_a_models_copies_as_ties() -> None:
    """The weighted formulas give what scipy gives of the models written out as often as they are drawn."""
    from safetyrepro.analysis.judge.correlation import _coefficients

    generator = np.random.default_rng(4)
    x, y = generator.normal(size=9).round(1), generator.normal(size=9).round(1)
    counts = generator.multinomial(9, np.full(9, 1 / 9), size=20).astype(float)
    drawn = _coefficients(counts, x, y)
    for k, draw in enumerate(counts.astype(int)):
        xs, ys = np.repeat(x, draw), np.repeat(y, draw)
        expected = (stats.pearsonr(xs, ys)[0], stats.spearmanr(xs, ys)[0], stats.kendalltau(xs, ys)[0])
        assert [float(values[k]) for values in drawn] == pytest.approx(list(expected))


def test_discordant_pairs_by_hand() -> None:
    found = agreement(np.array([4.0, 3, 2, 1]), np.array([1.0, 2, 2, 5]), list("abcd"), draws=999)
    assert (found.pairs, found.tied) == (6, 1)
    assert {(p.judge_prefers, p.factor_prefers) for p in found.discordant} == {
        ("a", "b"), ("a", "c"), ("a", "d"), ("b", "d"), ("c", "d"),
    }  # fmt: skip
    assert (found.discordant[0].judge_prefers, found.discordant[0].judge_gap, found.discordant[0].factor_gap) == (
        "a",
        3,
        4,
    )
    assert found.discordant_share == pytest.approx(5 / 6)
    assert found.pearson.ci is None


def test_intervals_cover_over_models() -> None:
    generator = np.random.default_rng(5)
    hits = np.zeros(2)
    for _ in range(120):
        x = generator.normal(size=32)
        y = 0.5 * x + np.sqrt(0.75) * generator.normal(size=32)
        found = agreement(x, y, names(32), draws=999)
        assert found.pearson.ci is not None
        assert found.spearman.ci is not None
        rho = 6 / np.pi * np.arcsin(0.25)
        hits += [found.pearson.ci[0] <= 0.5 <= found.pearson.ci[1], found.spearman.ci[0] <= rho <= found.spearman.ci[1]]
    assert (hits / 120 >= 0.88).all()


@pytest.mark.parametrize("values", [np.ones(12), np.arange(3.0)])
def test_what_does_not_vary_or_is_too_few_is_undefined(values: np.ndarray) -> None:
    found = agreement(values, np.arange(len(values)).astype(float), names(len(values)), draws=999)
    assert (found.pearson.value, found.spearman.value, found.kendall.value, found.pearson_p) == (None,) * 4
    assert "undefined" in found.summary()


def test_a_relation_between_strata_alone_is_none_within_them() -> None:
    generator = np.random.default_rng(6)
    strata = ["x"] * 20 + ["y"] * 20
    shift = np.array([0.0] * 20 + [8.0] * 20)
    judge, factor = shift + generator.normal(size=40), shift + generator.normal(size=40)
    whole = agreement(judge, factor, names(40), draws=999)
    inside = within_strata(judge, factor, names(40), strata, draws=999)
    assert whole.pearson.value is not None
    assert whole.pearson.value > 0.9
    assert list(inside) == ["x", "y"]
    for result in inside.values():
        assert result.n_models == 20
        assert result.pearson.ci is not None
        assert result.pearson.ci[0] < 0 < result.pearson.ci[1]


def test_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="no number"):
        agreement(np.array([1.0, np.nan]), np.array([1.0, 2.0]), ["a", "b"])


def test_factor_scores_by_hand() -> None:
    values = np.array([[0.0, 0.5], [1.0, 0.6]])
    assert factor_scores(values).tolist() == pytest.approx([0.25, 0.8])
    assert factor_scores(values, z_scored=True).tolist() == pytest.approx([-1.0, 1.0])
    constant = np.array([[0.0, 0.5], [1.0, 0.5]])
    assert factor_scores(constant, z_scored=True).tolist() == pytest.approx([-0.5, 0.5])


def test_leaving_a_benchmark_out_and_flagging_a_constant_one() -> None:
    generator = np.random.default_rng(7)
    judge = generator.normal(size=15)
    values = np.column_stack([0.5 + judge / 10, generator.uniform(size=15), np.full(15, 0.7) + judge / 1000])
    found = influences(judge, values, ["a", "b", "c"])
    whole = float(np.corrcoef(judge, values.mean(axis=1))[0, 1])
    without_a = float(np.corrcoef(judge, values[:, 1:].mean(axis=1))[0, 1])
    assert found[0].pearson_without == pytest.approx(without_a)
    assert found[0].pearson_change == pytest.approx(whole - without_a)
    assert [entry.invariant for entry in found] == [False, False, True]
    assert influences(judge, values[:, :1], ["a"])[0].pearson_without is None


def test_training_steps_by_hand() -> None:
    judge = {"s": 10.0, "d": 20.0, "k": 6.0, "x": 0.0}
    factors = {"safety": {"s": 0.5, "d": 0.4, "k": 0.7}}
    steps = [Step("s", "d", "PO", "DPO"), Step("s", "k", "PO"), Step("x", "s", "SFT"), Step("s", "gone", "PO")]
    changes = step_changes(judge, factors, steps)
    assert [change.judge for change in changes] == [10, -4, 10]
    assert changes[0].factors["safety"] == pytest.approx(-0.1)
    assert changes[2].factors["safety"] is None
    assert changes[0].judge_sds == pytest.approx(10 / np.std(list(judge.values()), ddof=1))
    first, second = step_summaries(changes)
    assert (first.step, first.pairs, first.starts, first.judge_up, first.judge_mean) == ("PO", 2, 1, 1, 3)
    assert (first.factor_up["safety"], first.factor_down["safety"]) == (1, 1)
    assert first.factor_means["safety"] == pytest.approx(0.05)
    assert second.factor_means["safety"] is None
