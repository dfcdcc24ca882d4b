"""What a class says beside its name: items, evidence, what it accounts for; and nuisance that is no cause."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.crosspkg.divergence import ClassFound, Difference
from tests.crosspkg.divergence.cases import CASES
from tests.crosspkg.divergence.rows import LETTERS, Row, answer, classes, diff, free, scored, set_prompt

BY_NAME = {case.name: case for case in CASES}


def planted(folder: Path, name: str) -> tuple[Difference, ClassFound]:
    case = BY_NAME[name]
    difference = diff(folder, case.a, case.b)
    (found,) = difference.classes
    return difference, found


def test_the_last_byte_is_made_visible(tmp_path: Path) -> None:
    _, found = planted(tmp_path, "final_newline_stripped")
    (change,) = found.evidence["changes"]
    assert (change["a"], change["b"], change["items"]) == (":⏎", ":", 12)


def test_a_no_break_space_is_named(tmp_path: Path) -> None:
    _, found = planted(tmp_path, "no_break_space")
    assert "[U+00A0]" in found.evidence["changes"][0]["b"]


def test_the_token_that_differs_is_shown(tmp_path: Path) -> None:
    _, found = planted(tmp_path, "an_extra_space_piece")
    shown = found.evidence["examples"][0]
    assert 29_871 in shown["b"]
    assert 29_871 not in shown["a"]


def test_a_system_turn_is_shown(tmp_path: Path) -> None:
    _, found = planted(tmp_path, "default_system_turn")
    assert found.evidence["examples"][0]["b"] == "You are a helpful assistant."


def test_a_rule_accounts_for_all_that_it_changed(tmp_path: Path) -> None:
    difference, found = planted(tmp_path, "answers_in_markup")
    assert found.items == ("q0", "q3", "q6", "q9")
    assert found.score_changed == found.accounts_for == len(difference.changed) == 4
    assert found.evidence["recovered"] == {"read_by_a_alone": ["q0", "q3", "q6", "q9"]}


def test_each_of_two_causes_accounts_for_its_own(tmp_path: Path) -> None:
    a = free()
    b = copy.deepcopy(a)
    for row in b[:2]:
        row |= {"extracted": None, "score": 0.0}
    for row in b[2:5]:
        row["gold"] = LETTERS[(LETTERS.index(row["gold"]) + 2) % 4]
        row["score"] = 0.0
    found = {entry.id: entry for entry in diff(tmp_path, a, b).classes}
    assert {name: (len(entry.items), entry.accounts_for) for name, entry in found.items()} == {
        "extraction.rule": (2, 2),
        "gold.value": (3, 3),
    }


def test_two_causes_on_one_item_account_for_it_only_together(tmp_path: Path) -> None:
    a = free(6)
    b = copy.deepcopy(a)
    b[0] |= {"extracted": "X", "gold": "D", "score": 0.0}
    found = {entry.id: entry.accounts_for for entry in diff(tmp_path, a, b).classes}
    assert set(found) == {"extraction.rule", "gold.value"}


def test_what_needs_the_model_accounts_for_nothing_yet(tmp_path: Path) -> None:
    assert planted(tmp_path, "header")[1].accounts_for is None


def test_a_stop_text_accounts_for_what_it_cut(tmp_path: Path) -> None:
    _, found = planted(tmp_path, "numbers_stopped_at_the_point")
    assert found.score_changed == found.accounts_for == 6


def test_both_normalisations_are_predicted(tmp_path: Path) -> None:
    _, found = planted(tmp_path, "sum_against_sum_per_character")
    assert found.evidence["predicted_scores"]["a"] == {"none": 1.0, "char": 0.0}
    assert found.score_changed == found.accounts_for == 4


def test_a_shift_of_right_answers_shows_accuracies(tmp_path: Path) -> None:
    _, found = planted(tmp_path, "the_same_gold_scored_one_off")
    accuracies = found.evidence["accuracy_by_shift"]["b"]
    assert accuracies["-1"] > accuracies["+0"]


def test_truncated_outputs_have_a_rate_and_a_score_of_the_completed(tmp_path: Path) -> None:
    _, found = planted(tmp_path, "a_third_of_the_outputs_cut")
    assert found.evidence["b"]["rate"] == pytest.approx(1 / 3)
    assert found.evidence["b"]["score_on_completed"] > found.evidence["b"]["score"]


def test_a_failure_to_read_is_an_alarm(tmp_path: Path) -> None:
    difference, found = planted(tmp_path, "a_whole_run_unparsed")
    assert "12 of 12 answers were not read" in found.evidence["alarm"]
    assert any("next to none" in warning for warning in difference.warnings)


def test_repeats_show_their_spread(tmp_path: Path) -> None:
    _, found = planted(tmp_path, "logprobs_vary_at_temperature_0")
    assert found.evidence["largest_logprob_spread"] == pytest.approx(0.052)
    assert found.evidence["examples"][0]["a"]["repeats"] == 5


def test_both_averages_are_shown(tmp_path: Path) -> None:
    _, found = planted(tmp_path, "subtasks_averaged_two_ways")
    assert found.evidence["over_items"] == pytest.approx(0.1)
    assert found.evidence["over_groups"] == pytest.approx(0.5)
    assert found.evidence["sizes"] == {"small": 10, "large": 90}


def test_numerics_name_no_class_where_repeats_of_one_side_vary(tmp_path: Path) -> None:
    a = [row | {"repeat": number} for number in range(2) for row in free(3)]
    b = copy.deepcopy(a)
    for row in (*a, *b):
        row["meta"] = {"batch_size": 1 if row in a else 8}
    answer(a[3], " D", "D")
    answer(b[0], " D", "D")
    assert "nondeterminism" in classes(tmp_path, a, b)


def nuisance(rows: list[Row]) -> list[Row]:
    """Everything about a log that changes from run to run and is no cause."""
    changed = copy.deepcopy(rows)
    for number, row in enumerate(changed):
        row["request"] |= {"model": "served/other-name", "user": "me", "n": 1, "frequency_penalty": 0, "stream": False}
        row["response"] |= {"id": f"cmpl-{number}", "created": 1_700_000_000 + number, "model": "x", "object": "y"}
        row["meta"] |= {"suite": "another", "batch_size": 64, "compute_dtype": "bfloat16", "cached": True}
        row["extra"] = {"<script>": "\u202e"}
    return changed[::-1]


@pytest.mark.parametrize("rows", [free(), scored(), scored(letters=True)], ids=["free", "texts", "letters"])
def test_nuisance_is_no_cause(rows: list[Row], tmp_path: Path) -> None:
    assert classes(tmp_path, rows, nuisance(rows)) == set()


def test_a_log_without_requests_says_nothing_of_settings(tmp_path: Path) -> None:
    a = free()
    b = [{key: row[key] for key in ("item_id", "extracted", "gold", "score")} for row in a]
    assert classes(tmp_path, a, b) == set()
    assert classes(tmp_path, b, scored(letters=True)) <= {"unexplained"}


def test_unexplained_stays_beside_a_class_that_cannot_be_its_cause(tmp_path: Path) -> None:
    a = free()
    b = copy.deepcopy(a)
    for row in a:
        row["meta"]["temperature"] = 0.0
    for row in b:
        row["meta"]["temperature"] = 0.7
    answer(b[4], " A", "A")
    difference = diff(tmp_path, a, b)
    assert {found.id for found in difference.classes} == {"decoding.no_effect", "unexplained"}
    assert difference.unexplained == ("q4",)


def test_an_item_apart_stays_unexplained_where_others_have_a_cause(tmp_path: Path) -> None:
    a = free()
    b = copy.deepcopy(a)
    set_prompt(b[0], b[0]["request"]["prompt"] + "\n")
    answer(b[0], " D", "D")
    answer(b[5], " D", "D")
    difference = diff(tmp_path, a, b)
    assert difference.unexplained == ("q5",)


def test_hostile_values_become_plain_json(tmp_path: Path) -> None:
    import json

    a: list[dict[str, Any]] = [{"item_id": "x", "gold": float("nan"), "extracted": "\ud800", "score": 1}]
    b: list[dict[str, Any]] = [{"item_id": "x", "gold": [1, {"a": 2}], "extracted": 10**400, "score": float("nan")}]
    text = json.dumps(diff(tmp_path, a, b).to_json(), allow_nan=False)
    assert text.encode()


def test_what_was_not_generated_is_no_failure_to_read_it(tmp_path: Path) -> None:
    a, b = scored(), free()
    for place, row in enumerate(b):
        row["extracted"], row["score"] = None, 0.0
        if place % 2:
            row["response"]["choices"][0]["text"] = " \n"
    found = {entry.id: entry for entry in diff(tmp_path, a, b).classes}
    assert found["extraction.failure"].items == tuple(f"q{index}" for index in range(0, 12, 2))
    assert found["extraction.failure"].evidence["alarm"].startswith("12 of 12")
    assert len(found["scoring.path"].items) == 12


def repeated(rows: list[Row], *, turned: tuple[int, ...]) -> list[Row]:
    """The rows twice; in the second run some answers are other ones."""
    again = copy.deepcopy(rows)
    for index, row in enumerate(again):
        row["repeat"] = 1
        if index in turned:
            wrong = "A" if row["gold"] != "A" else "B"
            answer(row, f" {wrong}", wrong)
    return [{**row, "repeat": 0} for row in rows] + again


def test_a_difference_is_held_to_what_a_side_differs_from_itself(tmp_path: Path) -> None:
    a = repeated(free(), turned=(0, 1, 2, 3))
    b = free(right=7)
    difference = diff(tmp_path, a, b)
    assert difference.within is not None
    body = difference.to_json()["within"]
    assert body["a"]["scores"] == pytest.approx([8 / 12, 4 / 12])
    assert body["a"]["score_changed"] == ["q0", "q1", "q2", "q3"]
    assert body["b"] is None
    assert body["points"] == pytest.approx(100 * 4 / 12)
    assert body["inside"]
    assert not diff(tmp_path, repeated(free(right=12), turned=(0,)), free(right=0)).to_json()["within"]["inside"]


def test_steady_repeats_leave_the_difference_to_the_sides(tmp_path: Path) -> None:
    within = diff(tmp_path, repeated(free(), turned=()), free(right=7)).within
    assert within is not None
    assert (within.verdict.points, within.verdict.noise_points, within.verdict.inside) == (0, 0, False)
    assert diff(tmp_path, free(), free(right=7)).within is None


def test_a_version_that_no_log_holds_is_said_so(tmp_path: Path) -> None:
    a, b = free(), free()
    for row in b:
        row["meta"]["suite_version"] = None
    suites = diff(tmp_path, a, b).suites
    assert [str(suite) for suite in suites] == ["made 1.0", "made, version not recorded"]


def test_equal_ids_of_two_benchmarks_are_warned_of_first(tmp_path: Path) -> None:
    rows = [{**row, "meta": {"benchmark": "tales"}} for row in free(3)]
    others = [{**row, "meta": {"benchmark": "facts"}} for row in free(3)]
    found = diff(tmp_path, rows, others)
    assert "different benchmarks (a: 'tales'; b: 'facts')" in found.warnings[0]
    assert found.to_json()["warnings"] == list(found.warnings)
    assert not found.classes
    for same in (rows, free(3)):
        assert not diff(tmp_path, rows, same).warnings
