from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.benchmarks import get, load_data
from safetyrepro.benchmarks.base import Data
from safetyrepro.canonical import Canonical, ids_sha256, render
from safetyrepro.config import Config
from safetyrepro.engine.tokenizer import FastTokenizer, read_tokenizer
from safetyrepro.errors import InputError
from tests.benchmarks.configs import make_config
from tests.benchmarks.test_truthfulqa import write_csv
from tests.tiny import make_tiny_model


@pytest.fixture(scope="module")
def chatml(tiny_model: Path) -> FastTokenizer:
    """A tokenizer that adds no BOS, with a chat template."""
    return _tokenizer(tiny_model)


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> FastTokenizer:
    """A tokenizer that adds BOS, with a chat template that starts with it."""
    return _tokenizer(make_tiny_model(tmp_path_factory.mktemp("gemma") / "m", family="gemma3"))


def _tokenizer(folder: Path) -> FastTokenizer:
    hugging_face = read_tokenizer(folder)
    return FastTokenizer(hugging_face, frozenset({hugging_face.eos_token_id}))


def rendered(config: Config, tokenizer: FastTokenizer, folder: Path | None = None) -> tuple[Data, Canonical]:
    data = load_data(config, folder)
    return data, render(config, get(config.benchmark.name), data, tokenizer)


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("candidate", ["text", "letter"])
@pytest.mark.parametrize("family", ["chatml", "turns"])
def test_every_sequence_is_its_context_continued(
    family: str, candidate: str, chat: bool, request: pytest.FixtureRequest
) -> None:
    tokenizer: FastTokenizer = request.getfixturevalue(family)
    config = make_config(
        "bbq", scoring__candidate=candidate, chat_template__enabled=chat, shots__count=2, benchmark__items={"count": 6}
    )
    data, canonical = rendered(config, tokenizer)
    assert [prompt.item_id for prompt in canonical.prompts] == [item.item_id for item in data.items]
    assert len(canonical.sequences) == 18
    by_id = {prompt.item_id: prompt for prompt in canonical.prompts}
    items = {item.item_id: item for item in data.items}
    for number, sequence in enumerate(canonical.sequences):
        prompt, item = by_id[sequence.item_id], items[sequence.item_id]
        expected = item.options if candidate == "text" else ("A", "B", "C")
        assert (sequence.index, sequence.candidate) == (number % 3, expected[number % 3])
        assert sequence.delimiter == ("" if chat else " ")
        assert sequence.context == prompt.text
        assert list(sequence.ids) == tokenizer.encode(sequence.context + sequence.delimiter + sequence.candidate)
        assert sequence.ids[: sequence.n_context] == prompt.ids
        rest = tokenizer.decode(sequence.ids[sequence.n_context :])
        assert rest == sequence.delimiter + sequence.candidate


def test_raw_prompts_open_with_bos_where_the_tokenizer_adds_one(chatml: FastTokenizer, turns: FastTokenizer) -> None:
    config = make_config("truthfulqa", benchmark__items={"count": 3})
    for prompt in rendered(config, turns)[1].prompts:
        assert prompt.text == "<bos>" + prompt.user
        assert (prompt.ids[0], prompt.ids.count(turns.bos_id)) == (turns.bos_id, 1)
        assert prompt.messages == ()
        assert not prompt.text[-1].isspace()
    for prompt in rendered(config, chatml)[1].prompts:
        assert prompt.text == prompt.user
    never = make_config("truthfulqa", benchmark__items={"count": 3}, prompt__bos="never")
    assert all(prompt.text == prompt.user for prompt in rendered(never, turns)[1].prompts)


def test_chat_prompts_are_the_model_s_own_template(turns: FastTokenizer) -> None:
    config = make_config(
        "truthfulqa",
        benchmark__items={"count": 2},
        shots__count=1,
        chat_template={"enabled": True, "system": "Be brief."},
    )
    data, canonical = rendered(config, turns)
    benchmark = get("truthfulqa")
    shot, item, prompt = data.shots[0], data.items[0], canonical.prompts[0]
    asked, answered = benchmark.prompt(shot, (), config), benchmark.answer(shot, config)
    user = benchmark.prompt(item, (), config)
    assert prompt.messages == (("system", "Be brief."), ("user", asked), ("assistant", answered), ("user", user))
    assert prompt.text == (
        f"<bos><start_of_turn>system\nBe brief.<end_of_turn>\n<start_of_turn>user\n{asked}<end_of_turn>\n"
        f"<start_of_turn>model\n{answered}<end_of_turn>\n<start_of_turn>user\n{user}<end_of_turn>\n<start_of_turn>model\n"
    )
    assert prompt.user == user
    assert prompt.ids.count(turns.bos_id) == 1


def test_free_scoring_has_no_candidates(chatml: FastTokenizer) -> None:
    _, canonical = rendered(make_config("bbq", scoring__path="free", benchmark__items={"count": 4}), chatml)
    assert (len(canonical.prompts), canonical.sequences) == (4, ())


