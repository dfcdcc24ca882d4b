"""Which code ran which cell: a run that goes on under another commit says so, one that runs nothing anew does not."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import pytest

from safetyrepro import facts
from safetyrepro.config import load_config
from safetyrepro.crosspkg.experiment import Plan, run_experiment
from safetyrepro.crosspkg.facts import Experiment
from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.crosspkg.report import build_report, write_report
from safetyrepro.crosspkg.starts import earlier_starts, who_ran
from safetyrepro.crosspkg.steps import next_steps
from safetyrepro.errors import InputError
from safetyrepro.progress import Progress
from tests.crosspkg.report_experiment import MODELS, Shape, make, start
from tests.crosspkg.test_experiment import write_config

SMALL = {"items": 4, "benchmarks": ("bbq",), "models": MODELS[:1], "failed": False, "hostile": False}
BEGAN, OTHER = start("a" * 40), start("b" * 40)
OTHER_FILES = start("b" * 40, files="e" * 64)


def plan_of(folder: Path) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((folder / "experiment.json").read_text())
    return body


def started(folder: Path, *configs: Path) -> Experiment:
    return run_experiment(Plan(tuple(load_config(config) for config in configs), folder), Progress(None))


def test_a_run_that_goes_on_under_another_commit_says_so(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: dict[str, Any] = {"arms": ["matched"], "suites": ["native"]}
    first = write_config(tmp_path, tiny_model, name="first", **wanted)
    second = write_config(tmp_path, tiny_model, name="second", prompt={"template": "detailed"}, **wanted)
    out = tmp_path / "out"
    monkeypatch.setattr(facts, "commit", lambda: ("a" * 40, False))
    assert who_ran(started(out, first)).commits == ("a" * 40,)
    body = plan_of(out)
    (config,) = body["configs"]
    assert config["template_sha256"] == facts.template_sha256("truthfulqa", config["config"]["prompt"]["template"])
    assert len(config["item_sha256"]) == 4
    (key,) = body["starts"]
    assert [json.loads(cell.read_text())["start"] for cell in out.glob("cells/*/cell.json")] == [key]
    said = json.dumps(body["starts"])
    assert body["starts"][key]["machine"]["cores"] > 0
    assert platform.node() not in said
    assert str(tmp_path) not in said
    assert str(Path(facts.__file__).parent.parent) not in said

    monkeypatch.setattr(facts, "commit", lambda: ("b" * 40, True))
    kept = started(out, first)
    assert list(plan_of(out)["starts"].values())[1]["code"]["commit"] == "b" * 40
    assert who_ran(kept).commits == ("a" * 40,)
    gone_on = started(out, first, second)
    assert len(plan_of(out)["starts"]) == 2
    assert (who_ran(gone_on).commits, who_ran(gone_on).unknown) == (("a" * 40, "b" * 40), 0)


def test_the_report_names_code_and_machine(tmp_path: Path) -> None:
    experiment = load_experiment(make(tmp_path / "one", Shape(**SMALL, starts=(BEGAN,))))
    as_json, as_page, _ = write_report(experiment, tmp_path)
    (entry,) = json.loads(as_json.read_text())
    assert entry["versions"]["ran"] == {"starts": [{**BEGAN.model_dump(), "cells": 7}], "unknown": 0}
    assert len(entry["template_sha256"]) == len(entry["items_sha256"]) == 64
    page = as_page.read_text()
    assert "Code and machine" in page
    assert "a" * 40 in page
    assert "another commit" not in page


@pytest.mark.parametrize(
    ("starts", "sentence"),
    [
        ((BEGAN, OTHER), "2 commits ran its cells, whose source files that decide a result are the same."),
        ((BEGAN, OTHER_FILES), "2 commits ran its cells."),
        ((OTHER, OTHER_FILES), "2 states of them ran its cells, under one commit."),
    ],
    ids=["commits", "commits-and-files", "files"],
)
def test_two_states_of_the_code_are_a_sentence_of_the_report(tmp_path: Path, starts: Any, sentence: str) -> None:
    experiment = load_experiment(make(tmp_path / "two", Shape(**SMALL, starts=starts)))
    report = build_report(experiment)
    assert sum(one["cells"] for one in report[0]["versions"]["ran"]["starts"]) == 7
    assert sentence in next_steps(report)[-1]
    assert sentence in write_report(experiment, tmp_path)[1].read_text()


def test_a_folder_from_before_is_read_and_claims_nothing(tmp_path: Path) -> None:
    folder = make(tmp_path / "old", Shape(**SMALL))
    body = plan_of(folder)
    del body["starts"]
    for config in body["configs"]:
        del config["template_sha256"], config["item_sha256"]
    (folder / "experiment.json").write_text(json.dumps(body))
    for path in folder.glob("cells/*/cell.json"):
        cell = json.loads(path.read_text())
        del cell["start"]
        path.write_text(json.dumps(cell))
    experiment = load_experiment(folder)
    assert (who_ran(experiment).starts, who_ran(experiment).unknown) == ({}, 7)
    page = write_report(experiment, tmp_path)[1].read_text()
    assert "Code and machine" not in page
    assert "7 of 7 cells with results do not say which code and machine ran them" in page


@pytest.mark.parametrize(
    "change",
    [
        {"starts": []},
        {"starts": {"k": None}},
        {"starts": {"k": {"code": {}, "machine": {}}}},
        {"template_sha256": 7},
        {"item_sha256": ["a"]},
        {"item_sha256": {"a": None}},
    ],
    ids=str,
)
def test_other_facts_than_ours_are_one_sentence(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = make(tmp_path / "odd", Shape(**SMALL, starts=(BEGAN,)))
    body = plan_of(folder)
    if "starts" in change:
        body |= change
    else:
        body["configs"][0] |= change
    (folder / "experiment.json").write_text(json.dumps(body))
    with pytest.raises(InputError, match=r"experiment\.json: not an experiment"):
        load_experiment(folder)


def test_a_start_that_is_no_key_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path / "odd", Shape(**SMALL, starts=(BEGAN,)))
    path = next(iter(folder.glob("cells/*/cell.json")))
    path.write_text(json.dumps({**json.loads(path.read_text()), "start": ["k"]}))
    with pytest.raises(InputError, match="start is"):
        load_experiment(folder)


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"starts": 7}'])
def test_a_plan_that_is_damaged_has_no_earlier_starts(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "experiment.json").write_text(text)
    assert earlier_starts(tmp_path) == {}
