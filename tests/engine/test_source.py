"""Where a model comes from, and whether it is the one that was meant."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from safetyrepro.config import ModelSpec
from safetyrepro.engine import load
from safetyrepro.engine.loading import usual_threads
from safetyrepro.engine.source import weights_hash
from safetyrepro.errors import InputError
from tests.engine.conftest import Loader


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_hash_is_checked_where_it_is_given(families: dict[str, Path], loaded: Loader) -> None:
    folder = families["llama"]
    found = digest(folder / "model.safetensors")
    plain, checked = loaded(folder), loaded(folder, weights_sha256=found)
    unverified = loaded(folder, weights_sha256="unverified")
    assert {engine.info.weights_sha256 for engine in (plain, checked, unverified)} == {found}
    states = [engine.info.weights_verified for engine in (plain, checked, unverified)]
    assert states == [False, True, False]
    with pytest.raises(InputError, match=f"sha256 is {found}, {'0' * 64} is expected"):
        loaded(folder, weights_sha256="0" * 64)


def test_files_beside_the_weights_are_hashed(families: dict[str, Path], loaded: Loader) -> None:
    folder = families["llama"]
    files = loaded(folder).info.files_sha256
    assert files == {path.name: digest(path) for path in folder.iterdir() if path.suffix in (".json", ".jinja")}
    assert files.keys() >= {"config.json", "tokenizer.json", "tokenizer_config.json"}


def test_sharded_weights_are_hashed_by_the_written_rule(families: dict[str, Path], tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(families["llama"]).save_pretrained(tmp_path, max_shard_size="200KB")
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert len(shards) > 1
    lines = "".join(f"{digest(shard)}  {shard.name}\n" for shard in shards)
    assert weights_hash(tmp_path)[0] == hashlib.sha256(lines.encode()).hexdigest()
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"lm_head.weight": "../../etc/passwd"}}))
    with pytest.raises(InputError, match=r"names .*passwd"):
        weights_hash(tmp_path)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"id": "/no/such/model"}, "no such folder or file"),
        ({"id": "gpt-9"}, "no hub id .* none of gemma3-270m, smollm2-135m-instruct"),
        ({"id": "Qwen/Qwen2.5-7B-Instruct"}, "needs a revision"),
        ({"id": "smollm2-135m-instruct"}, "safetyrepro models pull smollm2-135m-instruct"),
    ],
)
def test_what_is_not_there_is_one_sentence(own_cache: Path, spec: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        load(ModelSpec.model_validate(spec))


def test_a_revision_belongs_to_the_hub(families: dict[str, Path]) -> None:
    with pytest.raises(InputError, match="which only a hub id has"):
        load(ModelSpec(id=str(families["llama"]), revision="main"))


def test_a_hub_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="cannot be fetched from the hub"):
        load(ModelSpec(id="nobody/nothing", revision="unverified"))


@pytest.mark.parametrize(
    ("left_out", "said"), [("config.json", "holds no config.json"), ("model.safetensors", "holds no model.safetensors")]
)
def test_incomplete_folder_is_one_sentence(families: dict[str, Path], tmp_path: Path, left_out: str, said: str) -> None:
    shutil.copytree(families["llama"], tmp_path / "part", ignore=shutil.ignore_patterns(left_out))
    with pytest.raises(InputError, match=said):
        load(ModelSpec(id=str(tmp_path / "part")))


def test_cut_weights_are_one_sentence(families: dict[str, Path], tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(families["llama"], cut)
    weights = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(InputError, match="transformers cannot load the model"):
        load(ModelSpec(id=str(cut)))


def test_missing_tensor_is_one_sentence(families: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(families["llama"], tmp_path / "holes")
    weights = load_file(tmp_path / "holes" / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, tmp_path / "holes" / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"lack 1 tensors, such as lm_head\.weight"):
        load(ModelSpec(id=str(tmp_path / "holes")))


def test_licence_comes_from_the_model_card(families: dict[str, Path], loaded: Loader, tmp_path: Path) -> None:
    shutil.copytree(families["llama"], tmp_path / "carded")
    (tmp_path / "carded" / "README.md").write_text("---\nlicense: mit\n---\nA model.\n")
    assert loaded(tmp_path / "carded").info.licence == "mit"
    assert loaded(families["llama"]).info.licence is None


@pytest.mark.parametrize(("stated", "threads"), [("3", 3), ("", None), ("0", None), ("4,2", None)])
def test_threads_are_those_that_the_process_may_use(
    stated: str, threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", stated)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 4, 5, 6, 7})
    assert usual_threads() == (threads or 5)
