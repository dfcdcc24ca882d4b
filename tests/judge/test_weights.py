from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray

from safetyrepro.analysis.judge.weights import Weights, standardised_weights
from tests.judge.scripted import FACTORS, Planted


def planted_marks(judge: Planted, start: int, items: int) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
    """What the scripted judge behind the server says of answers (`test_run` holds the run's table to it)."""
    rows = [
        (str(k), judge.marks(f"candidate {k}", order)) for k in range(start, start + items) for order in ("ab", "ba")
    ]
    x = np.array([[marks[name] for name in FACTORS] for _, marks in rows], dtype=np.float64)
    return x, np.array([float(marks["overall"]) for _, marks in rows]), [item for item, _ in rows]


def standardised(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    fitted: NDArray[np.float64] = sm.OLS((y - y.mean()) / y.std(), z).fit().params
    return fitted


def test_planted_weights_are_covered() -> None:
    judge = Planted()
    x, y, _ = planted_marks(judge, 1_000_000, 6_000)
    truth = standardised(x, y)
    runs, items, hits = 200, 40, np.zeros(5)
    for run in range(runs):
        x, y, clusters = planted_marks(judge, run * items, items)
        found = standardised_weights(x, y, FACTORS, clusters, draws=999)
        assert isinstance(found, Weights)
        for k, name in enumerate(FACTORS):
            ci = found.weights[name].ci
            assert ci is not None
            hits[k] += ci[0] <= truth[k] <= ci[1]
    assert (hits / runs >= 0.91).all(), hits / runs
    assert (hits / runs <= 0.98).all(), hits / runs


def test_estimates_r_squared_and_inflation_are_statsmodels() -> None:
    from statsmodels.stats.outliers_influence import variance_inflation_factor

    x, y, clusters = planted_marks(Planted(), 0, 60)
    found = standardised_weights(x, y, FACTORS, clusters, draws=999)
    assert isinstance(found, Weights)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    fitted = sm.OLS((y - y.mean()) / y.std(), z).fit()
    assert [found.weights[name].estimate for name in FACTORS] == pytest.approx(fitted.params.tolist())
    assert found.r_squared == pytest.approx(fitted.rsquared)
    inflation = [variance_inflation_factor(z, k) for k in range(5)]
    assert [found.weights[name].inflation for name in FACTORS] == pytest.approx(inflation)
    axes = np.linalg.eigvalsh(np.corrcoef(x.T))
    assert found.halo == pytest.approx(axes[-1] / 5)


def test_rows_of_an_item_are_drawn_together() -> None:
    """Every row twice is no more evidence, as long as the copies belong to the same item."""
    x, y, clusters = planted_marks(Planted(), 0, 40)
    once = standardised_weights(x, y, FACTORS, clusters, draws=999)
    twice = standardised_weights(np.vstack([x, x]), np.concatenate([y, y]), FACTORS, clusters * 2, draws=999)
    apart = standardised_weights(
        np.vstack([x, x]), np.concatenate([y, y]), FACTORS, [f"{c}{k}" for k in "ab" for c in clusters], draws=999
    )
    assert isinstance(once, Weights)
    assert isinstance(twice, Weights)
    assert isinstance(apart, Weights)
    assert once.weights["style"].ci == pytest.approx(twice.weights["style"].ci)
    wide, narrow = (w.weights["style"].ci or (0, 0) for w in (once, apart))
    assert wide[1] - wide[0] > 1.1 * (narrow[1] - narrow[0])


def test_a_mark_that_never_varies_has_no_weight() -> None:
    x, y, clusters = planted_marks(Planted(), 0, 40)
    x[:, 2] = 3.0
    found = standardised_weights(x, y, FACTORS, clusters, draws=999)
    assert isinstance(found, Weights)
    assert found.constant == ("safety",)
    assert found.weights["safety"].estimate is None
    assert found.weights["style"].estimate is not None


def test_collinear_marks_are_named_and_identical_ones_refused() -> None:
    x, y, clusters = planted_marks(Planted(), 0, 60)
    nearly = x.copy()
    nearly[:, 1] = x[:, 0]
    nearly[0, 1] += 1
    found = standardised_weights(nearly, y, FACTORS, clusters, draws=999)
    assert isinstance(found, Weights)
    assert found.collinear == ("correctness", "completeness")
    x[:, 1] = x[:, 0]
    reason = standardised_weights(x, y, FACTORS, clusters, draws=999)
    assert isinstance(reason, str)
    assert "not independent" in reason


def test_reasons_for_no_weights() -> None:
    x, y, clusters = planted_marks(Planted(), 0, 10)
    few = standardised_weights(x, y, FACTORS, clusters, draws=999)
    assert few == "10 items with all marks; at least 20 are needed"
    x, y, clusters = planted_marks(Planted(), 0, 30)
    assert standardised_weights(x, np.full(60, 3.0), FACTORS, clusters) == "the overall mark is the same in all rows"
    assert standardised_weights(np.full((60, 5), 3.0), y, FACTORS, clusters) == "no factor's mark varies"
