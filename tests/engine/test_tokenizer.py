"""Tokenizers: nothing added, everything given back, and the same ids in a suite's environment."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from safetyrepro.errors import InputError
from tests.engine.conftest import Loader
from tests.tiny import FAMILIES, make_tiny_model

TEXT = "Who was late?  Nobody\n\tknows: é 日本 👍 <|im_start|>user<bos>"


@pytest.mark.parametrize("family", FAMILIES)
def test_suites_get_the_same_ids_from_the_tokenizer_folder(
    families: dict[str, Path], loaded: Loader, own_cache: Path, family: str
) -> None:
    from transformers import AutoTokenizer

    engine = loaded(families[family])
    folder = engine.info.tokenizer_dir
    assert folder.parent == own_cache / "tokenizers"
    assert sorted(path.name for path in folder.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    theirs = AutoTokenizer.from_pretrained(folder)
    assert theirs(TEXT, add_special_tokens=False).input_ids == engine.tokenizer.encode(TEXT)
    added = [engine.tokenizer.bos_id] if engine.tokenizer.adds_bos else []
    assert theirs(TEXT).input_ids == [*added, *engine.tokenizer.encode(TEXT)]
    assert engine.info.adds_bos == (family == "gemma3")
    messages = [{"role": "user", "content": "Hi"}]
    assert theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) == engine.tokenizer.chat(
        messages
    )
    assert loaded(families[family]).info.tokenizer_dir == folder
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_special_tokens_are_parsed_shown_and_left_out(families: dict[str, Path], loaded: Loader) -> None:
    tokenizer = loaded(families["gemma3"]).tokenizer
    ids = tokenizer.encode("<bos>Hi<end_of_turn>")
    assert (ids[0], ids[-1]) == (0, 4)
    assert tokenizer.decode(ids) == "<bos>Hi<end_of_turn>"
    assert tokenizer.decode(ids, skip_special=True) == "Hi"
    assert tokenizer.token_text(0) == "<bos>"


def test_token_texts_are_bytes_decoded(families: dict[str, Path], loaded: Loader) -> None:
    tokenizer = loaded(families["llama"]).tokenizer
    assert "".join(tokenizer.token_text(index) for index in tokenizer.encode(" of the\n")) == " of the\n"
    assert [tokenizer.token_text(index) for index in tokenizer.encode("é")] == ["bytes:\\xc3", "bytes:\\xa9"]


def test_chat_template_can_leave_the_last_message_open(families: dict[str, Path], loaded: Loader) -> None:
    tokenizer = loaded(families["llama"]).tokenizer
    user, answer = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}
    assert tokenizer.chat([user]) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.chat([user], add_generation_prompt=False) == "<|im_start|>user\nHi<|im_end|>\n"
    open_end = tokenizer.chat([user, answer], continue_final_message=True)
    assert open_end == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes"


def test_hostile_template_stays_in_its_sandbox(families: dict[str, Path], loaded: Loader, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile"
    shutil.copytree(families["llama"], hostile)
    (hostile / "chat_template.jinja").write_text("{{ ''.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(InputError, match="chat template refuses"):
        loaded(hostile).tokenizer.chat([{"role": "user", "content": "Hi"}])


def test_no_template_is_one_sentence(loaded: Loader, tmp_path: Path) -> None:
    engine = loaded(make_tiny_model(tmp_path / "base", chat=False))
    assert not engine.info.has_chat_template
    with pytest.raises(InputError, match="has no chat template"):
        engine.tokenizer.chat([{"role": "user", "content": "Hi"}])


def test_tokenizer_that_loses_text_fails_at_load(families: dict[str, Path], loaded: Loader, tmp_path: Path) -> None:
    lossy = tmp_path / "lossy"
    shutil.copytree(families["llama"], lossy)
    body = json.loads((lossy / "tokenizer.json").read_text())
    (lossy / "tokenizer.json").write_text(json.dumps({**body, "normalizer": {"type": "Lowercase"}}))
    with pytest.raises(InputError, match=r"came back as .hello world, it's 12345\.67!"):
        loaded(lossy)


def test_folder_without_tokenizer_is_one_sentence(families: dict[str, Path], loaded: Loader, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(families["llama"], bare, ignore=shutil.ignore_patterns("tokenizer*"))
    with pytest.raises(InputError, match=r"bare: holds no tokenizer \(no tokenizer.json\)"):
        loaded(bare)


def test_damaged_tokenizer_is_one_sentence(families: dict[str, Path], loaded: Loader, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(families["llama"], damaged)
    (damaged / "tokenizer.json").write_text('{"model": ')
    with pytest.raises(InputError, match="damaged: its tokenizer cannot be read"):
        loaded(damaged)
