"""Type II sums of squares against statsmodels, on unbalanced tables and in both factor orders."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm

from safetyrepro.analysis.resampling import Floats
from safetyrepro.analysis.variance import split_halves, type_two, variance_shares


def unbalanced() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = list(itertools.product("ABC", ("minimal", "role", "detailed"), ("0", "3", "5"), ("greedy", "warm")))
    frame = pd.DataFrame(rows, columns=["model", "template", "shots", "decoding"])
    frame = frame.drop(index=[0, 1, 7, 20, 33, 34, 35, 50]).reset_index(drop=True)
    frame["score"] = rng.random(len(frame)) + (frame["model"] == "A") * 0.5 + (frame["shots"] == "3") * 0.2
    return frame


@pytest.mark.parametrize("axes", list(itertools.permutations(("template", "shots", "decoding"))))
def test_against_statsmodels_in_every_factor_order(axes: tuple[str, ...]) -> None:
    frame = unbalanced()
    terms = " + ".join(["model", *axes, *(f"model:{axis}" for axis in axes)])
    expected = anova_lm(smf.ols(f"score ~ {terms}", frame).fit(), typ=2)
    factors = {"model": list(frame["model"]), **{axis: list(frame[axis]) for axis in axes}}
    found = {term: (df, float(squares[0])) for term, df, squares in type_two(frame["score"].to_numpy(), factors)}
    for term, row in expected.iterrows():
        name = "remainder" if term == "Residual" else str(term).replace(":", " x ")
        assert found[name][0] == row["df"]
        assert found[name][1] == pytest.approx(row["sum_sq"])
    total = float(((frame["score"] - frame["score"].mean()) ** 2).sum())
    assert found["shared"][1] == pytest.approx(total - expected["sum_sq"].sum())
    assert abs(found["shared"][1]) > 1e-3


def balanced(effect: dict[tuple[str, str], float]) -> tuple[Floats, dict[str, list[str]]]:
    rows = list(itertools.product("AB", "xy"))
    return np.array([effect[row] for row in rows]), {"model": [m for m, _ in rows], "template": [t for _, t in rows]}


def test_by_hand_on_two_by_two() -> None:
    """Main effects of 2 and 4 around a mean: sums of squares 4 and 16; a pure interaction of 1: 4."""
    cells, factors = balanced({("A", "x"): 4, ("A", "y"): 0, ("B", "x"): 2, ("B", "y"): -2})
    terms = {term.term: term for term in variance_shares(cells, factors) or ()}
    assert terms["model"].share == pytest.approx(4 / 20)
    assert terms["template"].share == pytest.approx(16 / 20)
    assert terms["model x template"].share == pytest.approx(0, abs=1e-12)
    assert "shared" not in terms
    crossed, _ = balanced({("A", "x"): 1, ("A", "y"): -1, ("B", "x"): -1, ("B", "y"): 1})
    found = {term.term: term.share for term in variance_shares(crossed, factors) or ()}
    assert found["model x template"] == pytest.approx(1)


def test_aliased_axes_cost_degrees_of_freedom_only() -> None:
    cells, factors = balanced({("A", "x"): 4, ("A", "y"): 0, ("B", "x"): 2, ("B", "y"): -2})
    factors["suite"] = factors["template"]
    terms = {term.term: term for term in variance_shares(cells, factors) or ()}
    assert terms["suite"].df == terms["template"].df == 0
    assert terms["shared"].share == pytest.approx(16 / 20)


def test_constant_cells_have_no_shares() -> None:
    _, factors = balanced({("A", "x"): 0, ("A", "y"): 0, ("B", "x"): 0, ("B", "y"): 0})
    assert variance_shares(np.ones(4), factors) is None


def test_pure_noise_is_all_noise() -> None:
    """With no effect at all the noise that split halves find adds up to the whole, on average over grids."""
    rng = np.random.default_rng(3)
    rows = list(itertools.product("ABC", "wxyz", "012"))
    factors = {"model": [r[0] for r in rows], "template": [r[1] for r in rows], "shots": [r[2] for r in rows]}
    names = [f"i{i}" for i in range(200)]
    totals, axes, model = [], [], []
    for _ in range(20):
        items = (rng.random((36, 200)) < 0.5).astype(float)
        terms = variance_shares(items.mean(axis=1), factors, split_halves(items, names)) or ()
        totals.append(sum(term.noise or 0 for term in terms))
        shares = {term.term: term.share for term in terms}
        axes.append(shares["template"] + shares["shots"])
        model.append(shares["model"])
    assert np.mean(totals) == pytest.approx(1, abs=0.15)
    assert np.mean(axes) > np.mean(model)


def test_noise_is_small_beside_a_real_effect() -> None:
    rng = np.random.default_rng(4)
    _, factors = balanced({(m, t): 0 for m in "AB" for t in "xy"})
    items = (rng.random((4, 400)) < np.array([[0.9], [0.9], [0.2], [0.2]])).astype(float)
    terms = {
        t.term: t
        for t in variance_shares(items.mean(axis=1), factors, split_halves(items, list(map(str, range(400))))) or ()
    }
    assert terms["model"].share > 0.95
    assert sum(term.noise or 0 for term in terms.values()) < 0.02


def test_halves_need_items_on_both_sides() -> None:
    assert split_halves(np.ones((2, 1)), ["a"]) is None
    assert split_halves(np.array([[1.0, np.nan, np.nan]]), ["a", "b", "c"]) is None
