from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from safetyrepro.analysis.flips.gate import non_inferiority
from safetyrepro.analysis.flips.pairing import Bools
from safetyrepro.flips.junit import junit_xml


def flips(lost: int, n: int) -> Bools:
    return np.array([True] * lost + [False] * (n - lost))


def alone(n: int) -> list[str]:
    return [str(place) for place in range(n)]


@pytest.mark.parametrize(("lost", "n"), [(0, 50), (3, 200), (30, 100), (20, 20)])
def test_bounds_against_statsmodels(lost: int, n: int) -> None:
    gate = non_inferiority(flips(lost, n), alone(n), 0.05)
    low, high = proportion_confint(lost, n, alpha=0.1, method="beta")
    assert (gate.lower, gate.upper) == pytest.approx((0.0 if lost == 0 else low, 1.0 if lost == n else high))
    assert gate.p_below == pytest.approx(stats.binom.cdf(lost, n, 0.05))
    assert gate.p_above == pytest.approx(stats.binom.sf(lost - 1, n, 0.05))


def test_verdicts() -> None:
    assert non_inferiority(flips(0, 149), alone(149), 0.02).verdict == "PASS"
    assert non_inferiority(flips(0, 148), alone(148), 0.02).verdict == "INCONCLUSIVE"
    assert non_inferiority(flips(2, 100), alone(100), 0.02).verdict == "INCONCLUSIVE"
    assert non_inferiority(flips(20, 100), alone(100), 0.02).verdict == "FAIL"
    assert non_inferiority(flips(100, 100), alone(100), 0.02).verdict == "FAIL"
    assert non_inferiority(flips(0, 0), [], 0.02).verdict == "INCONCLUSIVE"


def test_items_needed_by_hand() -> None:
    # 0.98 ** 149 = 0.0493 is the first power below 0.05.
    assert non_inferiority(flips(0, 1), alone(1), 0.02).items_needed == 149
    assert 0.98**149 < 0.05 < 0.98**148


def test_near_copies_are_worth_less() -> None:
    # Thirty clusters of ten identical items are thirty items.
    clusters = [str(place // 10) for place in range(300)]
    none = non_inferiority(flips(0, 300), clusters, 0.02)
    assert (none.effective_items, none.verdict) == (30.0, "INCONCLUSIVE")
    assert non_inferiority(flips(0, 300), alone(300), 0.02).verdict == "PASS"
    # Three whole clusters lost: with the finite-sample factor G / (G - 1) they are worth a little under thirty.
    some = non_inferiority(flips(30, 300), clusters, 0.02)
    correction = (stats.t.ppf(0.95, 299) / stats.t.ppf(0.95, 29)) ** 2
    assert some.effective_items == pytest.approx(29 * correction)
    assert some.upper == pytest.approx(stats.beta.ppf(0.95, 0.1 * 29 * correction + 1, 0.9 * 29 * correction))


def test_a_gate_on_clusters_keeps_its_level() -> None:
    # True rate at the margin of 10%, items of a cluster alike half of the time: at most 5% may pass.
    generator = np.random.default_rng(5)
    clusters = [str(place // 8) for place in range(480)]
    passed = 0
    for _ in range(400):
        shared = np.repeat(generator.random(60) < 0.1, 8)
        lost = np.where(generator.random(480) < 0.5, shared, generator.random(480) < 0.1)
        passed += non_inferiority(lost, clusters, 0.1).verdict == "PASS"
    assert passed / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_a_level_of_its_own_for_failing() -> None:
    strict = non_inferiority(flips(6, 100), alone(100), 0.02, failing=0.001)
    assert non_inferiority(flips(6, 100), alone(100), 0.02).verdict == "FAIL"
    assert strict.verdict == "INCONCLUSIVE"


@pytest.mark.parametrize("margin", [0.0, 1.0, -1.0, math.nan])
def test_margin_has_to_be_a_share(margin: float) -> None:
    with pytest.raises(ValueError, match="margin"):
        non_inferiority(flips(1, 10), alone(10), margin)


def gate(verdict: str) -> dict[str, str]:
    return {"verdict": verdict, "metric": "nfr"}


def test_junit_is_xml_whatever_the_names() -> None:
    text = junit_xml(
        "a<b>&\x00\ud800", [("c\x1b", gate("FAIL"), 'x"<y'), ("d", gate("INCONCLUSIVE"), ""), ("e", gate("PASS"), "")]
    )
    suite = ElementTree.fromstring(text).find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
    }
    assert [[child.tag for child in case] for case in suite] == [["failure"], ["error"], ["system-out"]]
    assert suite[0][0].get("message") == 'x"<y'
