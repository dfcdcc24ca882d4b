"""A damaged or unfinished experiment is told, not reported on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.errors import InputError
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
