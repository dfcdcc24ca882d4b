from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from safetyrepro.analysis.flips.fallback import fallback
from safetyrepro.analysis.flips.routing import (
    Threshold,
    fraction_for,
    model_runs,
    oracle_curve,
    out_of_fold,
    random_curve,
    route_weights,
    routing_curve,
    routing_folds,
    threshold_for,
)
from safetyrepro.errors import InputError
from safetyrepro.flips.policy import Policy, choose_policy, read_policy, routes_csv
from safetyrepro.flips.signal_table import SignalRows
from tests.flips.outcomes import planted, signal_table

OLD = np.array([True, True, True, False])
NEW = np.array([False, True, False, True])
FLIPS = OLD & ~NEW


def test_curve_by_hand() -> None:
    # Routed in the order i0 (flip), i3 (positive flip lost), i2 (flip), i1.
    curve = routing_curve(np.array([4.0, 1.0, 2.0, 3.0]), OLD, NEW)
    assert curve.fraction == (0, 0.25, 0.5, 0.75, 1)
    assert curve.nfr == (0.5, 0.25, 0.25, 0, 0)
    assert curve.accuracy == (0.5, 0.75, 0.5, 0.75, 0.75)
    assert curve.area == pytest.approx(0.25 * (0.375 + 0.25 + 0.125 + 0))
    # Kept items from one to four: risk 0/1, 0/2 ... by count: {i1}: 0, {i1, i2}: 1/2, +i3: 1/3, all: 2/4.
    assert curve.aurc == pytest.approx((0 + 1 / 2 + 1 / 3 + 2 / 4) / 4)


def test_ties_are_routed_in_expectation() -> None:
    tied = routing_curve(np.array([1.0, 1.0, 1.0, 0.0]), OLD, NEW)
    assert tied.fraction == (0, 0.75, 1)
    assert tied.nfr == (0.5, 0, 0)
    # Over all orders of the tie: two flips among three items leave 4/3, 2/3, 0 of them after one, two, three.
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    after_one = np.mean([FLIPS.sum() - FLIPS[list(order[:1])].sum() for order in orders]) / 4
    assert np.interp(0.25, tied.fraction, tied.nfr) == pytest.approx(after_one)
    assert tied.aurc == pytest.approx((0 / 1 + (2 / 3) / 2 + (4 / 3) / 3 + 2 / 4) / 4)


def test_undefined_items_are_routed_first() -> None:
    curve = routing_curve(np.array([math.nan, 9.0, 8.0, 7.0]), OLD, NEW)
    assert curve.nfr[1] == 0.25


def test_oracle_and_random_by_hand() -> None:
    oracle, chance = oracle_curve(OLD, NEW), random_curve(OLD, NEW)
    # Half of the items are flips: NFR falls from 1/2 to 0 over the first half, at random over the whole.
    assert oracle.area == pytest.approx(0.5 * 0.5 / 2)
    assert chance.area == pytest.approx(0.5 / 2)
    assert max(oracle.accuracy) == 1.0
    assert fraction_for(oracle, 0.25) == pytest.approx(0.25)
    assert fraction_for(chance, 0.25) == pytest.approx(0.5)
    assert fraction_for(chance, 0.5) == 0.0
    assert fraction_for(chance, 0.0) == pytest.approx(1.0)


def test_a_threshold_reaches_its_target_on_its_own_items() -> None:
    generator = np.random.default_rng(4)
    for target in (0.0, 0.03, 0.1, 0.2):
        risk = np.round(generator.normal(size=300), 1)
        flips = generator.random(300) < 0.2
        weights = route_weights(risk, threshold_for(risk, flips, target))
        left = float(((1 - weights) * flips).sum()) / 300
        assert left == pytest.approx(min(target, flips.mean()), abs=1e-9)


def test_thresholds_by_hand() -> None:
    risk = np.array([3.0, 2.0, 2.0, 1.0])
    flips = np.array([True, True, True, False])
    # Two of three flips have to go: the top item, and half of the tie.
    assert threshold_for(risk, flips, 0.25) == Threshold(2.0, 0.5)
    assert threshold_for(risk, flips, 0.75) == Threshold(None, 0.0)
    assert threshold_for(np.array([math.nan, 2.0]), np.array([True, False]), 0.0) == Threshold(None, 0.0)
    assert route_weights(np.array([5.0, 2.0, 1.0, math.nan]), Threshold(2.0, 0.5)).tolist() == [1, 0.5, 0, 1]


