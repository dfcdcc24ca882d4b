"""Cells that were run again: what is read of them, and what the report and the checks make of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from safetyrepro.cli.diff import diff as diff_command
from safetyrepro.crosspkg.cell_folder import read_cell, repeat_folder, write_cell
from safetyrepro.crosspkg.finding import finding
from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.crosspkg.gate import check_report, parse_gate
from safetyrepro.crosspkg.headlines import headlines
from safetyrepro.crosspkg.repeats import repeat_sentences, single_draw
from safetyrepro.crosspkg.report import build_report, write_report
from safetyrepro.crosspkg.steps import next_steps
from safetyrepro.errors import InputError
from safetyrepro.records import Record, read_records, write_records
from tests.crosspkg.report_experiment import Shape, make

SHAPE = Shape(items=24, benchmarks=("bbq",), models=("one",), failed=False, hostile=False)


def same(records: list[Record]) -> list[Record]:
    return records


def others_right(records: list[Record]) -> list[Record]:
    """Every second item answered the other way."""
    return [replace(r, score=1.0 - (r.score or 0.0)) if place % 2 else r for place, r in enumerate(records)]


def cell_of(folder: Path, arm: str, suite: str) -> Path:
    return next(folder.glob(f"cells/*-{arm}-{suite}"))


def run_again(cell: Path, number: int, change: Callable[[list[Record]], list[Record]] = same) -> Path:
    """A repeat made from the cell itself."""
    folder, facts = repeat_folder(cell, number), read_cell(cell)
    assert facts is not None
    folder.mkdir(parents=True)
    rename = f"-again{number}-"
    records = read_records(cell / "records.parquet")
    renamed = [
        replace(
            record,
            repeat=number,
            wire_ids=tuple(rename + name for name in record.wire_ids),
            candidates=tuple(replace(c, wire_id=rename + (c.wire_id or "")) for c in record.candidates),
        )
        for record in records
    ]
    write_records(folder / "records.parquet", change(renamed))
    with (cell / "wire.jsonl").open() as rows, (folder / "wire.jsonl").open("w") as out:
        for line in rows:
            body = json.loads(line)
            out.write(json.dumps({**body, "wire_id": rename + body["wire_id"]}) + "\n")
    write_cell(folder, replace(facts, repeat=number))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The nominal arm, and one cell of the matched one: fewer arms are fewer tests to draw."""
    made = make(tmp_path / "made", SHAPE)
    plan = json.loads((made / "experiment.json").read_text())
    kept = [name for name in plan["cells"] if "-nominal-" in name or name.endswith("-matched-native")]
    (made / "experiment.json").write_text(json.dumps({**plan, "cells": kept}))
    return made


def built(folder: Path) -> dict[str, Any]:
    (entry,) = build_report(load_experiment(folder))
    return entry


def test_a_score_is_the_mean_of_its_runs_and_the_spread_stands_beside_it(folder: Path) -> None:
    cell = cell_of(folder, "nominal", "inspect_ai")
    run_again(cell, 1, others_right)
    first = [record.score or 0.0 for record in read_records(cell / "records.parquet")]
    second = [record.score or 0.0 for record in read_records(repeat_folder(cell, 1) / "records.parquet")]
    row = built(folder)["arms"]["nominal"]["suites"]["inspect_ai"]
    means = [sum(scores) / len(scores) for scores in (first, second)]
    assert row["score"] == pytest.approx(sum(means) / 2, abs=1e-6)
    assert row["repeats"]["n"] == 2
    assert row["repeats"]["scores"] == pytest.approx(means, abs=1e-6)
    assert row["repeats"]["spread_points"] == pytest.approx(100 * abs(means[0] - means[1]), abs=1e-4)
    assert row["repeats"]["score_changed"] == [f"bbq-{index}" for index in range(1, 24, 2)]
    assert row["n"] == row["n_items"] == 24


