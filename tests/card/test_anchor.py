"""The card of an anchor run: what was asked, what the suites held, and the spreads of report.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from safetyrepro.analysis.card.fact import Given, NotDisclosed
from safetyrepro.analysis.card.model import Card
from safetyrepro.analysis.card.openness import gaps
from safetyrepro.card.words import headline
from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.crosspkg.report import build_report
from tests.card.conftest import Run, card_of
from tests.crosspkg.report_experiment import Shape, make


def test_spreads_are_those_of_the_report(anchor: Path, anchor_card: Card) -> None:
    report = {
        (entry["config_id"], entry["model"], arm): section
        for entry in build_report(load_experiment(anchor))
        for arm, section in entry["arms"].items()
    }
    assert len(anchor_card.stability.suites) == len(report) == 8
    for one in anchor_card.stability.suites:
        section = report[one.config_id, one.model, one.arm]
        assert one.spread_points == pytest.approx(section["spread_points"], abs=1e-5)
        assert one.null_q95_points == pytest.approx(section["spread"]["null_q95"], abs=1e-5)
        assert one.p == pytest.approx(section["spread"]["p"], abs=1e-5)
        assert one.scores == pytest.approx(section["spread"]["scores"], abs=1e-5)
        assert one.verdict == ("suites differ" if section["spread"]["p"] <= 0.05 else "not told apart")


def test_settings_that_a_suite_did_not_hold_are_named(anchor_card: Card) -> None:
    departures = anchor_card.benchmarks[0].departures
    assert isinstance(departures, Given)
    template = {one.suite: one.got for one in departures.value if one.setting == "prompt.template"}
    assert template["inspect_ai"] == "asks for ANSWER: $LETTER"
    assert {one.arm for one in departures.value} == {"nominal"}


def test_nothing_was_sealed_and_the_card_says_so(anchor_card: Card) -> None:
    assert isinstance(anchor_card.envelope.seal, NotDisclosed)
    assert anchor_card.envelope.ledger_head.state == "not applicable"
    assert isinstance(anchor_card.benchmarks[0].template_sha256, NotDisclosed)
    assert isinstance(anchor_card.run.code_commit, NotDisclosed)


def test_cells_without_a_result_are_counted(anchor_card: Card) -> None:
    """Four of the native runner's nominal cells are absent, one of HELM's failed."""
    assert (anchor_card.envelope.cells.value, anchor_card.envelope.cells_with_results.value) == (32, 27)


def test_suites_have_versions_and_locks(anchor_card: Card) -> None:
    by_name = {suite.name: suite for suite in anchor_card.suites}
    assert list(by_name) == ["lm_eval", "helm", "inspect_ai", "inspect_ai@0.3.258", "native"]
    assert by_name["inspect_ai@0.3.258"].arms.state == "not applicable"
    assert by_name["helm"].version.value == "0.5.16"
    assert len(by_name["helm"].lock_sha256.value) == 64
    assert by_name["native"].lock_sha256.state == "not applicable"
    assert by_name["native"].arms.value == ("matched",)


def test_the_models_spec_is_found_by_its_cells(anchor_card: Card) -> None:
    assert [(model.quant.value, model.compute_dtype.value) for model in anchor_card.models] == [("nf4", "float32")] * 2
    assert anchor_card.models[0].source_quant.value == "Q4_1"


def test_a_card_in_its_runs_folder_is_held_to_it(anchor: Path, run: Run, tmp_path: Path) -> None:
    code, out, _ = run(anchor, "--out", tmp_path)
    assert code == 0
    assert "Next: open" in out
    code, out, _ = run("check", tmp_path / "card.json", "--run", anchor, "--json")
    found = json.loads(out)
    assert (code, found["run"]["matches"]) == (0, True)
    assert found["kind"] == "anchor"


def test_odd_details_are_no_traceback(anchor: Path, tmp_path: Path, run: Run) -> None:
    body = json.loads((anchor / "experiment.json").read_text())
    body["models"][0]["details"] = None
    body["suites"][0]["version"] = 7
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "cells").symlink_to(anchor / "cells")
    (odd / "experiment.json").write_text(json.dumps(body))
    code, _, err = run(odd)
    assert code == 2
    assert "fits no card" in err
    assert not (odd / "card.json").exists()


def test_the_card_is_the_same_every_time(anchor: Path, anchor_card: Card) -> None:
    assert card_of(anchor) == anchor_card


def test_a_reversal_beyond_noise_is_the_headline(tmp_path: Path) -> None:
    skill = {"lm_eval": (0.95, 0.05), "helm": (0.05, 0.95), "inspect_ai": (0.5, 0.5)}
    shape = Shape(items=60, benchmarks=("truthfulqa",), nominal_skill=skill, hostile=False)
    card = card_of(make(tmp_path / "out", shape))
    (found,) = card.stability.benchmarks
    assert (found.verdict, found.reason) == ("certified reversal", None)
    assert found.pairs[0].certified_reversal is True
    assert headline(card, gaps(card)).startswith(
        "The ranking depends on the configuration, beyond item noise, on TruthfulQA. The suites' scores differ beyond "
        "chance in 2 of 4 comparisons"
    )
