"""What a seal holds, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safetyrepro import facts
from safetyrepro.benchmarks import prompts
from safetyrepro.config import canonical_sha256
from safetyrepro.envelope.grid import GridModel, load_envelope
from safetyrepro.envelope.items import Items
from safetyrepro.envelope.plan import build_plan
from safetyrepro.envelope.run import run_sealed
from safetyrepro.envelope.seal import PLAN, SEAL, read_sealed, write_seal
from safetyrepro.errors import InputError
from tests.envelope.conftest import Ran
from tests.envelope.grids import BBQ, CROWS, OWN, QUIET, envelope, seal


def test_the_seal_is_the_files_own_sha256(ran: Ran) -> None:
    assert hashlib.sha256((ran.folder / PLAN).read_bytes()).hexdigest() == ran.sealed.seal
    done = subprocess.run(["sha256sum", "--check", SEAL], cwd=ran.folder, capture_output=True, text=True, check=False)
    assert done.stdout == "plan.json: OK\n"


def test_sealing_again_gives_the_same_seal(ran: Ran, models: tuple[Path, ...], tmp_path: Path) -> None:
    assert seal(envelope(models[:2]), tmp_path / "again").seal == ran.sealed.seal
    assert seal(envelope(models[:2], about="Other words."), tmp_path / "other").seal != ran.sealed.seal


def test_everything_is_hashed(ran: Ran, models: tuple[Path, ...]) -> None:
    body = json.loads((ran.folder / PLAN).read_bytes())
    weights = hashlib.sha256((models[0] / "model.safetensors").read_bytes()).hexdigest()
    assert body["models"][0]["weights_sha256"] == weights
    assert {"config.json", "tokenizer.json"} <= body["models"][0]["files"].keys()
    template = prompts.FOLDER / "bbq" / "minimal.jinja"
    assert body["templates"]["bbq/minimal"] == hashlib.sha256(template.read_bytes()).hexdigest()
    assert {len(one["items"]) for one in body["benchmarks"]} == {2}
    assert all(len(item["sha256"]) == 64 for one in body["benchmarks"] for item in one["items"] + one["pool"])
    assert all(canonical_sha256(value) == name for name, value in body["configs"].items())
    pool = {item["id"] for one in body["benchmarks"] for item in one["pool"]}
    assert {len(shard["shots"]) for shard in body["shards"]} == {0, 1}
    assert all(set(shard["shots"]) <= pool for shard in body["shards"])
    assert {name.split("/")[0] for name in body["locks"]} == {"lm_eval", "helm", "inspect_ai"}
    assert len(body["code"]["files_sha256"]) == len(body["tiers_sha256"]) == 64
    assert {"torch", "transformers", "python"} <= body["packages"].keys()


def test_what_cannot_be_resolved_blocks_sealing(models: tuple[Path, ...], tmp_path: Path) -> None:
    nowhere = {**BBQ, "benchmark": {"name": "bbq", "source": "file"}}
    with pytest.raises(InputError, match=r"cannot be sealed: benchmark bbq: items and sha256 cannot be resolved"):
        seal(envelope(models[:1], benchmarks=[nowhere]), tmp_path / "a")
    with pytest.raises(InputError, match=r"cannot be sealed: model tiny-0: weights_sha256 cannot be resolved"):
        seal(envelope(["no/such-model"]), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_marked_unverified_it_is_sealed_and_said(models: tuple[Path, ...], tmp_path: Path) -> None:
    nowhere = {**BBQ, "benchmark": {"name": "bbq", "source": "file", "sha256": "unverified"}}
    grid = envelope(models[:1], benchmarks=[nowhere])
    absent = grid.models[0].model.model_copy(update={"id": "no/such-model", "weights_sha256": "unverified"})
    grid = grid.model_copy(update={"models": (GridModel(name="absent", model=absent),)})
    sealed = seal(grid, tmp_path / "a")
    said = {one.what for one in sealed.plan.unverified}
    assert {"model absent: weights_sha256", "benchmark bbq: items and sha256"} <= said
    assert sealed.plan.models[0].weights_sha256 is None


def test_the_embedded_envelope_without_its_models_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFETYREPRO_CACHE", str(tmp_path / "empty"))
    planned = build_plan(load_envelope(OWN / "embedded.yaml"), Items(None), QUIET.say)
    assert len(planned.blocks) == 3
    assert all("is not pulled yet" in line for line in planned.blocks)
    with pytest.raises(InputError, match=r"\(2 more like it\)"):
        write_seal(planned, tmp_path / "out")


def test_a_folder_with_something_else_is_left_alone(ran: Ran, models: tuple[Path, ...], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x", encoding="utf-8")
    with pytest.raises(InputError, match="is not empty and holds no sealed plan"):
        seal(envelope(models[:1]), tmp_path)
    with pytest.raises(InputError, match="holds another sealed plan"):
        seal(envelope(models[:1]), ran.folder)


@pytest.fixture
def sealed(ran: Ran, tmp_path: Path) -> Path:
    """The sealed plan alone, nothing run."""
    folder = tmp_path / "sealed"
    folder.mkdir()
    for name in (PLAN, SEAL):
        shutil.copy(ran.folder / name, folder / name)
    return folder


def test_refuses_a_plan_that_was_changed(sealed: Path) -> None:
    text = (sealed / PLAN).read_text(encoding="utf-8")
    (sealed / PLAN).write_text(text.replace('"max_tokens":2', '"max_tokens":3', 1), encoding="utf-8")
    with pytest.raises(InputError, match=r"the plan was changed after it was sealed"):
        run_sealed(sealed, None, QUIET)


@pytest.mark.parametrize("text", ["", "x", f"{'0' * 64}", f"{'0' * 64}  other.json\n", "\ufeff"])
def test_refuses_a_seal_that_is_none(sealed: Path, text: str) -> None:
    (sealed / SEAL).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"SEAL: found .*, it should be 64 hex digits"):
        read_sealed(sealed)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', "NaN", "\ufeff{}"])
def test_refuses_a_plan_that_is_none(sealed: Path, text: str) -> None:
    (sealed / PLAN).write_text(text, encoding="utf-8")
    (sealed / SEAL).write_text(f"{hashlib.sha256(text.encode()).hexdigest()}  {PLAN}\n", encoding="utf-8")
    with pytest.raises(InputError, match="it is no sealed plan"):
        read_sealed(sealed)


def test_refuses_a_plan_that_is_not_canonical(sealed: Path) -> None:
    text = json.dumps(json.loads((sealed / PLAN).read_bytes()), indent=1)
    (sealed / PLAN).write_text(text, encoding="utf-8")
    (sealed / SEAL).write_text(f"{hashlib.sha256(text.encode()).hexdigest()}  {PLAN}\n", encoding="utf-8")
    with pytest.raises(InputError, match="is not the canonical JSON of a plan"):
        read_sealed(sealed)


def test_refuses_other_weights(models: tuple[Path, ...], tmp_path: Path) -> None:
    own = Path(shutil.copytree(models[0], tmp_path / "model"))
    made = seal(envelope([own], benchmarks=[CROWS]), tmp_path / "out")
    shutil.copy(models[1] / "model.safetensors", own / "model.safetensors")
    with pytest.raises(InputError, match=r"differs from its seal: models\.0\.weights_sha256 was .* and is"):
        run_sealed(made.folder, None, QUIET)


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("template_sha256", lambda *_: "0" * 64, r"templates\.bbq/chain_of_thought was"),
        ("code_sha256", lambda *_: "0" * 64, r"code\.files_sha256 was"),
        ("locks", dict, r"locks\.helm/suite\.lock was .* and is null"),
        ("packages", lambda: {"torch": "0"}, r"packages\.\w+ was"),
    ],
)
def test_refuses_what_else_differs(
    sealed: Path, monkeypatch: pytest.MonkeyPatch, name: str, changed: Callable[..., Any], message: str
) -> None:
    monkeypatch.setattr(facts, name, changed)
    with pytest.raises(InputError, match=message):
        run_sealed(sealed, None, QUIET)
    assert not (sealed / "shards").exists()


def test_another_commit_with_the_same_files_goes_on(
    ran: Ran, copy: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "commit", lambda: ("f" * 40, True))
    assert run_sealed(copy(), None, QUIET).head == ran.finished.head
