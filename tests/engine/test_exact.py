"""Exact mode: a result depends on the token ids and the decoding alone."""

from __future__ import annotations

import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.engine import Decoding, Engine, Scored
from safetyrepro.errors import InputError
from tests.engine.conftest import Loader

TEXTS = [
    "The capital of France is" + " and".join(f" Paris {number}" for number in range(count)) for count in range(1, 13)
]
GREEDY = Decoding(max_tokens=8)
SAMPLED = Decoding(max_tokens=8, temperature=0.8, top_p=0.9, seed=3)


@pytest.mark.parametrize(("rows", "bucket"), [(1, 1), (4, 16)])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_results_are_bit_equal_under_shuffled_arrival(
    families: dict[str, Path], loaded: Loader, family: str, rows: int, bucket: int
) -> None:
    engine = loaded(families[family], batch_rows=rows, length_bucket=bucket)
    sequences = [engine.tokenizer.encode(text) for text in TEXTS]
    scores: list[tuple[int, Decoding | None]] = [(at, None) for at in range(len(sequences))]
    generations = [(at, decoding) for at in range(4) for decoding in (GREEDY, SAMPLED)]
    alone = {job: ask(engine, sequences[job[0]], job[1]) for job in [*scores, *generations]}
    jobs = [*scores, *scores, *generations, *generations]
    for round_number in range(2):
        random.Random(round_number).shuffle(jobs)
        with ThreadPoolExecutor(max_workers=8) as pool:
            found = list(pool.map(lambda job: ask(engine, sequences[job[0]], job[1]), jobs))
        assert found == [alone[job] for job in jobs]
    together = engine.score(sequences, memo=False)
    assert together == [alone[job] for job in scores]
    assert engine.memo_hits() == 0


def ask(engine: Engine, ids: list[int], decoding: Decoding | None) -> Any:
    if decoding is None:
        return engine.score([ids], memo=False)[0]
    return engine.generate([ids], decoding, memo=False)[0]


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen2"])
def test_scores_are_those_of_the_model(families: dict[str, Path], loaded: Loader, family: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    engine = loaded(families[family])
    model: Any = AutoModelForCausalLM.from_pretrained(families[family], dtype=torch.float32)
    ids = engine.tokenizer.encode(" ".join(TEXTS))
    assert len(ids) > 64
    scored = engine.score([ids])[0]
    with torch.no_grad():
        table = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    expected = table[:-1].gather(-1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()
    assert scored.logprobs[0] is None
    assert scored.logprobs[1:] == pytest.approx(expected, abs=1e-4)
    assert scored.top[0] == ()
    for position, pairs in enumerate([*scored.top[1:], scored.next_top]):
        values, _ = table[position].topk(20)
        assert [logprob for _, logprob in pairs] == pytest.approx(values.tolist(), abs=1e-4)
        assert [table[position, index].item() for index, _ in pairs] == pytest.approx(values.tolist(), abs=1e-4)


def test_logits_in_pieces_give_the_same(
    families: dict[str, Path], loaded: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = loaded(families["llama"], length_bucket=16)  # the chunks of a bucket of 1 need no such pieces
    ids = engine.tokenizer.encode(TEXTS[-1])
    whole = engine.score([ids], memo=False)[0]
    monkeypatch.setattr("safetyrepro.engine.forward.LOGITS_AT_ONCE", 7 * 325)
    pieces = engine.score([ids], memo=False)[0]
    assert pieces.logprobs[1:] == pytest.approx(whole.logprobs[1:], abs=1e-5)
    assert [[index for index, _ in pairs] for pairs in pieces.top] == [[i for i, _ in pairs] for pairs in whole.top]
    assert pieces.next_top == whole.next_top


def test_a_model_that_caps_its_logits_is_computed_whole(
    families: dict[str, Path], loaded: Loader, tmp_path: Path
) -> None:
    capped = tmp_path / "capped"
    shutil.copytree(families["gemma3"], capped)
    config = json.loads((capped / "config.json").read_text())
    (capped / "config.json").write_text(json.dumps({**config, "final_logit_softcapping": 1.0}))
    plain, other = loaded(families["gemma3"]), loaded(capped)
    ids = plain.tokenizer.encode(TEXTS[3])
    scored = other.score([ids])[0]
    spread = scored.next_top[0][1] - scored.next_top[-1][1]
    assert spread < 2.0 < plain.score([ids])[0].next_top[0][1] - plain.score([ids])[0].next_top[-1][1]
    assert other.generate([ids], GREEDY)[0].top[0] == scored.next_top


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen2"])
def test_first_greedy_token_is_the_scored_next_token_bit_for_bit(
    families: dict[str, Path], loaded: Loader, family: str
) -> None:
    engine = loaded(families[family])
    for text in TEXTS[:6]:
        ids = engine.tokenizer.encode(text)
        generated = engine.generate([ids], GREEDY)[0]
        next_top = engine.score([ids])[0].next_top
        assert generated.top[0] == next_top
        assert (generated.ids[0], generated.logprobs[0]) == next_top[0]


def test_generated_tokens_are_the_ones_that_scoring_finds_likeliest(families: dict[str, Path], loaded: Loader) -> None:
    engine = loaded(families["qwen2"])
    ids = engine.tokenizer.encode(TEXTS[2])
    generated = engine.generate([ids], Decoding(max_tokens=12))[0]
    rescored: Scored = engine.score([[*ids, *generated.ids]])[0]
    assert rescored.logprobs[len(ids) :] == pytest.approx(generated.logprobs, abs=1e-4)
    assert [pairs[0][0] for pairs in rescored.top[len(ids) :]] == list(generated.ids)


def test_memo_changes_nothing_and_counts_its_hits(families: dict[str, Path], loaded: Loader) -> None:
    engine = loaded(families["llama"])
    ids = engine.tokenizer.encode(TEXTS[4])
    fresh = engine.score([ids], memo=False), engine.generate([ids], SAMPLED, memo=False)
    assert (engine.score([ids]), engine.generate([ids], SAMPLED)) == fresh
    assert engine.memo_hits() == 0
    assert (engine.score([ids]), engine.generate([ids], SAMPLED)) == fresh
    assert engine.memo_hits() == 2


def test_seed_choice_and_repeat_draw_anew(families: dict[str, Path], loaded: Loader) -> None:
    engine = loaded(families["llama"])
    ids = engine.tokenizer.encode(TEXTS[0])
    hot = Decoding(max_tokens=12, temperature=2.0)
    draws = [hot, replace(hot, seed=1), replace(hot, choice=1), replace(hot, repeat=1)]
    assert len({engine.generate([ids], draw)[0].ids for draw in draws}) == 4


def test_top_p_keeps_to_the_likeliest(families: dict[str, Path], loaded: Loader) -> None:
    engine = loaded(families["llama"])
    ids = engine.tokenizer.encode(TEXTS[0])
    narrow = engine.generate([ids], Decoding(max_tokens=12, temperature=2.0, top_p=1e-6))[0]
    assert narrow.ids == engine.generate([ids], Decoding(max_tokens=12))[0].ids


def test_sampling_follows_the_model(families: dict[str, Path], loaded: Loader) -> None:
    import math

    engine = loaded(families["llama"])
    ids = engine.tokenizer.encode(TEXTS[1])
    likeliest, logprob = engine.score([ids])[0].next_top[0]
    draws = [engine.generate([ids], Decoding(1, temperature=1.0, seed=seed))[0].ids[0] for seed in range(150)]
    expected = 150 * math.exp(logprob)
    assert abs(draws.count(likeliest) - expected) < 4 * math.sqrt(expected)


def test_stop_string_cuts_the_text_and_ends(families: dict[str, Path], loaded: Loader) -> None:
    engine = loaded(families["llama"])
    ids = engine.tokenizer.encode(TEXTS[0])
    free = engine.generate([ids], Decoding(max_tokens=12))[0]
    assert free.finish_reason == "length"
    assert len(free.ids) == len(free.logprobs) == len(free.top) == 12
    stop = next(text for text in (engine.tokenizer.token_text(index) for index in free.ids[2:]) if text in free.text)
    cut = engine.generate([ids], Decoding(max_tokens=12, stop=(stop,)))[0]
    assert cut.finish_reason == "stop"
    assert cut.text == free.text[: free.text.index(stop)]
    assert cut.ids == free.ids[: len(cut.ids)]


def test_special_token_as_stop_and_end_token_end(families: dict[str, Path], loaded: Loader, tmp_path: Path) -> None:
    engine = loaded(families["llama"])
    ids = engine.tokenizer.encode(TEXTS[0])
    third = engine.generate([ids], Decoding(max_tokens=3))[0].ids[2]
    ending = tmp_path / "ending"
    shutil.copytree(families["llama"], ending)
    (ending / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, third]}))
    ended = loaded(ending).generate([ids], Decoding(max_tokens=12))[0]
    assert ended.finish_reason == "stop"
    assert ended.ids[-1] == third
    assert ended.text == engine.tokenizer.decode(ended.ids[:-1], skip_special=True)


