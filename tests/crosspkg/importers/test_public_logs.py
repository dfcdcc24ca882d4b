"""Logs that others published, read as the `expect.json` beside each says: rows, items, scores, recorded aggregates.

They do not ship with the project: `SAFETYREPRO_DATA` names a folder that holds them below `logs`. A log of our own,
with an expectation of the same form, is always among them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.crosspkg.importers.importing import command, said, write_json
from tests.crosspkg.importers.test_helm import recorded, state, stats, write_run

DATA = os.environ.get("SAFETYREPRO_DATA")
PUBLIC = sorted(path.parent for path in Path(DATA, "logs").glob("*/*/expect.json")) if DATA else []
SUITES = {"lm-evaluation-harness": "lm_eval", "HELM": "helm", "Inspect AI": "inspect_ai"}


def _own(folder: Path) -> Path:
    run = write_run(
        folder / "own",
        [state("id0", "yes"), state("id1", "no")],
        [stats("id0", {"exact_match": 1}), stats("id1", {"exact_match": 0})],
        [recorded("exact_match", 0.5), recorded("num_instances", 2)],
    )
    expected = {
        "suite": "HELM",
        "rows": 2,
        "items": 2,
        "model": "org/model",
        "metrics": {"test|exact_match": {"n": 2, "mean": 0.5, "recorded": 0.5}},
        "recorded_only_in_stats_json": {"test|num_instances": 2},
    }
    write_json(run / "expect.json", expected)
    return run


@pytest.mark.parametrize("folder", [None, *PUBLIC], ids=lambda path: "own" if path is None else path.name)
def test_a_log_is_read_as_expected(folder: Path | None, tmp_path: Path) -> None:
    place = _own(tmp_path) if folder is None else folder
    expected = json.loads((place / "expect.json").read_text())
    suite = SUITES[expected["suite"]]
    body = command(suite, place)
    assert sum(task["rows"] for task in body["tasks"]) == expected["rows"]
    assert sum(task["items"] for task in body["tasks"]) == expected["items"]
    {"lm_eval": _lm_eval, "helm": _helm, "inspect_ai": _inspect_ai}[suite](body, expected)


def _same(found: dict[str, Any], mean: float | None, n: int, recorded_mean: float | None) -> None:
    assert found["mean"] == pytest.approx(mean, rel=1e-12) if mean is not None else found["mean"] is None
    assert found["n"] == n
    assert found["recorded"] == recorded_mean


def _lm_eval(body: dict[str, Any], expected: dict[str, Any]) -> None:
    tasks = {task["task"]: task for task in body["tasks"]}
    assert tasks.keys() == expected["tasks"].keys()
    for name, wanted in expected["tasks"].items():
        task = tasks[name]
        assert (task["rows"], task["items"]) == (wanted["rows"], wanted["items"])
        for metric, figures in wanted["metrics"].items():
            if metric == "hallucination":
                assert metric not in task["metrics"]
                assert said(body, "'hallucination'", "no metric")
                continue
            _same(task["metrics"][metric], figures.get("mean"), figures.get("n_numeric", 0), figures.get("recorded"))
    meta = expected["recorded_meta"]
    if meta is None:
        assert "recorded aggregates" in body["absent"]
        assert body["model"] == "EleutherAI/pythia-2.8b"
        assert said(body, "read from the file's or folder's name")
        assert "gold" not in body["absent"]
    else:
        assert (body["model"], body["suite_version"]) == (meta["model_name"], meta["lm_eval_version"])
        assert said(body, "20 of the task's 817")


def _helm(body: dict[str, Any], expected: dict[str, Any]) -> None:
    (task,) = body["tasks"]
    assert (body["model"], body["suite_version"]) == (expected["model"], None)
    for name, figures in expected["metrics"].items():
        _same(task["metrics"][name], figures["mean"], figures["n"], figures["recorded"])
    for name, value in expected["recorded_only_in_stats_json"].items():
        _same(task["metrics"][name], None, 0, value)
    failed = expected.get("failed_requests", 0)
    assert said(body, f"{failed} instances failed", f"{failed} of them have scores") == bool(failed)
    assert not said(body, "the rows' mean")
    splits = expected.get("splits", {})
    assert len(splits) < 2 or said(body, *(f"{n} {split}" for split, n in splits.items()))


def _inspect_ai(body: dict[str, Any], expected: dict[str, Any]) -> None:
    (task,) = body["tasks"]
    assert (task["task"], body["model"]) == (expected["task"], expected["model"])
    assert body["suite_version"] == expected["suite_version"]
    accuracies = {entry["name"]: entry["metrics"]["accuracy"] for entry in expected["recorded"]}
    for name, figures in expected["scorers"].items():
        _same(task["metrics"][name], figures["mean_over_items"], figures["n"], accuracies[name])
        assert task["metrics"][name]["items"] == figures["n_items"]
    assert said(body, "the run's status is", repr(expected["status"])) == (expected["status"] != "success")
    assert not said(body, "the rows' mean")
