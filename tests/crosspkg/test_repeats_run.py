"""Repeats end to end: sampled text is drawn anew, a greedy run is computed anew and comes out the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.crosspkg.facts import CellOutcome
from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.gateway.wire import read_wire
from tests.crosspkg.test_experiment import anchor, write_config

SUITES = {"suites": ["lm_eval", "native"], "arms": ["matched"]}
SAMPLED = {
    "name": "sampled",
    "metric": "accuracy",
    "benchmark": {"name": "bbq", "source": "pocket", "items": {"count": 4, "seed": 1}},
    "scoring": {"path": "free"},
    "decoding": {"temperature": 1.0, "max_tokens": 8, "seed": 7},
}


@pytest.fixture(scope="module")
def out(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sampled config run twice in one runner, and then in two, of which the first has nothing left to do."""
    folder = tmp_path_factory.mktemp("repeats")
    config = write_config(folder, tiny_model, **SUITES, **SAMPLED)
    first = anchor(config, "--out", folder / "out", "--suite", "native", "--repeats", 2)
    assert first.returncode == 0, first.stderr
    assert "2 runs" in first.stdout
    second = anchor(config, "--out", folder / "out", "--repeats", 2)
    assert second.returncode == 0, second.stderr
    assert second.stderr.count("done before, kept") == 2
    return folder / "out"


def responses(cell: CellOutcome) -> dict[int, list[str | None]]:
    found: dict[int, list[str | None]] = {}
    for record in cell.records:
        found.setdefault(record.repeat, []).append(record.response)
    return found


def test_every_repeat_is_drawn_anew_and_alike_in_both_runners(out: Path) -> None:
    cells = load_experiment(out).cells
    drawn = [responses(cell) for cell in cells]
    assert [sorted(found) for found in drawn] == [[0, 1], [0, 1]]
    assert len({tuple(texts) for texts in drawn[0].values()}) == 2
    assert drawn[0] == drawn[1]


def test_no_repeat_is_served_from_the_memo_though_another_runner_asked_the_same(out: Path) -> None:
    for cell in load_experiment(out).cells:
        assert [repeat.facts.repeat for repeat in cell.repeats] == [1]
        for repeat in cell.repeats:
            assert repeat.wire is not None
            assert not any(row.memo for row in read_wire(repeat.wire))
            assert not repeat.facts.memo


def test_the_report_holds_the_spread_of_each_cell(out: Path) -> None:
    (entry,) = json.loads((out / "report.json").read_text())
    section: dict[str, Any] = entry["arms"]["matched"]
    for row in section["suites"].values():
        assert row["repeats"]["n"] == 2
        assert row["repeats"]["output_changed"]
        assert row["single_draw"] == []
    assert section["spread_points"] == 0
    assert section["wire"]["identical_ids"] == section["wire"]["sequences"] == 8
    assert [pair["classes"] for pair in entry["divergence"]] == [[]]


def test_greedy_repeats_are_computed_anew_and_the_same(tiny_model: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, tiny_model, suites=["native"], arms=["matched"], name="greedy")
    ended = anchor(config, "--out", tmp_path / "out", "--repeats", 2)
    assert ended.returncode == 0, ended.stderr
    assert "alike in every score and choice, to the last output" in ended.stdout
    (cell,) = load_experiment(tmp_path / "out").cells
    (repeat,) = cell.repeats
    assert repeat.wire is not None
    assert not any(row.memo for row in read_wire(repeat.wire))
    sums = [[c.logprob for r in cell.records if r.repeat == number for c in r.candidates] for number in (0, 1)]
    assert sums[0] == sums[1]