def test_a_model_without_chat_template_is_refused(tmp_path: Path) -> None:
    tokenizer = _tokenizer(make_tiny_model(tmp_path / "m", chat=False))
    with pytest.raises(InputError, match=r"chat_template\.enabled is true.*has no chat template"):
        rendered(make_config("bbq", chat_template__enabled=True), tokenizer)


def official(tmp_path: Path, best: str, wrong: str) -> dict[str, Any]:
    write_csv(tmp_path / "truthfulqa/TruthfulQA.csv", [("A", "c", "Why?", best, best, wrong, "s")])
    return {"benchmark__source": "file", "shots__pool": 0}


def test_a_candidate_that_merges_with_its_context_is_refused_with_the_pieces(
    chatml: FastTokenizer, tmp_path: Path
) -> None:
    # Behind a template whose header ends in a newline, text that opens with one becomes one piece with it.
    fields = official(tmp_path, "good", "bad")
    config = make_config("truthfulqa", chat_template__enabled=True, **fields)
    data = load_data(config, tmp_path)
    merging = next(text for text in ("tem", "am", "end") if _merges(chatml, "Answer:" + text[:1], text[1:]))
    prompt = "Answer:" + merging[:1]

    class Cut(type(get("truthfulqa"))):  # type: ignore[misc]
        """The benchmark with a prompt that ends in the middle of a word."""

        def prompt(self, *_: Any) -> str:
            return prompt

        def candidates(self, *_: Any) -> tuple[str, ...]:
            return ("zz", merging[1:])

    class Joined(FastTokenizer):
        """The tokenizer with a template that adds nothing."""

        def chat(self, messages: Any, **_: Any) -> str:
            return str(messages[-1]["content"])

    joined = Joined(chatml.hugging_face, chatml.eos_ids)
    with pytest.raises(InputError) as caught:
        render(config, Cut(), data, joined)
    for part in (data.items[0].item_id, f"candidate 1 {merging[1:]!r} merges", "prompt alone has", repr(merging[:1])):
        assert part in str(caught.value)


def _merges(tokenizer: FastTokenizer, context: str, candidate: str) -> bool:
    ids = tokenizer.encode(context)
    return tokenizer.encode(context + candidate)[: len(ids)] != ids


def test_ids_hash() -> None:
    assert ids_sha256([1, 22, 333]) == hashlib.sha256(b"1,22,333").hexdigest()
    assert ids_sha256([1, 2]) != ids_sha256([12])


def test_a_sentence_without_prompt_is_conditioned_on_the_start_token(
    chatml: FastTokenizer, turns: FastTokenizer
) -> None:
    config = make_config("crows_pairs", benchmark__items={"count": 3})
    (eos,) = chatml.eos_ids
    assert (chatml.bos_id, turns.bos_id is None) == (None, False)
    for tokenizer, start in ((chatml, eos), (turns, turns.bos_id)):
        assert start is not None
        data, canonical = rendered(config, tokenizer)
        for prompt in canonical.prompts:
            assert (prompt.user, prompt.text, prompt.ids) == ("", tokenizer.token_text(start), (start,))
        sentences = [option for item in data.items for option in item.options]
        for sequence, sentence in zip(canonical.sequences, sentences, strict=True):
            assert (sequence.delimiter, sequence.candidate, sequence.n_context) == ("", sentence, 1)
            assert list(sequence.ids) == [start, *tokenizer.encode(sentence)]


def test_a_bos_that_the_tokenizer_does_not_add_begins_a_sentence_all_the_same(turns: FastTokenizer) -> None:
    config = make_config("crows_pairs", benchmark__items={"count": 2})
    tokenizer = copy.copy(turns)
    tokenizer.adds_bos = False
    assert all(prompt.ids == (turns.bos_id,) for prompt in rendered(config, tokenizer)[1].prompts)


def test_without_any_start_token_a_sentence_is_refused(chatml: FastTokenizer) -> None:
    config = make_config("crows_pairs", benchmark__items={"count": 2})
    tokenizer = copy.copy(chatml)
    tokenizer.eos_ids = frozenset()
    with pytest.raises(InputError, match="neither a BOS nor an EOS token to begin with"):
        rendered(config, tokenizer)


def test_a_sentence_behind_nothing_is_refused(chatml: FastTokenizer) -> None:
    never = make_config("crows_pairs", benchmark__items={"count": 2}, prompt__bos="never")
    with pytest.raises(InputError, match=r"prompt\.bos is never, and this template's prompt is empty"):
        rendered(never, chatml)
    role = make_config("crows_pairs", benchmark__items={"count": 2}, prompt__bos="never", prompt__template="role")
    assert all(sequence.delimiter == " " for sequence in rendered(role, chatml)[1].sequences)
