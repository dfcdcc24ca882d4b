"""`safetyrepro serve`, as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from safetyrepro.gateway import Run, read_wire


def start(arguments: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "safetyrepro", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


@pytest.mark.parametrize("numerics", [("none", "exact"), ("int8", "shared")], ids="-".join)
def test_serves_until_ctrl_c(numerics: tuple[str, str], tiny_model: Path, tmp_path: Path) -> None:
    wire = tmp_path / "wire.jsonl"
    quant, mode = numerics
    arguments = [str(tiny_model), "--quant", quant, "--mode", mode, "--wire", str(wire), "--json"]
    with start(arguments) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        headers = {"Authorization": f"Bearer {told['token']}"}
        response = httpx.post(
            f"{told['base_url']}/completions", headers=headers, json={"prompt": "a", "max_tokens": 1}, timeout=60
        )
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert response.status_code == 200
    assert process.returncode == 0, errors
    assert f"1 requests; wire log: {wire}" in errors
    assert [row.status for row in read_wire(wire)] == [200]


def test_upstream_with_tokens_from_the_environment(run: Run, tiny_model: Path, tmp_path: Path) -> None:
    wire = tmp_path / "outer.jsonl"
    arguments = ["org/m", "--upstream", run.base_url, "--tokenizer", str(tiny_model), "--wire", str(wire)]
    with start(arguments, SAFETYREPRO_TOKEN="sesame", SAFETYREPRO_UPSTREAM_KEY=run.token) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        response = httpx.post(
            f"{url}/completions", headers={"Authorization": "Bearer sesame"}, json={"prompt": "a"}, timeout=60
        )
        process.terminate()
        output, errors = process.communicate(timeout=60)
    assert response.json()["model"] == "model"
    assert (process.returncode, errors) == (0, "")
    assert "sesame" not in output
    assert run.token not in output + wire.read_text()
    inner, outer = (next(iter(read_wire(path))) for path in (run.wire_log, wire))
    assert inner.request == {"prompt": "a", "model": "org/m"}
    assert outer.request == {"prompt": "a"}
    assert outer.seen == inner.seen
    assert inner.seen[0].ids


def test_tokenizer_needs_an_upstream(tmp_path: Path) -> None:
    with start([str(tmp_path), "--tokenizer", str(tmp_path), "--wire", str(tmp_path / "wire.jsonl")]) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors.startswith("Error: --tokenizer names")


def test_wire_log_is_not_overwritten(tmp_path: Path) -> None:
    wire = tmp_path / "wire.jsonl"
    wire.write_text("kept")
    with start([str(tmp_path), "--wire", str(wire)]) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors.strip() == f"Error: Wire log {wire} is there already: move it away, or name another with --wire."
    assert wire.read_text() == "kept"


@pytest.mark.parametrize("option", ["--quant", "--mode", "--compute-dtype"])
def test_numerics_of_a_model_that_another_server_holds_are_refused(option: str, tmp_path: Path) -> None:
    value = {"--quant": "nf4", "--mode": "shared", "--compute-dtype": "float32"}[option]
    arguments = ["org/m", "--upstream", "http://127.0.0.1:9/v1", option, value, "--wire", str(tmp_path / "w.jsonl")]
    with start(arguments) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"{option} has no effect on a model that http://127.0.0.1:9/v1 serves" in errors
    assert not (tmp_path / "w.jsonl").exists()
