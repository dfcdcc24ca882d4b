"""The card of an anchor run: what was asked, what the suites held, and the spreads of report.json."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from safetyrepro.analysis.card.fact import Given, NotDisclosed, unverified
from safetyrepro.analysis.card.model import Card
from safetyrepro.analysis.card.openness import gaps
from safetyrepro.card.ran import run_card
from safetyrepro.card.words import headline
from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.crosspkg.report import build_report
from safetyrepro.crosspkg.starts import Start
from tests.card.conftest import Run, card_of
from tests.crosspkg.report_experiment import MODELS, Shape, make, start

SMALL = Shape(items=6, benchmarks=("bbq",), models=MODELS[:1], failed=False, hostile=False)


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


def test_what_ran_it_and_what_was_asked_are_given(anchor_card: Card) -> None:
    ran, asked = anchor_card.run, anchor_card.benchmarks[0]
    assert anchor_card.models[0].files_sha256.value == {"config.json": hashlib.sha256(b"config").hexdigest()}
    assert (ran.code_commit.state, ran.code_commit.value) == ("given", "c" * 40)
    assert (ran.code_dirty.state, ran.code_dirty.value) == ("given", False)
    assert (ran.code_sha256.state, ran.code_sha256.value) == ("given", "f" * 64)
    assert ran.hardware.value == ({"system": "Linux-6.1", "processor": "x86_64", "cores": "4", "threads": "2"},)
    assert asked.template_sha256.value == {"minimal": hashlib.sha256(b"template").hexdigest()}
    pairs = sorted([f"bbq-{index}", hashlib.sha256(f"bbq-{index}".encode()).hexdigest()] for index in range(12))
    assert asked.items_sha256.value == hashlib.sha256(json.dumps(pairs, separators=(",", ":")).encode()).hexdigest()


def test_a_folder_from_before_discloses_none_of_it(tmp_path: Path) -> None:
    card = card_of(make(tmp_path / "old", SMALL))
    assert isinstance(card.benchmarks[0].template_sha256, NotDisclosed)
    assert isinstance(card.benchmarks[0].items_sha256, NotDisclosed)
    assert isinstance(card.models[0].files_sha256, NotDisclosed)
    for fact in (card.run.code_commit, card.run.code_dirty, card.run.code_sha256):
        assert isinstance(fact, NotDisclosed)
    assert card.run.hardware.value == ({"threads": "2"},)


@pytest.mark.parametrize(
    ("second", "commit", "reason", "sha256"),
    [
        (
            start("b" * 40),
            f"{'c' * 40}, {'b' * 40}",
            "ran under two commits, whose source files that decide a result are the same",
            "f" * 64,
        ),
        (start("b" * 40, files="e" * 64), f"{'c' * 40}, {'b' * 40}", "ran under two commits", "unverified"),
        (start(dirty=True), "c" * 40, "tracked files differ from the commit", "f" * 64),
        (
            start(None, dirty=None),
            "c" * 40,
            "a part was run by a package that is no checkout",
            "f" * 64,
        ),
    ],
    ids=["commits", "commits-and-files", "changed", "no-checkout"],
)
def test_a_run_that_went_on_under_other_code_is_unverified(
    tmp_path: Path, second: Start, commit: str, reason: str, sha256: str
) -> None:
    ran = run_card(load_experiment(make(tmp_path / "out", replace(SMALL, starts=(start(), second)))))
    assert ran.code_commit == unverified(commit, reason)
    assert ran.code_sha256.value == sha256
    assert (ran.code_sha256.state == "unverified") == (sha256 == "unverified")
    assert ran.code_dirty.state == ("not disclosed" if second.code.dirty is None else "given")


def test_cells_from_before_leave_the_rest_unverified(tmp_path: Path) -> None:
    folder = make(tmp_path / "out", replace(SMALL, starts=(start(),)))
    path = next(iter(sorted(folder.glob("cells/*matched*/cell.json"))))
    path.write_text(json.dumps({**json.loads(path.read_text()), "start": None}))
    ran = run_card(load_experiment(folder))
    reason = "1 of 7 cells with results do not say what ran them"
    assert ran.code_commit == unverified("c" * 40, reason)
    assert ran.code_dirty == unverified(False, reason)
    assert ran.code_sha256 == unverified("f" * 64, reason)
    assert ran.hardware.state == "unverified"


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
