"""The main path on a real small model: the same tokens, sums and choices in all four runners, with and without memo."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from safetyrepro.config import load_config
from safetyrepro.crosspkg.experiment import Plan, narrowed, run_experiment
from safetyrepro.crosspkg.facts import Experiment
from safetyrepro.crosspkg.report import build_report
from safetyrepro.progress import Progress

ANCHORS = Path(__file__).parents[2] / "anchor_configs" / "anchors"
ITEMS = 5
DATA = os.environ.get("SAFETYREPRO_DATA")
KIND = "100" if DATA else "pocket"
NAMES = [f"{benchmark}-{KIND}{chat}.yaml" for benchmark in ("truthfulqa-mc1", "bbq") for chat in ("", "-chat")]


def run(out: Path, names: list[str], *, memo: bool) -> Experiment:
    configs = tuple(
        narrowed(load_config(ANCHORS / name), (), ["matched"], ["smollm2-135m-instruct"], ITEMS) for name in names
    )
    return run_experiment(Plan(configs, out, Path(DATA) if DATA else None, memo=memo), Progress(None))


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return run(tmp_path_factory.mktemp("main") / "out", NAMES, memo=True)


def sums(experiment: Experiment) -> dict[tuple[str, str, str], list[tuple[str, float | None]]]:
    return {
        (cell.facts.config_id, cell.facts.suite, record.item_id): [
            (str(candidate.ids_sha256), candidate.logprob) for candidate in record.candidates
        ]
        for cell in experiment.cells
        for record in cell.records
    }


def test_raw_and_chat_are_the_same_in_all_four_runners(experiment: Experiment) -> None:
    assert {cell.facts.state for cell in experiment.cells} == {"done"}
    reports = build_report(experiment)
    assert len(reports) == 4
    for body in reports:
        matched = body["arms"]["matched"]
        assert set(matched["suites"]) == {"lm_eval", "helm", "inspect_ai", "native"}
        assert matched["wire"]["sequences"] >= 15
        assert matched["wire"]["identical_ids"] == matched["wire"]["sequences"]
        assert matched["wire"]["max_logprob_difference"] <= 1e-3
        assert matched["wire"]["same_choices"] == matched["wire"]["items"] == ITEMS
        assert len({suite["score"] for suite in matched["suites"].values()}) == 1


def test_without_the_memo_nothing_changes(experiment: Experiment, tmp_path: Path) -> None:
    again = run(tmp_path / "out", NAMES[:1], memo=False)
    before = sums(experiment)
    assert sums(again) == {key: before[key] for key in sums(again)}
    assert not any(row for cell in again.cells if cell.wire for row in cell.wire.open() if '"memo": true' in row)
