"""The anchor comparison before a server that somebody else runs: here a second process of our own, on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from safetyrepro.config import ModelSpec
from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.engine import load_tokenizer
from safetyrepro.records import Record

SUITES = ("lm_eval", "helm", "inspect_ai", "native")


@contextmanager
def server(model: Path, wire: Path) -> Iterator[tuple[str, str]]:
    """`safetyrepro serve` of a model: its base URL and its token."""
    command = [sys.executable, "-m", "safetyrepro", "serve", str(model), "--json", "--wire", str(wire)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield told["base_url"], told["token"]
    finally:
        process.terminate()
        process.wait(timeout=30)


def write_config(folder: Path, model: str) -> Path:
    body: dict[str, Any] = {
        "name": "upstream",
        "benchmark": {"name": "truthfulqa", "items": {"count": 3, "seed": 1}},
        "metric": "mc1",
        "models": [{"id": model}],
        "arms": ["matched"],
    }
    path = folder / "upstream.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return path


def anchor(*arguments: object, key: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "safetyrepro", "anchor", "run", *map(str, arguments)]
    environment = {**os.environ, "SAFETYREPRO_UPSTREAM_KEY": key}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def sums(records: tuple[Record, ...]) -> list[list[float | None]]:
    return [[candidate.logprob for candidate in record.candidates] for record in records]


def test_a_run_before_an_upstream_gives_what_the_engine_gives(tiny_model: Path, tmp_path: Path) -> None:
    tokenizer = tmp_path / "tokenizer"
    load_tokenizer(ModelSpec(id=str(tiny_model))).hugging_face.save_pretrained(tokenizer)  # type: ignore[attr-defined]
    with server(tiny_model, tmp_path / "serve.jsonl") as (url, token):
        config = write_config(tmp_path, "model")
        ended = anchor(config, "--upstream", url, "--tokenizer", tokenizer, "--out", tmp_path / "up", key=token)
        assert ended.returncode == 0, ended.stderr
        refused = anchor(config, "--upstream", url, "--tokenizer", tokenizer, "--out", tmp_path / "x", key="wrong")
        unknown = anchor(
            config, "--model", "other", "--upstream", url, "--tokenizer", tokenizer, "--out", tmp_path / "x", key=token
        )
    own = anchor(write_config(tmp_path, str(tiny_model)), "--suite", "native", "--out", tmp_path / "own")
    assert own.returncode == 0, own.stderr

    (truth,) = load_experiment(tmp_path / "own").cells
    cells = load_experiment(tmp_path / "up").cells
    assert sorted(cell.facts.suite for cell in cells) == sorted(SUITES)
    for cell in cells:
        assert cell.facts.state == "done"
        assert sums(cell.records) == sums(truth.records)
        assert {(record.model_sha256, record.numerics) for record in cell.records} == {(None, "upstream")}
    (body,) = json.loads((tmp_path / "up" / "report.json").read_text())
    wire = body["arms"]["matched"]["wire"]
    assert wire["identical_ids"] == wire["sequences"] > 3
    assert wire["max_logprob_difference"] == 0
    assert token not in "".join(
        path.read_text(errors="replace") for path in (tmp_path / "up").rglob("*") if path.is_file()
    )
    for failed, part in ((refused, "SAFETYREPRO_UPSTREAM_KEY"), (unknown, "serves no model 'other'; it lists model")):
        assert failed.returncode == 2
        assert part in failed.stderr
        assert "Traceback" not in failed.stderr
    assert not (tmp_path / "x" / "cells").exists()


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--upstream", "http://127.0.0.1:9/v1"], "go together"),
        (["--upstream", "http://127.0.0.1:9/v1", "--tokenizer", "TOKENIZER"], "cannot be reached"),
        (["--upstream", "ftp://host", "--tokenizer", "TOKENIZER"], "http://HOST:PORT/v1"),
        (["--upstream", "http://127.0.0.1:9/v1", "--tokenizer", "nowhere"], "holds no tokenizer"),
    ],
)
def test_a_bad_upstream_is_one_sentence(tiny_model: Path, tmp_path: Path, options: list[str], part: str) -> None:
    filled = [str(tiny_model) if option == "TOKENIZER" else option for option in options]
    ended = anchor(write_config(tmp_path, "model"), "--suite", "native", *filled, "--out", tmp_path / "out")
    assert ended.returncode == 2, ended.stderr
    assert part in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len([line for line in ended.stderr.splitlines() if line.startswith("Error: ")]) == 1


def test_an_upstreams_numerics_are_not_the_configs(tmp_path: Path) -> None:
    config = write_config(tmp_path, "model")
    body = yaml.safe_load(config.read_text())
    body["models"] = [{"id": "m", "upstream": "http://127.0.0.1:9/v1", "tokenizer": "t", "compute_dtype": "bfloat16"}]
    config.write_text(yaml.safe_dump(body))
    ended = anchor(config, "--out", tmp_path / "out")
    assert ended.returncode == 2
    assert "compute_dtype is the engine's" in ended.stderr
