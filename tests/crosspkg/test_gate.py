"""Thresholds, accepted classes, baseline and JUnit, on a difference and on a report."""

from __future__ import annotations

import copy
import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from safetyrepro.cli.anchor import anchor
from safetyrepro.cli.diff import diff as command
from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.crosspkg.gate import check_report, parse_gate, read_baseline, read_suppressions
from safetyrepro.crosspkg.junit import write_junit
from safetyrepro.crosspkg.report import build_report, write_report
from safetyrepro.errors import InputError
from tests.crosspkg.divergence.rows import free, set_prompt, write
from tests.crosspkg.report_experiment import Shape, make


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = make(tmp_path_factory.mktemp("made"), Shape(items=12, benchmarks=("bbq",), models=("one",), failed=False))
    return build_report(load_experiment(folder))


def test_the_report_names_classes_for_every_pair(report: list[dict[str, Any]]) -> None:
    (entry,) = report
    for arm, section in entry["arms"].items():
        suites = list(section["suites"])
        pairs = [(pair["a"], pair["b"]) for pair in entry["divergence"] if pair["arm"] == arm]
        assert len(pairs) == len(suites) * (len(suites) - 1) // 2
    for part in entry["attribution"]:
        total = sum(step["points"] for step in part["parts"]) + part["not_reproduced_points"]
        assert total == pytest.approx(part["gap_points"], abs=1e-5)


def test_a_spread_at_the_limit_fails_and_under_it_does_not(report: list[dict[str, Any]]) -> None:
    points = max(section["spread_points"] for section in report[0]["arms"].values())
    assert check_report(report, parse_gate([f"spread={points}"]), ()).failed
    assert not check_report(report, parse_gate([f"spread={points + 0.1}"]), ()).failed


def test_an_accepted_class_needs_its_place_and_its_reason(report: list[dict[str, Any]], tmp_path: Path) -> None:
    gate = parse_gate(["class=any"])
    found = {(pair["arm"], entry["class"]) for pair in report[0]["divergence"] for entry in pair["classes"]}
    assert found
    names = sorted({name for _, name in found})
    path = tmp_path / "accept.yaml"
    path.write_text("accept:\n" + "".join(f"- class: {name}\n  reason: known\n" for name in names))
    verdict = check_report(report, gate, read_suppressions(path))
    assert not verdict.failed
    assert {check.accepted for check in verdict.checks if check.failed} == {"known"}
    path.write_text(f"accept:\n- class: {names[0]}\n  reason: known\n  arm: shipped\n")
    assert check_report(report, gate, read_suppressions(path)).failed


@pytest.mark.parametrize(
    "text",
    [
        "accept:\n- class: bos.double\n",
        "accept:\n- class: bos.double\n  reason: ' '\n",
        "accept:\n- class: bos.triple\n  reason: why\n",
        "refuse: []\n",
    ],
)
def test_a_suppression_without_reason_or_class_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "accept.yaml"
    path.write_text(text)
    with pytest.raises(InputError):
        read_suppressions(path)


def test_a_baseline_accepts_what_it_has_and_holds_scores(report: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps(report))
    baseline = read_baseline(tmp_path)
    assert not check_report(report, parse_gate(["class=any,drift=0.5"]), (), baseline).failed
    moved = copy.deepcopy(report)
    row = next(iter(moved[0]["arms"]["nominal"]["suites"].values()))
    row["score"] += 0.02
    (failed,) = check_report(moved, parse_gate(["drift=1"]), (), baseline).failed
    assert "+2.0 points" in failed.message
    other = copy.deepcopy(report)
    other[0]["config_id"] = "0" * 64
    verdict = check_report(other, parse_gate(["drift=1"]), (), baseline)
    assert not verdict.failed
    assert [check.message for check in verdict.unmeasured] == [
        "the baseline has no such config and model: nothing to compare with"
    ]
    assert not check_report(other, parse_gate(["spread=100"]), (), baseline).unmeasured
    write_junit(tmp_path / "checks.xml", verdict)
    (suite,) = ET.parse(tmp_path / "checks.xml").getroot()
    assert (suite.attrib["failures"], suite.attrib["errors"]) == ("0", "1")


@pytest.mark.parametrize("lacking", ["the baseline", "this run"])
def test_a_suite_without_a_counterpart_is_not_measured(report: list[dict[str, Any]], lacking: str) -> None:
    cut = copy.deepcopy(report)
    name = next(iter(cut[0]["arms"]["nominal"]["suites"]))
    del cut[0]["arms"]["nominal"]["suites"][name]
    new, old = (report, cut) if lacking == "the baseline" else (cut, report)
    verdict = check_report(new, parse_gate(["drift=1"]), (), old)
    assert [check.message for check in verdict.unmeasured] == [
        f"{lacking} has no score of {name}: nothing to compare with"
    ]


def test_nothing_to_compare_with_ends_with_3_and_is_no_finding(tmp_path: Path) -> None:
    shapes = (Shape(items=6, benchmarks=(name,), models=("one",), failed=False) for name in ("bbq", "truthfulqa"))
    new, old = (make(tmp_path / str(number), shape) for number, shape in enumerate(shapes))
    write_report(load_experiment(old), old)
    ended = CliRunner().invoke(
        anchor, ["report", str(new), "--fail-on", "drift=1", "--baseline", str(old)], standalone_mode=False
    )
    assert ended.return_value == 3, ended.output
    assert "Not measured: bbq, one: the baseline has no such config and model" in ended.stderr
    assert "Over the threshold" not in ended.output


