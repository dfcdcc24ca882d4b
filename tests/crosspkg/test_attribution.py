"""Shapley values against brute force, sums, signs, and components planted alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safetyrepro.analysis.resampling import Floats
from safetyrepro.crosspkg.attribution import Hybrid, attribute, merge

NAMES = ("text", "shots", "candidates", "metric")
CLUSTERS = [f"c{index // 2}" for index in range(40)]


def game(seed: int) -> Callable[[Hybrid], Floats]:
    """Item scores of every hybrid, drawn anew for each: components interact in every way."""
    generator = np.random.default_rng(seed)
    table = {
        frozenset(some): generator.integers(0, 2, len(CLUSTERS)).astype(np.float64)
        for size in range(len(NAMES) + 1)
        for some in itertools.combinations(NAMES, size)
    }
    return lambda hybrid: table[hybrid]


def by_permutations(score: Callable[[Hybrid], Floats]) -> dict[str, float]:
    totals = dict.fromkeys(NAMES, 0.0)
    orders = list(itertools.permutations(NAMES))
    for order in orders:
        for place, name in enumerate(order):
            before = frozenset(order[:place])
            totals[name] += 100 * float((score(before | {name}) - score(before)).mean()) / len(orders)
    return totals


def suites(score: Callable[[Hybrid], Floats]) -> tuple[Floats, Floats]:
    """What the suites recorded: the native scores, and a few items that no hybrid gives back."""
    a, b = score(frozenset(NAMES)).copy(), score(frozenset()).copy()
    a[:3] = 1 - a[:3]
    return a, b


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_it_equals_all_orders_and_sums_to_the_gap(seed: int) -> None:
    score = game(seed)
    a, b = suites(score)
    found = attribute("A", "B", NAMES, score, (a, b), CLUSTERS)
    brute = by_permutations(score)
    for part in found.parts:
        (name,) = part.components
        assert part.points == pytest.approx(brute[name], abs=1e-9)
        assert part.lowest_points <= part.points + 1e-9 <= part.highest_points + 2e-9
        assert part.ci_points is not None
        assert part.ci_points[0] <= part.points <= part.ci_points[1]
    total = sum(part.points for part in found.parts) + found.not_reproduced_points
    assert total == pytest.approx(100 * float((a - b).mean()), abs=1e-9)
    assert found.gap_points == pytest.approx(total, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_swapping_the_runners_negates_it(seed: int) -> None:
    score = game(seed)
    a, b = suites(score)
    forth = attribute("A", "B", NAMES, score, (a, b), CLUSTERS)
    back = attribute("B", "A", NAMES, lambda hybrid: score(frozenset(NAMES) - hybrid), (b, a), CLUSTERS)
    others = {part.components: part for part in back.parts}
    for part in forth.parts:
        other = others[part.components]
        assert other.points == pytest.approx(-part.points, abs=1e-9)
        assert other.first_in_points == pytest.approx(-part.last_in_points, abs=1e-9)
    assert back.not_reproduced_points == pytest.approx(-forth.not_reproduced_points, abs=1e-9)


def test_a_component_planted_alone_gets_all_of_the_gap() -> None:
    base = np.zeros(len(CLUSTERS))
    better = np.array([1.0, 0.0] * 20)
    found = attribute(
        "A", "B", NAMES, lambda hybrid: better if "candidates" in hybrid else base, (better, base), CLUSTERS
    )
    assert [(part.components, part.points) for part in found.parts if part.points] == [(("candidates",), 50.0)]
    assert found.not_reproduced_points == 0
    assert found.sentence() == "Of the 50 points between A and B, 50 come from candidates."


def test_components_whose_hybrids_cannot_be_built_are_merged() -> None:
    def feasible(hybrid: Hybrid) -> str | None:
        return "no options to name" if ("text" in hybrid) != ("metric" in hybrid) else None

    blocks, reasons = merge(NAMES, feasible)
    assert sorted(map(sorted, blocks)) == [["candidates"], ["metric", "text"], ["shots"]]
    assert reasons == ("no options to name",)
    score = game(3)
    found = attribute("A", "B", NAMES, score, suites(score), CLUSTERS, feasible=feasible)
    assert found.hybrids == 8
    total = sum(part.points for part in found.parts) + found.not_reproduced_points
    assert total == pytest.approx(found.gap_points, abs=1e-9)


def test_everything_merges_where_only_the_two_runners_themselves_can_be_scored() -> None:
    def feasible(hybrid: Hybrid) -> str | None:
        return None if len(hybrid) in (0, len(NAMES)) else "stored outputs are of one side or the other"

    blocks, _ = merge(NAMES, feasible)
    assert len(blocks) == 1


def test_one_cluster_has_no_interval() -> None:
    found = attribute(
        "A", "B", ["text"], lambda hybrid: np.array([float(bool(hybrid))]), (np.ones(1), np.zeros(1)), ["c"]
    )
    assert found.parts[0].ci_points is None
    assert found.parts[0].points == 100


def test_too_many_components_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 10"):
        attribute("A", "B", [str(i) for i in range(11)], game(0), suites(game(0)), CLUSTERS)