def test_steady_repeats_change_no_figure(folder: Path) -> None:
    before = built(folder)
    old = before["arms"]["nominal"]
    for suite in old["suites"]:
        run_again(cell_of(folder, "nominal", suite), 1)
    after = built(folder)
    section = after["arms"]["nominal"]
    assert (section["spread_points"], section["spread"]["p"]) == (old["spread_points"], old["spread"]["p"])
    assert section["spread"]["within"]["points"] == section["spread"]["within"]["noise_points"] == 0
    assert not section["spread"]["within"]["inside"]
    for suite, row in section["suites"].items():
        assert (row["score"], row["ci"]) == (old["suites"][suite]["score"], old["suites"][suite]["ci"])
        assert row["repeats"]["n"] == 2
        assert row["repeats"]["score_changed"] == row["repeats"]["choice_changed"] == []
    assert [[c["class"] for c in p["classes"]] for p in after["divergence"]] == [
        [c["class"] for c in p["classes"]] for p in before["divergence"]
    ]
    assert finding([after]) == finding([before])


def test_a_difference_inside_the_repeats_is_called_that_everywhere(folder: Path) -> None:
    cells = [cell_of(folder, "nominal", suite) for suite in ("lm_eval", "inspect_ai", "helm")]
    for cell in cells:
        for number in (1, 2):
            run_again(cell, number, lambda records: [replace(r, score=0.0, choice=None) for r in records])
    entry = built(folder)
    spread = entry["arms"]["nominal"]["spread"]
    assert spread["within"]["inside"]
    assert spread["within"]["points"] > entry["arms"]["nominal"]["spread_points"] > 0
    assert all(pair["within"]["inside"] for pair in spread["pairwise"])
    assert all(p["within"]["inside"] for p in entry["divergence"] if p["arm"] == "nominal")
    assert "inside the within-suite spread" in finding([entry])
    # However clear the suites' difference is over items, it is none of theirs.
    spread["p"] = 1e-4
    assert not headlines([entry])[0].established
    assert any("from one repeat to the next" in step for step in next_steps([entry]))
    sentences = [part["sentence"] for part in entry["attribution"] if part["arm"] == "nominal" and part["gap_points"]]
    assert sentences
    assert all("inside the within-suite spread" in sentence for sentence in sentences)
    assert any("points apart within the suite" in line for line in repeat_sentences([entry]))
    _, html, _ = write_report(load_experiment(folder), folder)
    page = html.read_text()
    assert "How far each suite is from itself" in page
    assert "Inside the within-suite spread." in page
    ended = CliRunner().invoke(diff_command, [*map(str, cells[:2]), "--fail-on", "spread=0.1"])
    assert ended.exit_code == 0, ended.output
    assert "inside the within-suite spread" in ended.output


def test_a_gate_on_the_spread_fails_only_beyond_the_repeats(folder: Path) -> None:
    limit = parse_gate(["spread=0.1"])
    assert any(
        check.name == "spread" and "nominal" in check.suite for check in check_report([built(folder)], limit, ()).failed
    )
    for suite in ("lm_eval", "inspect_ai", "helm"):
        run_again(cell_of(folder, "nominal", suite), 1)
    assert any("nominal" in check.suite for check in check_report([built(folder)], limit, ()).failed)
    shutil.rmtree(cell_of(folder, "nominal", "lm_eval") / "repeats")
    run_again(
        cell_of(folder, "nominal", "lm_eval"), 1, lambda records: [replace(r, score=0.0, choice=None) for r in records]
    )
    verdict = check_report([built(folder)], limit, ())
    assert not any("nominal" in check.suite for check in verdict.failed)
    assert any("inside the within-suite spread" in check.message for check in verdict.checks)


def test_runs_without_repeats_stay_readable_as_they_are(folder: Path) -> None:
    plan = json.loads((folder / "experiment.json").read_text())
    del plan["repeats"]
    (folder / "experiment.json").write_text(json.dumps(plan))
    for path in folder.glob("cells/*/cell.json"):
        body = json.loads(path.read_text())
        del body["repeat"]
        path.write_text(json.dumps(body))
    entry = built(folder)
    spread = entry["arms"]["nominal"]["spread"]
    assert [spread["within"], *(pair["within"] for pair in spread["pairwise"])] == [None] * 4
    assert {row["repeats"]["n"] for section in entry["arms"].values() for row in section["suites"].values()} == {1}
    assert "How far each suite is from itself" not in write_report(load_experiment(folder), folder)[1].read_text()


