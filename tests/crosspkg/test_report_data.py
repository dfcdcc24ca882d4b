"""report.json: the keys that others rely on, figures that can be recounted, and a finding that follows from them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.crosspkg.finding import finding
from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.crosspkg.orders import order_sentences
from safetyrepro.crosspkg.outcomes import item_scores, record_score
from safetyrepro.crosspkg.report import build_report, write_report
from safetyrepro.crosspkg.steps import next_steps
from safetyrepro.crosspkg.words import items_text, kind_of_items
from tests.crosspkg.report_experiment import MODELS, SCRIPT, Shape, make


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("report") / "made")


@pytest.fixture(scope="module")
def report(folder: Path) -> list[dict[str, Any]]:
    return build_report(load_experiment(folder))


def entry_of(report: list[dict[str, Any]], benchmark: str, model: str) -> dict[str, Any]:
    return next(entry for entry in report if (entry["benchmark"], entry["model"]) == (benchmark, model))


def test_one_object_per_config_and_model_with_the_fixed_keys(report: list[dict[str, Any]]) -> None:
    assert [(entry["benchmark"], entry["model"]) for entry in report] == [
        (benchmark, model) for benchmark in ("truthfulqa", "bbq") for model in MODELS
    ]
    for entry in report:
        assert len(entry["config_id"]) == 64
        assert {pair["arm"] for pair in entry["divergence"]} <= set(entry["arms"])
        for arm in entry["arms"].values():
            assert {"suites", "spread_points", "spread_ci", "wire"} <= set(arm)
            assert {"sequences", "identical_ids", "max_logprob_difference"} <= set(arm["wire"])
            for row in arm["suites"].values():
                assert {"n", "score", "ci", "statuses", "prompt_example"} <= set(row)
                assert row["ci"][0] <= row["score"] <= row["ci"][1]
                assert sum(row["statuses"].values()) == 24
    assert list(report[0]["arms"]["nominal"]["suites"]) == ["lm_eval", "helm", "inspect_ai"]
    assert list(report[0]["arms"]["matched"]["suites"]) == ["lm_eval", "helm", "inspect_ai", "native"]


def test_scores_can_be_recounted_from_the_records(folder: Path, report: list[dict[str, Any]]) -> None:
    experiment = load_experiment(folder)
    for cell in experiment.cells:
        if cell.facts.state != "done":
            continue
        benchmark = cell.records[0].benchmark
        row = entry_of(report, benchmark, cell.facts.model)["arms"][cell.facts.arm]["suites"][cell.facts.suite]
        scores = [record.score for record in cell.records]
        assert row["score"] == pytest.approx(sum(s for s in scores if s is not None) / 24, abs=1e-6)
        assert row["statuses"].get("unparsed", 0) == sum(record.status == "unparsed" for record in cell.records)


def test_spread_is_largest_minus_smallest(report: list[dict[str, Any]]) -> None:
    arm = report[0]["arms"]["nominal"]
    scores = [row["score"] for row in arm["suites"].values()]
    assert arm["spread_points"] == pytest.approx(100 * (max(scores) - min(scores)), abs=1e-3)
    assert arm["spread_ci"][0] <= arm["spread_points"] <= arm["spread_ci"][1]
    assert len(arm["spread"]["pairwise"]) == 3
    assert arm["spread"]["draws"] >= 9_999


def test_cells_without_result_are_named_with_their_reason(report: list[dict[str, Any]]) -> None:
    arm = entry_of(report, "bbq", MODELS[1])["arms"]["nominal"]
    assert "helm" not in arm["suites"]
    assert arm["without_result"]["helm"]["state"] == "failed"
    assert SCRIPT in arm["without_result"]["helm"]["reason"]
    assert arm["without_result"]["native"]["state"] == "absent"
    assert set(arm["order"][0]["suites"]) == {"lm_eval", "inspect_ai"}


def test_matched_arm_agrees_and_nominal_does_not(report: list[dict[str, Any]]) -> None:
    for entry in report:
        wire = entry["arms"]["matched"]["wire"]
        assert wire["sequences"] == wire["identical_ids"] == wire["on_wire"] == 24 * 4
        assert wire["max_logprob_difference"] == 0
        assert wire["same_choices"] == wire["items"] == 24
        assert entry["arms"]["matched"]["spread_points"] == 0
        assert entry["arms"]["nominal"]["wire"]["identical_ids"] == 0


def test_disagreements_hold_what_each_sent_and_got(report: list[dict[str, Any]]) -> None:
    disagreements = report[0]["arms"]["nominal"]["disagreements"]
    assert disagreements["differing"] == len(disagreements["listed"]) > 0
    hostile = next(item for item in disagreements["listed"] if item["item_id"] == "truthfulqa-1")
    assert SCRIPT in hostile["suites"]["inspect_ai"]["response"]["text"]
    huge = hostile["suites"]["helm"]["response"]
    assert huge["chars"] > 1_000_000
    assert len(huge["text"]) <= 4_000
    assert hostile["suites"]["lm_eval"]["candidates"][0]["logprob"] is not None
    assert report[0]["arms"]["matched"]["disagreements"]["differing"] == 0


def test_written_twice_it_is_the_same(folder: Path, tmp_path: Path) -> None:
    experiment = load_experiment(folder)
    first = [path.read_bytes() for path in write_report(experiment, tmp_path / "a")[:2]]
    second = [path.read_bytes() for path in write_report(experiment, tmp_path / "b")[:2]]
    assert first == second
    assert isinstance(json.loads(first[0]), list)


def test_redacted_report_holds_no_text(folder: Path, tmp_path: Path) -> None:
    as_json, as_page, _ = write_report(load_experiment(folder), tmp_path, redact=True)
    for path in (as_json, as_page):
        text = path.read_text(encoding="utf-8")
        for secret in ("bridge number", "twice as long", "hard to tell", "lorem ipsum", "alert(1)"):
            assert secret not in text
    assert (
        json.loads(as_json.read_text(encoding="utf-8"))[0]["arms"]["nominal"]["suites"]["helm"]["prompt_example"]
        is None
    )


def test_errors_leave_the_denominator_unparsed_do_not(folder: Path) -> None:
    experiment = load_experiment(folder)
    cell = next(cell for cell in experiment.cells if cell.facts.suite == "inspect_ai" and cell.facts.arm == "nominal")
    records = list(cell.records)
    object.__setattr__(records[0], "status", "error")
    object.__setattr__(records[1], "status", "unparsed")
    object.__setattr__(records[1], "score", None)
    object.__setattr__(cell, "records", tuple(records[:-2]))
    items = item_scores(cell, planned=24)
    assert items.scores[records[0].item_id] is None
    assert items.scores[records[1].item_id] == 0.0
    assert items.statuses["missing"] == 2
    assert record_score(records[0]) is None


def test_finding_claims_the_harness_only_with_spread_and_control(tmp_path: Path) -> None:
    shape = Shape(
        items=60,
        benchmarks=("truthfulqa",),
        models=MODELS[:1],
        nominal_skill={"lm_eval": (0.9, 0.3), "helm": (0.1, 0.3), "inspect_ai": (0.3, 0.3)},
        failed=False,
        hostile=False,
    )
    report = build_report(load_experiment(make(tmp_path / "far", shape)))
    sentence = finding(report)
    arm = report[0]["arms"]["nominal"]
    low, high = (100 * f(row["score"] for row in arm["suites"].values()) for f in (min, max))
    assert f"between {low:.0f} and {high:.0f} of 100" in sentence
    assert sentence.endswith("the difference is the harness, not the model.")
    broken = copy.deepcopy(report)
    broken[0]["arms"]["matched"]["wire"]["identical_ids"] -= 1
    assert "not the model" not in finding(broken)
    assert "the positive control does not hold" in finding(broken)
    assert any("wire tables first" in step for step in next_steps(broken))
    without = copy.deepcopy(report)
    del without[0]["arms"]["matched"]
    assert "not the model" not in finding(without)


def test_finding_of_equal_suites_claims_nothing(tmp_path: Path) -> None:
    skill = {"lm_eval": (0.4, 0.4), "helm": (0.42, 0.42), "inspect_ai": (0.55, 0.55)}
    shape = Shape(nominal_skill=skill, failed=False, hostile=False)
    report = build_report(load_experiment(make(tmp_path / "near", shape)))
    assert report[0]["arms"]["nominal"]["spread"]["p"] > 0.05
    sentence = finding(report)
    assert "no difference" in sentence
    assert "not the model" not in sentence


def test_one_broken_token_is_found_and_shown(tmp_path: Path) -> None:
    shape = Shape(items=12, benchmarks=("bbq",), models=MODELS[:1], break_matched=True, failed=False)
    report = build_report(load_experiment(make(tmp_path / "broken", shape)))
    wire = report[0]["arms"]["matched"]["wire"]
    assert (wire["sequences"], wire["identical_ids"]) == (48, 0)
    pairs = {(pair["a"], pair["b"]): pair["identical_ids"] for pair in wire["pairs"]}
    assert pairs["lm_eval", "native"] == 48
    assert pairs["lm_eval", "helm"] == 0
    example = wire["examples"][0]["runners"]
    assert example["helm"]["ids"][:2] == [1, 1]
    assert example["native"]["ids"] == example["helm"]["ids"][1:]


def test_certified_reversal_is_said_and_a_point_reversal_is_not(tmp_path: Path) -> None:
    skill = {"lm_eval": (0.9, 0.1), "helm": (0.1, 0.9), "inspect_ai": (0.5, 0.5)}
    shape = Shape(items=60, benchmarks=("truthfulqa",), nominal_skill=skill, failed=False, hostile=False)
    report = build_report(load_experiment(make(tmp_path / "reversed", shape)))
    pair = report[0]["arms"]["nominal"]["order"][0]
    assert pair["certified_reversal"]
    sentence = order_sentences(report)[0]
    assert (
        f"whether {MODELS[0]} beats {MODELS[1]} depends on the suite: it is ahead in lm-eval and behind in HELM"
        in sentence
    )
    weak = copy.deepcopy(report)
    for entry in weak:
        entry["arms"]["nominal"]["order"][0] |= {
            "certified_reversal": False,
            "certified": {"a": 0, "b": 0, "neither": 3},
        }
    assert "none of the three suites tells" in order_sentences(weak)[0]
    assert "noise alone" in order_sentences(weak)[0]


@pytest.mark.parametrize(
    ("benchmark", "absent", "failed", "said"),
    [
        (
            "bbq",
            ("helm", "inspect_ai"),
            (),
            "since only lm-eval has a task of its own that could be run for BBQ; pushed",
        ),
        (
            "bbq",
            ("lm_eval", "helm", "inspect_ai"),
            (),
            "since none of them has a task of its own that could be run for BBQ; pushed",
        ),
        ("bbq", ("lm_eval",), ("helm",), "since only that of Inspect AI gave a result (1 cell failed); pushed"),
    ],
    ids=["one-task", "no-task", "one-failed"],
)
def test_why_own_tasks_cannot_be_compared_is_said(
    tmp_path: Path, benchmark: str, absent: tuple[str, ...], failed: tuple[str, ...], said: str
) -> None:
    shape = Shape(items=6, benchmarks=(benchmark,), models=MODELS[:1], failed=False, hostile=False)
    folder = make(tmp_path / "few", shape)
    for suite in (*absent, *failed):
        (path,) = folder.glob(f"cells/*nominal-{suite}/cell.json")
        state = {"state": "absent" if suite in absent else "failed", "reason": "so it is"}
        path.write_text(json.dumps({**json.loads(path.read_text()), **state}))
    assert f"The suites' own tasks cannot be compared, {said}" in finding(build_report(load_experiment(folder)))


def test_a_report_of_the_matched_arm_alone_says_so(tmp_path: Path) -> None:
    folder = make(tmp_path / "one", Shape(items=6, benchmarks=("bbq",), models=MODELS[:1], failed=False))
    report = build_report(load_experiment(folder))
    del report[0]["arms"]["nominal"]
    assert "cannot be compared, since the matched arm alone was run; pushed" in finding(report)


def test_the_positive_control_is_summed_over_all_configs_and_names_them(tmp_path: Path) -> None:
    folder = make(tmp_path / "two", Shape(items=6, models=MODELS[:1], failed=False, hostile=False))
    report = build_report(load_experiment(folder))
    wires = [entry["arms"]["matched"]["wire"] for entry in report]
    assert len(wires) == 2
    for entry in report:
        del entry["arms"]["nominal"]
    sent, chosen = (sum(wire[name] for wire in wires) for name in ("sequences", "items"))
    said = finding(report)
    assert [kind_of_items(entry) for entry in report] == ["TruthfulQA-style pocket items", "BBQ-style pocket items"]
    assert f"the same tokens for {sent} of {sent} sequences and agree on {chosen} of {chosen} choices" in said
    assert f"({' and '.join(map(kind_of_items, report))})" in said
    assert items_text(report[0], 1).startswith("1 TruthfulQA-style pocket item (")
    assert items_text(report[0], 2).startswith("2 TruthfulQA-style pocket items (")
    report[1]["arms"]["shipped"] = {**report[1]["arms"]["matched"], "suites": {}, "without_result": {}, "spread": None}
    assert "the matched arm alone was run (TruthfulQA) and none of them" in finding(report)


def test_chance_is_no_matter_of_rank_with_one_model(tmp_path: Path) -> None:
    report = build_report(load_experiment(make(tmp_path / "one", Shape(items=6, models=MODELS[:1], failed=False))))
    for section in report[0]["arms"].values():
        for row in section["suites"].values():
            row["at_chance"] = True
    (said,) = [step for step in next_steps(report) if "at chance in every suite" in step]
    assert said.startswith("Conclude nothing about the model")
    other = {**report[0], "model": "other"}
    assert any(step.startswith("Claim no rank for a model at chance") for step in next_steps([*report, other]))


def test_nothing_to_compare_is_said(tmp_path: Path) -> None:
    folder = make(tmp_path / "alone", Shape(items=6, benchmarks=("bbq",), models=MODELS[:1], failed=False))
    for cell in folder.glob("cells/*"):
        if not cell.name.endswith("nominal-helm"):
            (cell / "cell.json").unlink()
    report = build_report(load_experiment(folder))
    assert report[0]["arms"]["nominal"]["spread_points"] is None
    assert "nothing can be compared" in finding(report)
    assert write_report(load_experiment(folder), tmp_path / "out")[1].is_file()