def test_generation_ends_at_the_models_length(families: dict[str, Path], loaded: Loader) -> None:
    engine = loaded(families["llama"])
    prompt = (engine.tokenizer.encode(" and") * 2046)[:2046]
    generated = engine.generate([prompt], Decoding(max_tokens=16))[0]
    assert len(generated.ids) <= 2
    with pytest.raises(InputError, match="has 2048 tokens, the model takes at most 2047 here"):
        engine.generate([[*prompt, 5, 5]], GREEDY)


@pytest.mark.parametrize(
    ("ids", "said"),
    [([], "holds no token"), ([3] * 2049, "has 2049 tokens"), ([3, 325], "Token id 325 is outside"), ([-1], "-1")],
)
def test_impossible_sequences_are_refused(families: dict[str, Path], loaded: Loader, ids: list[int], said: str) -> None:
    engine = loaded(families["llama"])
    with pytest.raises(InputError, match=said):
        engine.score([ids])


def test_a_closed_engine_says_so(families: dict[str, Path], loaded: Loader) -> None:
    engine = loaded(families["llama"])
    engine.close()
    engine.close()
    with pytest.raises(RuntimeError, match="closed"):
        engine.score([[3, 4]])


def test_overflow_fails_alone_and_is_no_score(families: dict[str, Path], loaded: Loader, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    wild = tmp_path / "wild"
    shutil.copytree(families["llama"], wild)
    weights = load_file(wild / "model.safetensors")
    weights["model.embed_tokens.weight"][7] = float("nan")
    save_file(weights, wild / "model.safetensors", {"format": "pt"})
    engine = loaded(wild, batch_rows=4, length_bucket=4)
    with ThreadPoolExecutor(max_workers=8) as pool:
        good = [pool.submit(engine.score, [[3, 4, token]]) for token in range(8, 24)]
        bad = [pool.submit(engine.score, [[3, 7, token]]) for token in range(8, 24)]
    for future in bad:
        with pytest.raises(InputError, match="not finite"):
            future.result()
    assert [future.result() for future in good] == [engine.score([[3, 4, token]], memo=False) for token in range(8, 24)]
    with pytest.raises(InputError, match="not finite"):
        engine.generate([[3, 7]], GREEDY)
