"""`safetyrepro suites` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetyrepro import adapters
from safetyrepro.adapters.native import Native
from safetyrepro.cli import cli
from safetyrepro.errors import InputError
from tests.suites.tiny_suite import VERSION, make_wheel, write_lock


@pytest.fixture
def tiny_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry with the native runner and one tiny suite."""
    lock = write_lock(tmp_path / "tiny", make_wheel(tmp_path / "wheels"))

    class Tiny(Native):
        name = "tiny"

    Tiny.lock = lock
    suites = {"tiny": Tiny(), "native": Native()}
    monkeypatch.setattr(adapters, "NAMES", tuple(suites))
    monkeypatch.setattr(adapters, "get", suites.__getitem__)
    for name, value in (("SAFETYREPRO_CACHE", "cache"), ("UV_CACHE_DIR", "uv"), ("UV_FIND_LINKS", "wheels")):
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("UV_NO_INDEX", "1")


def call(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["suites", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.usefixtures("tiny_suite")
def test_sync_builds_what_list_calls_missing() -> None:
    before = call("list")
    assert f"{VERSION}" in before
    assert "missing" in before
    assert "Next: safetyrepro suites sync tiny" in before
    assert f"tiny {VERSION}: ready" in call("sync")
    (row,) = json.loads(call("list", "--json"))["suites"]
    assert (row["name"], row["version"], row["state"]) == ("tiny", VERSION, "ready")
    assert row["bytes"] > 0
    assert row["lock_sha256"][:16] in row["folder"]
    assert "Next: safetyrepro anchor run" in call("list")


def test_sync_refuses_what_is_no_suite_and_builds_nothing_for_our_own() -> None:
    with pytest.raises(InputError, match="there are lm_eval"):
        call("sync", "nobody")
    assert "native: runs in safetyrepro's own environment, nothing to build" in call("sync", "native")


def test_list_names_every_suite_and_release_with_its_pinned_version() -> None:
    rows = {row["name"]: row["version"] for row in json.loads(call("list", "--json"))["suites"]}
    assert rows == {
        "lm_eval": "0.4.13",
        "helm": "0.5.16",
        "inspect_ai": "0.3.285 (inspect-evals 0.26.0)",
        "inspect_ai@0.3.258": "0.3.258 (inspect-evals 0.16.0)",
    }
