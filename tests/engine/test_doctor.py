"""`safetyrepro doctor` says what an installation lacks and what to do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from safetyrepro import benchmarks, installation
from safetyrepro.cli.doctor import doctor
from safetyrepro.engine.catalogue import entry


def asked(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(doctor, [*arguments, "--json"], catch_exceptions=False, standalone_mode=False)
    return done.return_value, json.loads(done.stdout)


def by_name(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in told["checks"]}


def test_an_empty_cache_lacks_suites_and_models_and_is_not_broken(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SAFETYREPRO_DATA", raising=False)
    monkeypatch.setattr(installation, "requires", lambda _name: ["click>=8"])
    code, told = asked()
    found = by_name(told)
    assert code == 0
    assert told["ok"]
    assert found["suite helm"]["state"] == "missing"
    assert "safetyrepro suites sync helm" in found["suite helm"]["advice"]
    assert "safetyrepro models pull gemma3-270m" in found["model gemma3-270m"]["advice"]
    assert found["official data"]["state"] == "missing"
    assert {found[name]["state"] for name in ("python", "packages", "engine", "machine", "cache")} == {"ok"}
    assert asked("--fail-on", "missing")[0] == 1


def test_what_is_broken_is_named(own_cache: Path, monkeypatch: pytest.MonkeyPatch, smollm2: Path) -> None:
    damaged = entry("smollm2-135m-instruct").path
    damaged.parent.mkdir(parents=True)
    shutil.copyfile(smollm2, damaged)
    with damaged.open("r+b") as stream:
        stream.write(b"0")
    monkeypatch.setattr(installation, "requires", lambda _name: ["click>=99", "no-such-package", "x; extra == 'dev'"])
    monkeypatch.setenv("SAFETYREPRO_DATA", str(own_cache / "nowhere"))
    code, told = asked()
    found = by_name(told)
    assert code == 1
    assert not told["ok"]
    assert found["packages"]["state"] == "broken"
    assert "click is " in found["packages"]["found"]
    assert "no-such-package is not installed" in found["packages"]["found"]
    assert "x is" not in found["packages"]["found"]
    assert found["model smollm2-135m-instruct"]["state"] == "broken"
    assert found["official data"]["state"] == "broken"


def test_the_data_that_lacks_is_named_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *others = benchmarks.names()
    path = tmp_path / benchmarks.get(name).usual_path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    monkeypatch.setenv("SAFETYREPRO_DATA", str(tmp_path))
    (found,) = [check for check in installation.checks(lambda _line: None) if check.name == "official data"]
    assert (found.state, found.found) == ("missing", f"{', '.join(others)} not in {tmp_path}, which has {name}")


def test_a_cache_that_cannot_be_written_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SAFETYREPRO_CACHE", str(tmp_path / "file"))
    found = by_name(asked()[1])["cache"]
    assert found["state"] == "broken"
    assert "SAFETYREPRO_CACHE" in found["advice"]


def test_it_ends_with_what_to_do(own_cache: Path) -> None:
    done = CliRunner().invoke(doctor, [], catch_exceptions=False)
    assert "Next: Run `safetyrepro suites sync helm`." in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--run", "out"], "--run belongs to --numerics MODEL"),
        (["--quant", "int8"], "--quant belongs to --numerics MODEL"),
        (["--numerics", "m", "--run", "out", "--quant", "nf4"], "the run says how its model was quantised"),
        (["--numerics", "no/such"], "needs a revision"),
        (["--numerics", "m", "--run", "nowhere"], "holds no experiment.json"),
    ],
)
def test_impossible_calls_end_with_2(arguments: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "safetyrepro", "doctor", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