@pytest.mark.parametrize("body", ["", "{}", "[1]", "[{}]", '"x"', "null", "[" * 100_000])
def test_a_baseline_that_is_no_report_is_refused(body: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(body)
    with pytest.raises(InputError):
        read_baseline(tmp_path)
    with pytest.raises(InputError):
        read_baseline(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("arms",), {"matched": {}}, "0.arms.matched.suites: Field required"),
        (("arms", "matched", "suites"), {"native": 1}, "0.arms.matched.suites.native: "),
        (("arms", "matched", "suites", "native", "score"), "0.5", "score: Input should be a valid number, found '0.5'"),
        (("arms", "matched", "suites", "native", "score"), math.nan, "0.arms.matched.suites.native.score: "),
        (("config_id",), ["x"], "0.config_id: "),
        (("divergence",), {}, "0.divergence: "),
        (("divergence",), [{"a": "helm", "b": "native", "classes": []}], "0.divergence.0.arm: Field required"),
        (("divergence", 0, "a"), [], "0.divergence.0.a: "),
        (("divergence", 0, "classes"), None, "0.divergence.0.classes: "),
        (("divergence", 0, "classes"), [{}], "0.divergence.0.classes.0.class: Field required"),
    ],
)
def test_a_baseline_with_a_field_that_is_none_is_refused(
    report: list[dict[str, Any]], tmp_path: Path, place: tuple[Any, ...], value: Any, message: str
) -> None:
    spoilt = copy.deepcopy(report)
    *way, last = place
    inside: Any = spoilt[0]
    for step in way:
        inside = inside[step]
    inside[last] = value
    path = tmp_path / "report.json"
    path.write_text(json.dumps(spoilt))
    with pytest.raises(InputError, match=re.escape(str(path)) + ".*" + re.escape(message)):
        read_baseline(tmp_path)


@pytest.mark.parametrize("text", ["spread", "spread=x", "spread=-1", "spread=nan", "class=bos.triple", "speed=1"])
def test_a_threshold_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_gate([text])


def test_junit_counts_failures_and_holds_any_text(report: list[dict[str, Any]], tmp_path: Path) -> None:
    changed = copy.deepcopy(report)
    changed[0]["model"] = "odd \x00 <name> \ud800"
    verdict = check_report(changed, parse_gate(["spread=0", "class=any"]), ())
    write_junit(tmp_path / "checks.xml", verdict)
    root = ET.parse(tmp_path / "checks.xml").getroot()
    assert sum(int(suite.attrib["failures"]) for suite in root) == len(verdict.failed)
    assert len(root.findall(".//testcase")) == len(verdict.checks)


def test_the_page_shows_causes_and_escapes_them(tmp_path: Path) -> None:
    made = make(tmp_path, Shape(items=6, benchmarks=("bbq",), models=("one",), failed=False))
    _, page, _ = write_report(load_experiment(made), made)
    text = page.read_text(encoding="utf-8")
    assert "Why the suites differ" in text
    assert "<script>" not in text


def test_redacted_evidence_is_left_out(tmp_path: Path) -> None:
    made = make(tmp_path, Shape(items=6, benchmarks=("bbq",), models=("one",), failed=False))
    report = build_report(load_experiment(made), redact=True)
    assert all(not found["evidence"] for entry in report for p in entry["divergence"] for found in p["classes"])


def sides(folder: Path) -> tuple[str, str]:
    a, b = free(), free()
    for row in b:
        set_prompt(row, row["request"]["prompt"] + "\n")
    b[0]["score"] = 0.0
    b[0]["extracted"] = None
    return str(write(folder / "a.jsonl", a)), str(write(folder / "b.jsonl", b))


def test_the_command_ends_with_1_at_a_threshold(tmp_path: Path) -> None:
    a, b = sides(tmp_path)
    junit = tmp_path / "checks.xml"
    runner = CliRunner()
    quiet = runner.invoke(command, [a, b], standalone_mode=False)
    assert quiet.return_value == 0
    assert "prompt.whitespace" in quiet.output
    assert quiet.output.splitlines()[-1].startswith("Next:")
    over = runner.invoke(
        command, [a, b, "--fail-on", "class=prompt", "--junit", str(junit), "--json"], standalone_mode=False
    )
    assert over.return_value == 1
    assert json.loads(over.stdout)["items"] == 12
    assert ET.parse(junit).getroot().find(".//failure") is not None


def test_redacted_output_has_no_evidence(tmp_path: Path) -> None:
    a, b = sides(tmp_path)
    runner = CliRunner()
    told = "read_by_a_alone"
    for form in ([], ["--json"]):
        whole, cut = (
            runner.invoke(command, [a, b, *form, *more], standalone_mode=False).output for more in ([], ["--redact"])
        )
        assert told in whole
        assert told not in cut
        assert "prompt.whitespace" in cut


def test_the_command_attributes_and_lists(tmp_path: Path) -> None:
    a, b = sides(tmp_path)
    runner = CliRunner()
    parts = runner.invoke(command, [a, b, "--attribute", "--json"], standalone_mode=False)
    body = json.loads(parts.stdout)["attribution"]
    total = sum(part["points"] for part in body["parts"]) + body["not_reproduced_points"]
    assert total == pytest.approx(body["gap_points"], abs=1e-9)
    listed = json.loads(runner.invoke(command, ["--list", "--json"], standalone_mode=False).stdout)["detectors"]
    assert {"name", "classes", "looks_at"} <= set(listed[0])


@pytest.mark.parametrize("arguments", [[], ["a"], ["a", "b", "--model", "m"], ["a", "b", "--fail-on", "drift=1"]])
def test_the_command_refuses_what_it_cannot_do(arguments: list[str]) -> None:
    with pytest.raises(InputError):
        CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False)
