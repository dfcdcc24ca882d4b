"""A damaged or unfinished experiment is told, not reported on."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from safetyrepro.crosspkg.cell_folder import REPEATS
from safetyrepro.crosspkg.exporters import EeeOptions, export_eee, records_frame
from safetyrepro.crosspkg.folder import counted_files, load_experiment
from safetyrepro.crosspkg.sides import open_side
from safetyrepro.errors import InputError
from safetyrepro.flips.scores import read_outcomes
from safetyrepro.records import read_records, write_records
from safetyrepro.stability.source import read_scores
from tests.crosspkg.report_experiment import make


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("folder") / "made")


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def done_cell(folder: Path) -> Path:
    return next(path.parent for path in sorted(folder.glob("cells/*/records.parquet")))


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_wire_log_that_lacks_requests_is_refused(folder: Path, damage: str) -> None:
    wire = done_cell(folder) / "wire.jsonl"
    if damage == "cut":
        wire.write_bytes(wire.read_bytes()[:-20])
    else:
        wire.unlink()
    with pytest.raises(InputError, match=r"wire\.jsonl"):
        load_experiment(folder)


def test_a_cell_that_has_not_ended_is_named(folder: Path) -> None:
    cell = done_cell(folder)
    (cell / "cell.json").unlink()
    assert load_experiment(folder).unfinished == (cell.name,)


def test_an_experiment_without_results_is_refused(folder: Path) -> None:
    shutil.rmtree(folder / "cells")
    with pytest.raises(InputError, match="has ended"):
        load_experiment(folder)


@pytest.mark.parametrize("body", ["[]", "{}", "null", '{"schema": "1"', '{"schema": "1"}'])
def test_a_plan_that_is_none_is_refused(folder: Path, body: str) -> None:
    (folder / "experiment.json").write_text(body)
    with pytest.raises(InputError, match=r"experiment\.json"):
        load_experiment(folder)


def test_an_unknown_state_is_refused(folder: Path) -> None:
    path = done_cell(folder) / "cell.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "weird"}))
    with pytest.raises(InputError, match="weird"):
        load_experiment(folder)


@pytest.mark.parametrize("name", ["records.parquet", "wire.jsonl"])
def test_a_missing_file_of_a_finished_cell_is_said_to_be_missing(folder: Path, name: str) -> None:
    (done_cell(folder) / name).unlink()
    with pytest.raises(InputError, match=rf"{name}: is missing, though its cell ended"):
        load_experiment(folder)


@pytest.mark.parametrize(("field", "said"), [("state", "missing"), ("config_id", "missing"), ("odd", "unknown")])
def test_a_wrong_field_of_a_cell_is_named(folder: Path, field: str, said: str) -> None:
    path = done_cell(folder) / "cell.json"
    body = json.loads(path.read_text())
    path.write_text(
        json.dumps({**body, field: 1} if field not in body else {k: v for k, v in body.items() if k != field})
    )
    with pytest.raises(InputError, match=f"the field '{field}' is {said}"):
        load_experiment(folder)


def leave_strays(folder: Path) -> tuple[Path, Path]:
    """What earlier runs can leave: a cell of another plan, a failed cell's records, a repeat of another job.

    The cell with repeats, of which the first counts, and the failed one.
    """
    cell = done_cell(folder)
    body = json.loads((cell / "cell.json").read_text())
    shutil.copytree(cell, folder / "cells" / "another-plan")
    failed = next(p.parent for p in folder.glob("cells/*/cell.json") if json.loads(p.read_text())["state"] == "failed")
    shutil.copy(cell / "records.parquet", failed)
    for number, job in ((1, body["job_sha256"]), (2, "another")):
        repeat = cell / REPEATS / str(number)
        repeat.mkdir(parents=True)
        shutil.copy(cell / "wire.jsonl", repeat)
        records = [dataclasses.replace(record, repeat=number) for record in read_records(cell / "records.parquet")]
        write_records(repeat / "records.parquet", records)
        (repeat / "cell.json").write_text(json.dumps(body | {"repeat": number, "job_sha256": job}))
    return cell, failed


@pytest.mark.parametrize("deeper", [False, True])
def test_every_command_counts_what_the_plan_holds(folder: Path, tmp_path: Path, deeper: bool) -> None:
    leave_strays(folder)
    held = [record for outcome in load_experiment(folder).cells for record in outcome.records]
    assert {record.repeat for record in held} == {0, 1}
    if deeper:
        (tmp_path / "runs").mkdir()
        folder = folder.rename(tmp_path / "runs" / "one").parent
    files = counted_files(folder)
    assert [r.run_id for f in files for r in read_records(f)] == sorted(record.run_id for record in held)
    assert len(read_scores(folder).frame) == len(held)
    assert len(read_outcomes([folder]).frame) == len(held)
    assert len(records_frame(folder)) == len(held)
    exported = export_eee(folder, tmp_path / "eee", EeeOptions())
    assert sum(one.rows + one.without_score for one in exported) == len(held)


def test_a_cell_counts_as_it_does_in_its_run(folder: Path) -> None:
    cell, failed = leave_strays(folder)
    assert counted_files(cell) == [cell / "records.parquet", cell / REPEATS / "1" / "records.parquet"]
    assert counted_files(failed) == []
    with pytest.raises(InputError, match=r"cell\.json: state is 'failed'; name a cell that is 'done'"):
        open_side(failed)


def test_a_table_of_scores_beside_the_plan_is_no_side_of_a_comparison(folder: Path) -> None:
    records_frame(folder).to_parquet(folder / "scores.parquet")
    with pytest.raises(InputError, match="is an experiment of"):
        open_side(folder)


def test_records_without_a_column_are_refused_by_every_reader(tmp_path: Path) -> None:
    path = done_cell(make(tmp_path / "made")) / "records.parquet"
    table = pq.read_table(path)
    (tmp_path / "bare").mkdir()
    pq.write_table(table.drop_columns(["status"]), tmp_path / "bare" / "records.parquet")
    spoilt = tmp_path / "bare" / "records.parquet"
    for read in (read_scores, records_frame, lambda folder: read_outcomes([folder]), open_side):
        with pytest.raises(InputError, match=r"records\.parquet: not a records file \(column 'status' is missing\)"):
            read(spoilt.parent)


def test_records_that_are_gone_are_named(folder: Path) -> None:
    path = done_cell(folder) / "records.parquet"
    path.unlink()
    with pytest.raises(InputError, match=r"records\.parquet: is missing"):
        counted_files(folder)
