"""A fault in an adapter's own code: its cell fails, with the place, and the others go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from safetyrepro import adapters
from safetyrepro.adapters.base import Absent
from safetyrepro.config import load_config
from safetyrepro.crosspkg.experiment import Plan, run_experiment
from safetyrepro.crosspkg.exporters.source import record_files
from safetyrepro.progress import Progress
from tests.crosspkg.test_experiment import write_config


def broken(*_: Any) -> Any:
    return {}["a task that nobody named"]


@pytest.mark.parametrize("step", ["translate", "normalise"])
def test_a_fault_in_an_adapter_fails_its_cell_alone(
    step: str, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(write_config(tmp_path, tiny_model, arms=["matched"], suites=["native", "lm_eval"]))
    if step == "translate":
        monkeypatch.setattr(adapters.get("lm_eval"), step, broken)
    else:
        monkeypatch.setattr(adapters.get("native"), step, broken)
    failing, whole = ("lm_eval", "native") if step == "translate" else ("native", "lm_eval")
    run_experiment(Plan((config,), tmp_path / "out"), Progress(None))
    cells = [json.loads(path.read_text()) for path in (tmp_path / "out").glob("cells/*/cell.json")]
    found = {cell["suite"]: cell for cell in cells}
    assert found[whole]["state"] == "done"
    assert found[failing]["state"] == "failed"
    for part in (failing, "its adapter failed", "KeyError", "a task that nobody named", Path(__file__).name, "line "):
        assert part in found[failing]["reason"]


@pytest.mark.parametrize("outcome", ["failed", "absent"])
def test_a_cell_that_is_no_longer_done_leaves_nothing_of_its_earlier_run(
    outcome: str, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(write_config(tmp_path, tiny_model, arms=["matched"], suites=["native", "lm_eval"]))
    run_experiment(Plan((config,), tmp_path / "out"), Progress(None))
    assert len(record_files(tmp_path / "out")) == 2
    again = broken if outcome == "failed" else lambda _: Absent("no such task any more")
    monkeypatch.setattr(adapters.get("lm_eval"), "translate", again)
    run_experiment(Plan((config,), tmp_path / "out"), Progress(None))
    (cell,) = (tmp_path / "out" / "cells").glob("*lm_eval*")
    assert json.loads((cell / "cell.json").read_text())["state"] == outcome
    assert [path.name for path in cell.iterdir()] == ["cell.json"]
