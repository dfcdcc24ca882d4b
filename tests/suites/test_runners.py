"""A runner's name, and the lock that it stands for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from safetyrepro import adapters
from safetyrepro.config import Config, config_id
from safetyrepro.crosspkg.experiment import narrowed
from safetyrepro.errors import InputError
from safetyrepro.runners import check, in_order, release_of, suite_of, title
from safetyrepro.suites.environments import folder_of
from safetyrepro.suites.lockfile import read_lock

OLDER = "inspect_ai@0.3.258"


def test_a_runner_is_a_suite_and_perhaps_a_release() -> None:
    assert (suite_of(OLDER), release_of(OLDER), title(OLDER)) == ("inspect_ai", "0.3.258", "Inspect AI 0.3.258")
    assert (suite_of("helm"), release_of("helm"), title("helm")) == ("helm", None, "HELM")
    assert title("somebody's") == "somebody's"
    assert in_order(["x", "native", OLDER, "lm_eval", "inspect_ai", "native"]) == [
        "lm_eval",
        "inspect_ai",
        OLDER,
        "native",
        "x",
    ]


@pytest.mark.parametrize("name", ["", "lighteval", "@1", "helm@", "helm@../lock", "helm@a b", "native@1", "helm@é"])
def test_no_other_name_is_taken(name: str) -> None:
    with pytest.raises(ValueError, match=r"no suite|release"):
        check(name)
    with pytest.raises(ValidationError):
        config(suites=[name])


def config(**changes: object) -> Config:
    body = {"name": "x", "benchmark": {"name": "bbq"}, "metric": "accuracy", "models": [{"id": "m"}], **changes}
    return Config.model_validate_json(json.dumps(body))


def test_releases_are_no_part_of_the_config_id() -> None:
    both = config(suites=["inspect_ai", OLDER], locks={OLDER: "mine.lock"})
    assert config_id(both) == config_id(config())
    kept = narrowed(both, ["inspect_ai"], [], [], None)
    assert (kept.suites, kept.locks) == (("inspect_ai",), {})
    with pytest.raises(InputError, match="no suite"):
        narrowed(both, ["somebody"], [], [], None)


@pytest.mark.parametrize("locks", [{"helm@mine": "a.lock"}, {"inspect_ai": "a.lock"}])
def test_a_lock_is_for_a_runner_that_is_run(locks: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="name a runner of suites with an '@'"):
        config(suites=["inspect_ai"], locks=locks)


def test_a_release_has_a_lock_of_its_own(tmp_path: Path) -> None:
    usual, older = adapters.lock_of("inspect_ai"), adapters.lock_of(OLDER)
    assert usual is not None
    assert older is not None
    assert older.parent == usual.parent
    lock = read_lock(older)
    assert (lock.name, lock.version) == (OLDER, "0.3.258 (inspect-evals 0.16.0)")
    assert "@" not in folder_of(lock).name
    assert adapters.get(OLDER) is adapters.get("inspect_ai")
    assert adapters.lock_of("helm@mine", {"helm@mine": str(tmp_path)}) == tmp_path
    with pytest.raises(InputError, match=r"no lock of that release \(locks of other releases: inspect_ai@0\.3\.258\)"):
        adapters.lock_of("inspect_ai@0.1")
    assert adapters.lock_of("native") is None
