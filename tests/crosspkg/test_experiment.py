"""The anchor comparison end to end on a tiny model: real suites, real processes, real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import yaml

CONFIG: dict[str, Any] = {
    "name": "tiny-truthfulqa",
    "benchmark": {"name": "truthfulqa", "source": "pocket", "items": {"count": 4, "seed": 1}},
    "metric": "mc1",
}


def write_config(folder: Path, model: Path, **changes: Any) -> Path:
    body = {**CONFIG, "models": [{"id": str(model), "quant": "nf4"}], **changes}
    path = folder / f"{body['name']}.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "safetyrepro", *map(str, arguments)]


def anchor(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("anchor", "run", *arguments), capture_output=True, text=True, env={**os.environ, **environment}
    )


def cells(out: Path) -> dict[str, dict[str, Any]]:
    return {path.parent.name: json.loads(path.read_text()) for path in out.glob("cells/*/cell.json")}


def test_every_cell_is_done_or_says_why_not(finished: Path) -> None:
    states = {(cell["suite"], cell["arm"]): cell["state"] for cell in cells(finished).values()}
    assert states == {
        **{(suite, arm): "done" for suite in ("lm_eval", "helm", "inspect_ai") for arm in ("nominal", "matched")},
        ("native", "matched"): "done",
        ("native", "nominal"): "absent",
    }


def test_the_report_holds_three_suites_in_nominal_and_four_in_matched(finished: Path) -> None:
    (body,) = json.loads((finished / "report.json").read_text())
    assert set(body["arms"]["nominal"]["suites"]) == {"lm_eval", "helm", "inspect_ai"}
    matched = body["arms"]["matched"]
    assert set(matched["suites"]) == {"lm_eval", "helm", "inspect_ai", "native"}
    assert matched["wire"]["sequences"] > 4
    assert matched["wire"]["identical_ids"] == matched["wire"]["sequences"]
    assert matched["wire"]["max_logprob_difference"] <= 1e-3
    assert matched["spread_points"] == 0


def test_a_finished_run_is_not_run_again(finished: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.glob("cells/*/wire.jsonl")}
    plan = json.loads((finished / "experiment.json").read_text())
    ended = anchor(finished.parent / "tiny-truthfulqa.yaml", "--out", finished)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("done before, kept") == 7
    assert {path: path.stat().st_mtime_ns for path in finished.glob("cells/*/wire.jsonl")} == before
    assert json.loads((finished / "experiment.json").read_text()) == plan


def wait_for(condition: Any, process: subprocess.Popen[str], seconds: float = 240.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the run ended before it could be disturbed"
        assert time.monotonic() < end
        time.sleep(0.05)


def suite_process(process: subprocess.Popen[str], suite: str) -> psutil.Process | None:
    """The suite's own process, once it has its runner's command line."""
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if any(f"{suite}/runner.py" in part for part in child.cmdline()):
                return child
        except psutil.Error:
            continue
    return None


def test_a_suite_that_dies_half_way_fails_alone_and_is_retried(tiny_model: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, tiny_model, arms=["matched"], suites=["native", "helm"])
    out = tmp_path / "out"
    process = subprocess.Popen(
        command("anchor", "run", config, "--out", out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: any(wire.stat().st_size for wire in out.glob("cells/*helm*/wire.jsonl")), process)
    victim = suite_process(process, "helm")
    assert victim is not None
    victim.kill()
    _, stderr = process.communicate(timeout=240)
    assert process.returncode == 3, stderr
    found = {cell["suite"]: cell for cell in cells(out).values()}
    assert found["native"]["state"] == "done"
    assert found["helm"]["state"] == "failed"
    assert "SIGKILL" in found["helm"]["reason"] or "signal 9" in found["helm"]["reason"]
    assert "Traceback" not in stderr
    (failed,) = (line for line in stderr.splitlines() if line.startswith("Failed: "))
    assert not failed.endswith(":")
    assert "its log" not in failed
    (body,) = json.loads((out / "report.json").read_text())
    assert set(body["arms"]["matched"]["suites"]) == {"native"}

    ended = anchor(config, "--out", out)
    assert ended.returncode == 0, ended.stderr
    assert {cell["state"] for cell in cells(out).values()} == {"done"}
    assert ended.stderr.count("done before, kept") == 1


def test_a_killed_run_goes_on_without_redoing_finished_suites(tiny_model: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, tiny_model, arms=["matched"], suites=["native", "lm_eval"])
    out = tmp_path / "out"
    process = subprocess.Popen(
        command("anchor", "run", config, "--out", out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    wait_for(
        lambda: any(cell["suite"] == "native" for cell in cells(out).values()) and suite_process(process, "lm_eval"),
        process,
    )
    orphan = suite_process(process, "lm_eval")
    process.kill()
    process.wait()
    assert orphan is not None
    orphan.wait(timeout=10)
    (native,) = out.glob("cells/*native*/wire.jsonl")
    stamp = native.stat().st_mtime_ns
    ended = anchor(config, "--out", out)
    assert ended.returncode == 0, ended.stderr
    assert native.stat().st_mtime_ns == stamp
    assert {cell["state"] for cell in cells(out).values()} == {"done"}


def one_sentence(ended: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    errors = [line for line in ended.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, ended.stderr
    for part in parts:
        assert part in ended.stderr


def test_an_unreachable_suite_environment_is_one_sentence(tiny_model: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, tiny_model)
    ended = anchor(
        config, "--out", tmp_path / "out", SAFETYREPRO_CACHE=str(tmp_path / "cache"), UV_OFFLINE="1", UV_NO_CACHE="1"
    )
    one_sentence(ended, "suites sync")
    assert not (tmp_path / "out").exists()


def test_a_missing_data_file_is_one_sentence(tiny_model: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, tiny_model, benchmark={"name": "truthfulqa", "source": "file"})
    ended = anchor(config, "--out", tmp_path / "out", "--data-dir", tmp_path)
    one_sentence(ended, "TruthfulQA.csv")
    assert not (tmp_path / "out").exists()


def test_a_model_folder_without_tokenizer_is_one_sentence(tiny_model: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        (bare / name).write_bytes((tiny_model / name).read_bytes())
    ended = anchor(write_config(tmp_path, bare), "--out", tmp_path / "out")
    one_sentence(ended, "tokenizer")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_other_things_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("precious")
    one_sentence(anchor(write_config(tmp_path, tiny_model), "--out", tmp_path / "out"), "experiment.json")
    assert (tmp_path / "out" / "thesis.tex").read_text() == "precious"