def test_a_threshold_found_out_of_fold_promises_no_more_than_it_holds() -> None:
    # Noise: routing a share removes that share of the flips. In-sample thresholds look better by overfitting.
    generator = np.random.default_rng(6)
    lost = generator.random(400) < 0.2
    table = signal_table([True] * 400, list(~lost), noise=list(generator.normal(size=400)))
    folds = routing_folds(table.old_right, table.new_right, table.clusters)
    assert folds is not None
    reached = out_of_fold(table.risk("noise"), table.old_right, table.new_right, folds, 0.1)
    assert reached.nfr == pytest.approx(lost.mean() * (1 - reached.fraction), abs=0.03)
    assert reached.accuracy == pytest.approx(1 - reached.nfr)
    assert routing_folds(table.old_right[:40], table.new_right[:40], table.clusters[:40]) is None


def test_fallback_orders_signals_between_oracle_and_chance() -> None:
    routed = fallback(planted(), 0.05)
    assert routed is not None
    by_name = {row.signal: row for row in routed.signals}
    assert routed.signals[0].signal == "knows"
    assert by_name["knows"].excess == pytest.approx(0, abs=0.01)
    assert by_name["noise"].excess == pytest.approx(1, abs=0.15)
    knows = by_name["knows"].out_of_fold
    assert knows is not None
    assert knows.nfr == pytest.approx(0.05, abs=0.01)
    assert knows.fraction == pytest.approx(0.2, abs=0.01)
    assert fallback(planted(100, 0)) is None
    few = fallback(planted(300, 10))
    assert few is not None
    assert few.reason == "10 negative flips: under 25 no threshold is chosen"


def test_cost() -> None:
    assert model_runs("new", 0.25) == (1.25, 1.25)
    assert model_runs("old", 0.25) == (1.75, 1.75)
    assert model_runs("both", 0.25) == (2.0, 2.0)
    assert model_runs("unknown", 0.25) == (1.25, 2.0)


def test_policy_does_on_rows_what_its_threshold_says(tmp_path: Path) -> None:
    table = planted()
    policy = choose_policy([table], tmp_path / "t.csv", "confidence_new", 0.1)
    assert policy.lower_is_riskier
    (tmp_path / "p.json").write_text(policy.model_dump_json(), encoding="utf-8")
    again = read_policy(tmp_path / "p.json")
    assert again == policy
    routes = again.routes(SignalRows(table.items, tuple(table.signals["confidence_new"].tolist())))
    to_old = np.array([entry.route == "old" for entry in routes])
    weights = route_weights(
        table.risk("confidence_new"), threshold_for(table.risk("confidence_new"), table.negative, 0.1)
    )
    decided = (weights == 0) | (weights == 1)
    assert (to_old[decided] == (weights[decided] == 1)).all()
    assert decided.sum() >= 599
    assert routes_csv(routes).splitlines()[0] == "item_id,value,route"


def test_ties_at_the_threshold_are_drawn_by_item() -> None:
    policy = choose_policy([planted()], Path("t.csv"), "knows", 0.1).model_copy(
        update={"threshold": 1.0, "tie_share": 0.3}
    )
    ways = [policy.route(f"item {place}", 1.0) for place in range(4000)]
    assert ways.count("old") / 4000 == pytest.approx(0.3, abs=0.03)
    assert ways == [policy.route(f"item {place}", 1.0) for place in range(4000)]
    assert policy.route("x", math.nan) == policy.route("x", 1.1) == "old"
    assert policy.route("x", 0.9) == "new"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a policy"),
        ("[]", "not a policy"),
        ('{"signal": "x"}', "update: Field required"),
        ('{"threshold": "high"}', "not a policy"),
    ],
)
def test_files_that_are_no_policy(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_policy(tmp_path / "p.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_policy(tmp_path / "none.json")


def test_policy_fields_are_checked() -> None:
    body = choose_policy([planted()], Path("t.csv"), "knows", 0.1).model_dump()
    for change in ({"tie_share": 2}, {"threshold": math.nan}, {"threshold": None, "tie_share": 0.5}, {"more": 1}):
        with pytest.raises(ValueError, match=r"tie_share|threshold|more"):
            Policy.model_validate({**body, **change})


def test_policies_need_flips_and_one_task() -> None:
    with pytest.raises(InputError, match="holds 10 negative flips, at least 25"):
        choose_policy([planted(300, 10)], Path("t.csv"), "knows", 0.1)
    with pytest.raises(InputError, match="2 fit; name one with --update and --task"):
        choose_policy([planted(), planted()], Path("t.csv"), "knows", 0.1)
    with pytest.raises(InputError, match="none fits"):
        choose_policy([planted()], Path("t.csv"), "knows", 0.1, task="other")