def test_planned_repeats_that_have_not_ended_are_named(folder: Path) -> None:
    plan = json.loads((folder / "experiment.json").read_text())
    (folder / "experiment.json").write_text(json.dumps({**plan, "repeats": 3}))
    cell = cell_of(folder, "matched", "native")
    run_again(cell, 1)
    unfinished = load_experiment(folder).unfinished
    assert f"{cell.name}/repeats/2" in unfinished
    assert f"{cell.name}/repeats/1" not in unfinished


def test_a_failed_repeat_is_named_and_the_others_count(folder: Path) -> None:
    cell = cell_of(folder, "matched", "native")
    run_again(cell, 1)
    failed = run_again(cell, 2)
    facts = read_cell(failed)
    assert facts is not None
    write_cell(failed, replace(facts, state="failed", reason="The suite ended with code 1.\n<script>alert(1)</script>"))
    experiment = load_experiment(folder)
    found = next(one for one in experiment.cells if one.facts.name == cell.name)
    assert [facts.repeat for facts in found.failed_repeats] == [2]
    row = built(folder)["arms"]["matched"]["suites"]["native"]
    assert row["repeats"]["n"] == 2
    assert row["repeats"]["failed"] == [{"repeat": 2, "reason": "The suite ended with code 1."}]


def test_a_repeat_of_another_job_is_none(folder: Path) -> None:
    cell = cell_of(folder, "matched", "native")
    again = run_again(cell, 1)
    facts = read_cell(again)
    assert facts is not None
    write_cell(again, replace(facts, job_sha256="0" * 64))
    (cell / "repeats" / "first").mkdir()
    (cell / "repeats" / "first" / "cell.json").write_text(json.dumps(asdict(facts)))
    assert built(folder)["arms"]["matched"]["suites"]["native"]["repeats"]["n"] == 1


def test_a_repeat_whose_wire_was_cut_is_refused(folder: Path) -> None:
    again = run_again(cell_of(folder, "matched", "native"), 1)
    wire = (again / "wire.jsonl").read_text().splitlines(keepends=True)
    (again / "wire.jsonl").write_text("".join(wire[:-1]))
    with pytest.raises(InputError, match=r"repeats/1/wire\.jsonl"):
        load_experiment(folder)


def warm(cell: Path, temperature: float | None) -> None:
    rows = [json.loads(line) for line in (cell / "wire.jsonl").read_text().splitlines()]
    for row in rows:
        row["request"]["temperature"] = temperature
    (cell / "wire.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(("temperature", "marked"), [(0.7, ["decoding"]), (None, ["decoding"]), (0, [])])
def test_sampled_text_that_was_drawn_once_is_marked(folder: Path, temperature: float | None, marked: list[str]) -> None:
    cell = cell_of(folder, "nominal", "inspect_ai")
    warm(cell, temperature)
    assert drawn(folder) == {"lm_eval": [], "helm": ["decoding"], "inspect_ai": marked}
    run_again(cell, 1)
    assert drawn(folder)["inspect_ai"] == []


def drawn(folder: Path) -> dict[str, list[str]]:
    experiment = load_experiment(folder)
    cells = [cell for cell in experiment.cells if cell.records and cell.facts.arm == "nominal"]
    return {cell.facts.suite: single_draw(cell, experiment.configs[0].data) for cell in cells}


def test_drawn_examples_stay_one_draw_however_often_a_cell_is_run(folder: Path) -> None:
    cell = cell_of(folder, "nominal", "lm_eval")
    write_records(cell / "records.parquet", [replace(r, shots=3) for r in read_records(cell / "records.parquet")])
    run_again(cell, 1)
    experiment = load_experiment(folder)
    found = next(one for one in experiment.cells if one.facts.name == cell.name)
    assert single_draw(found, replace(experiment.configs[0].data, shot_ids=("one", "two"))) == ["shots"]
    assert single_draw(found, experiment.configs[0].data) == []


def test_a_single_draw_stands_in_the_page_the_steps_and_the_lines(folder: Path) -> None:
    _, html, _ = write_report(load_experiment(folder), folder)
    entry = json.loads((folder / "report.json").read_text())[0]
    assert "single draw of decoding" in html.read_text()
    assert any("--repeats 3" in step for step in next_steps([entry]))
    assert any(line.startswith("A single draw") for line in repeat_sentences([entry]))
