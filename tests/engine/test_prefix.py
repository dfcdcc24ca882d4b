"""Sequences that begin alike share the cost of their beginning, and no bit of any result."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.engine import Decoding, Engine
from safetyrepro.engine.exact import ExactEngine
from safetyrepro.engine.prefix import CHUNK
from tests.engine.conftest import Loader

DECODINGS = (None, Decoding(max_tokens=4), Decoding(max_tokens=4, temperature=0.8, seed=3))
BUDGETS = {"kept": 1 << 29, "evicting": 200_000, "off": 0}


def sequences() -> list[list[int]]:
    """Three beginnings that part before, at and after a chunk's end, each continued to several lengths."""
    source = random.Random(0)

    def some(count: int) -> list[int]:
        return [source.randrange(10, 320) for _ in range(count)]

    whole = some(2 * CHUNK + 40)
    starts = [whole[: CHUNK - 3], whole[: 2 * CHUNK], whole]
    made = [start + some(count) for start in starts for count in (1, 3, 30, CHUNK)]
    return [*made, whole[:1], whole[:CHUNK], whole[: 2 * CHUNK]]


def ask(engine: Engine, ids: list[int], decoding: Decoding | None) -> Any:
    if decoding is None:
        return engine.score([ids], memo=False)[0]
    return engine.generate([ids], decoding, memo=False)[0]


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma3"])
def test_kept_chunks_change_no_bit(
    families: dict[str, Path], loaded: Loader, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    jobs = [(ids, decoding) for ids in sequences() for decoding in DECODINGS]
    expected: list[Any] = []
    for budget in BUDGETS.values():
        monkeypatch.setattr("safetyrepro.engine.prefix.PREFIX_BYTES", budget)
        engine = loaded(families[family])
        found = [ask(engine, *job) for job in jobs]
        expected = expected or found
        assert found == expected
        order = list(range(len(jobs)))
        random.Random(budget).shuffle(order)
        with ThreadPoolExecutor(max_workers=8) as pool:
            again = list(pool.map(lambda at, engine=engine: ask(engine, *jobs[at]), order))  # type: ignore[misc]
        assert again == [expected[at] for at in order]


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma3"])
def test_chunks_agree_with_one_full_forward_pass(families: dict[str, Path], loaded: Loader, family: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    engine = loaded(families[family])
    assert engine.info.details["prefix_chunk"] == str(CHUNK)
    model: Any = AutoModelForCausalLM.from_pretrained(families[family], dtype=torch.float32)
    for ids in sequences():
        with torch.no_grad():
            table = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        scored = engine.score([ids])[0]
        own = table[:-1].gather(-1, torch.tensor(ids[1:], dtype=torch.long)[:, None])[:, 0]
        assert scored.logprobs[1:] == pytest.approx(own.tolist(), abs=1e-4)
        likeliest = table[-1, [index for index, _ in scored.next_top]]
        assert [logprob for _, logprob in scored.next_top] == pytest.approx(likeliest.tolist(), abs=1e-4)
        assert engine.generate([ids], Decoding(max_tokens=1))[0].top[0] == scored.next_top


def test_a_shared_beginning_is_forwarded_once(families: dict[str, Path], loaded: Loader) -> None:
    engine = loaded(families["llama"])
    assert isinstance(engine, ExactEngine)
    start = [7] * (3 * CHUNK)
    before = engine.tokens_forwarded
    engine.score([[*start, token, 9] for token in range(20, 30)])
    assert engine.tokens_asked == 10 * (len(start) + 2)
    assert engine.tokens_forwarded - before == len(start) + 10 * 2


def test_the_least_recently_used_chunks_are_dropped(
    families: dict[str, Path], loaded: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyrepro.engine.prefix.PREFIX_BYTES", 200_000)
    engine = loaded(families["llama"])
    assert isinstance(engine, ExactEngine)
    first = [[7] * CHUNK, [8] * CHUNK]
    engine.score(first, memo=False)
    before = engine.tokens_forwarded
    engine.score(first, memo=False)
    assert engine.tokens_forwarded == before
    engine.score([[token] * CHUNK for token in range(10, 20)], memo=False)
    before = engine.tokens_forwarded
    engine.score(first, memo=False)
    assert engine.tokens_forwarded - before == 2 * CHUNK


def test_other_shapes_are_not_chunked(families: dict[str, Path], loaded: Loader) -> None:
    for numerics in ({"batch_rows": 2}, {"length_bucket": 8}):
        assert loaded(families["llama"], **numerics).info.details["prefix_chunk"] == "none"
