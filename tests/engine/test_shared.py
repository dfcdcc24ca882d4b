"""Shared mode: the same results as exact mode but for rounding, and every common beginning computed once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from safetyrepro.config import ModelSpec, model_key
from safetyrepro.engine import Decoding, Engine, Generated, GenerateRequest, Scored, ScoreRequest, load
from safetyrepro.engine.held import ROWS, HeldKeys
from safetyrepro.engine.shared import SharedEngine
from safetyrepro.engine.sharing import SharedPass
from safetyrepro.engine.tree import prefix_tree
from safetyrepro.errors import InputError
from tests.engine.conftest import Loader

FAMILIES = ("llama", "qwen2", "gemma3")
TOLERANCE = 2e-4
"""Nats by which a token's log-probability may differ from exact mode's, at fp32."""
DECODINGS = (
    Decoding(max_tokens=8),
    Decoding(max_tokens=8, temperature=0.3, seed=5),
    Decoding(max_tokens=8, temperature=0.7, top_p=0.9, seed=5),
)


def items(count: int = 8, shots: int = 70) -> list[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Prompts behind common shots, each with candidates, some of which begin alike; longer than a sliding window."""
    source = random.Random(1)

    def some(length: int) -> tuple[int, ...]:
        return tuple(source.randrange(10, 320) for _ in range(length))

    shared = some(shots)
    made = []
    for _ in range(count):
        prompt = shared + some(source.randrange(3, 40))
        stem = some(2)
        made.append((prompt, [prompt + some(1), prompt + stem + some(3), prompt + stem + some(9), prompt + stem]))
    return made


def spans(top: bool = False) -> list[ScoreRequest]:
    return [ScoreRequest(ids, len(prompt), top) for prompt, candidates in items() for ids in candidates]


def continuations(top: bool = False) -> list[GenerateRequest]:
    return [GenerateRequest(prompt, decoding, top) for prompt, _ in items() for decoding in DECODINGS]


def near(found: Scored, exact: Scored) -> None:
    assert found.logprobs[0] is exact.logprobs[0] is None
    assert found.logprobs == pytest.approx(exact.logprobs, abs=TOLERANCE)
    for ours, theirs in zip([*found.top, found.next_top], [*exact.top, exact.next_top], strict=True):
        assert [logprob for _, logprob in ours] == pytest.approx([logprob for _, logprob in theirs], abs=TOLERANCE)
        values = dict(theirs)
        assert all(values[index] == pytest.approx(logprob, abs=TOLERANCE) for index, logprob in ours if index in values)


def same(found: Generated, exact: Generated) -> None:
    assert (found.ids, found.text, found.finish_reason) == (exact.ids, exact.text, exact.finish_reason)
    assert found.logprobs == pytest.approx(exact.logprobs, abs=TOLERANCE)
    assert len(found.top) == len(exact.top)


@dataclass(frozen=True)
class Pair:
    """One model in both modes, and what exact mode says to `spans()`, `spans(top=True)` and `continuations()`."""

    exact: Engine
    shared: SharedEngine
    spans: list[Scored]
    tops: list[Scored]
    texts: list[Generated]


@pytest.fixture(scope="module")
def pairs(families: dict[str, Path]) -> Iterator[dict[str, Pair]]:
    made = {}
    for family, folder in families.items():
        spec = ModelSpec(id=str(folder), quant="none", threads=1)
        exact, shared = load(spec), load(spec.model_copy(update={"mode": "shared"}))
        assert isinstance(shared, SharedEngine)
        scores, texts = exact.answer([*spans(), *spans(top=True)], continuations())
        made[family] = Pair(exact, shared, scores[: len(spans())], scores[len(spans()) :], texts)
    yield made
    for pair in made.values():
        pair.exact.close()
        pair.shared.close()


def agree(engine: Engine, pair: Pair) -> None:
    """Hold one pass over everything to exact mode."""
    scores, texts = engine.answer([*spans(), *spans(top=True)], continuations(), memo=False)
    for ours, theirs in zip(scores, [*pair.spans, *pair.tops], strict=True):
        near(ours, theirs)
    for ours_text, theirs_text in zip(texts, pair.texts, strict=True):
        same(ours_text, theirs_text)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pass_gives_what_exact_mode_gives(pairs: dict[str, Pair], family: str) -> None:
    assert len({text.ids for text in pairs[family].texts}) > len(items())
    agree(pairs[family].shared, pairs[family])


@pytest.mark.parametrize("pack", [1, 5])
def test_however_few_tokens_a_forward_pass_holds(
    families: dict[str, Path], loaded: Loader, pairs: dict[str, Pair], pack: int
) -> None:
    shared = loaded(families["gemma3"], mode="shared", pack_tokens=pack, threads=1)
    asks, generations = spans()[:6], continuations()[:6]
    scores, texts = shared.answer(asks, generations)
    for ours, theirs in zip(scores, pairs["gemma3"].spans, strict=False):
        near(ours, theirs)
    for ours_text, theirs_text in zip(texts, pairs["gemma3"].texts, strict=False):
        same(ours_text, theirs_text)


@pytest.mark.parametrize("family", FAMILIES)
def test_long_generations_look_back_like_exact_ones(pairs: dict[str, Pair], family: str) -> None:
    """Longer than gemma3's window of 32 tokens and than the room that a tail begins with."""
    stems = [(5,), (5, 6), (5, 6, 7, 8), (9, 10, 11)]
    asks = [GenerateRequest(ids, Decoding(max_tokens=length, seed=3)) for ids in stems for length in (3, 40, 70)]
    found, expected = pairs[family].shared.answer((), asks)[1], pairs[family].exact.answer((), asks)[1]
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_long_answer_keeps_no_room_of_short_ones(
    pairs: dict[str, Pair], family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, rows = pairs[family], []
    give_back = HeldKeys.give_back

    def watched(keys: HeldKeys, stems: int, stem: int, tails: int, tail: int) -> None:
        before = len(keys.held[0].tails[0])
        give_back(keys, stems, stem, tails, tail)
        rows.append((before, len(keys.held[0].tails[0])))

    monkeypatch.setattr(HeldKeys, "give_back", watched)
    prompts = [prompt for prompt, _ in items(30)]
    lengths = [96 if number in {3, 20} else 4 + number % 3 for number in range(30)]
    asked = [GenerateRequest(prompt, Decoding(max_tokens=most)) for prompt, most in zip(prompts, lengths, strict=True)]
    for ours, theirs in zip(
        pair.shared.answer(generations=asked, memo=False)[1], pair.exact.answer((), asked)[1], strict=True
    ):
        same(ours, theirs)
    assert rows[0][0] >= 24
    assert rows[-1][1] == ROWS


@pytest.mark.parametrize("family", FAMILIES)
def test_one_by_one_it_is_an_engine_like_any(pairs: dict[str, Pair], family: str) -> None:
    exact, shared = pairs[family].exact, pairs[family].shared
    prompt, sequences = items(2)[0][0], [ids for _, candidates in items(2) for ids in candidates]
    with ThreadPoolExecutor(max_workers=4) as pool:
        found = list(pool.map(lambda ids: shared.score([ids])[0], sequences))
        texts = list(pool.map(lambda decoding: shared.generate([prompt], decoding, memo=False)[0], DECODINGS))
    for ids, ours in zip(sequences, found, strict=True):
        near(ours, exact.score([ids])[0])
    for ours_text, decoding in zip(texts, DECODINGS, strict=True):
        same(ours_text, exact.generate([prompt], decoding, memo=False)[0])
        assert all(pairs for pairs in ours_text.top)
    assert shared.score([sequences[0]])[0].from_memo


@pytest.mark.parametrize("mode", ["exact", "shared"])
def test_what_was_not_asked_for_is_left_out(pairs: dict[str, Pair], mode: str) -> None:
    engine: Engine = getattr(pairs["llama"], mode)
    for ask, scored in zip(spans(), engine.answer(spans())[0], strict=True):
        assert scored.logprobs[: ask.start] == (None,) * ask.start
        assert all(isinstance(value, float) for value in scored.logprobs[ask.start :])
        assert scored.top == ((),) * len(ask.ids)
        assert scored.next_top == ()
    for ask, scored in zip(spans(top=True), engine.answer(spans(top=True))[0], strict=True):
        assert [len(found) for found in scored.top] == [0] * ask.start + [20] * (len(ask.ids) - ask.start)
        assert len(scored.next_top) == 20
    assert all(text.top == () for text in engine.answer((), continuations())[1])
    assert all(len(text.top) == len(text.ids) for text in engine.answer((), continuations(top=True))[1])


def test_every_common_beginning_goes_through_the_model_once(pairs: dict[str, Pair]) -> None:
    engine = pairs["qwen2"].shared
    before = engine.tokens_forwarded
    engine.answer(spans(), memo=False)
    beginnings = {ask.ids[:end] for ask in spans() for end in range(1, len(ask.ids))}
    assert engine.tokens_forwarded - before == len(beginnings)
    before = engine.tokens_forwarded
    texts = engine.answer((), continuations(), memo=False)[1]
    prompts = {ask.ids[:end] for ask in continuations() for end in range(1, len(ask.ids) + 1)}
    assert engine.tokens_forwarded - before == len(prompts) + sum(len(text.ids) - 1 for text in texts)


@pytest.mark.parametrize("mode", ["exact", "shared"])
@pytest.mark.parametrize("temperature", [1e-7, 1e-308, 5e-324])
def test_next_to_no_temperature_is_none(pairs: dict[str, Pair], mode: str, temperature: float) -> None:
    engine: Engine = getattr(pairs["llama"], mode)
    prompt = items(1)[0][0]
    [cold] = engine.generate([prompt], Decoding(max_tokens=8))
    [cool] = engine.generate([prompt], Decoding(max_tokens=8, temperature=temperature, seed=1))
    assert cool.ids == cold.ids


def test_order_and_company_change_no_draw(pairs: dict[str, Pair]) -> None:
    engine = pairs["llama"].shared
    hot = Decoding(max_tokens=8, temperature=1.5, seed=2)
    asks = [
        GenerateRequest(prompt, replace(hot, choice=choice, repeat=repeat))
        for prompt, _ in items(4)
        for choice in range(2)
        for repeat in range(2)
    ]
    together = dict(zip(asks, engine.answer((), asks, memo=False)[1], strict=True))
    assert len({text.ids for text in together.values()}) == len(asks)
    random.Random(0).shuffle(asks)
    for ask in asks[:4]:
        assert engine.answer((), [ask], memo=False)[1][0].ids == together[ask].ids
    shuffled = engine.answer(spans(), asks, memo=False)[1]
    assert [text.ids for text in shuffled] == [together[ask].ids for ask in asks]


def test_many_draws_of_one_prompt_branch_from_one_prefill(pairs: dict[str, Pair]) -> None:
    engine = pairs["llama"].shared
    prompt = items(1)[0][0]
    asks = [GenerateRequest(prompt, Decoding(max_tokens=6, temperature=1.0, seed=seed)) for seed in range(100)]
    before = engine.tokens_forwarded
    texts = engine.answer((), asks)[1]
    assert engine.tokens_forwarded - before == len(prompt) + sum(len(text.ids) - 1 for text in texts)
    for ask, text in list(zip(asks, texts, strict=True))[::25]:
        same(text, replace(pairs["llama"].exact.generate([prompt], ask.decoding)[0], top=()))


def allocated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records the bytes of all buffers of keys and values after each forward pass."""
    from safetyrepro.engine.packed import PackedShape, Step

    seen: list[int] = []
    packed = PackedShape.packed

    def watched(self: PackedShape, tokens: object, positions: object, step: Step) -> object:
        hidden = packed(self, tokens, positions, step)  # type: ignore[arg-type]
        layers = step.keys.layers
        seen.append(
            sum(part.nbytes for layer in layers for part in (layer.keys, layer.values, *layer.stems, *layer.tails))
        )
        return hidden

    monkeypatch.setattr(PackedShape, "packed", watched)
    return seen


def test_memory_stays_within_its_setting(
    families: dict[str, Path], loaded: Loader, pairs: dict[str, Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = loaded(families["llama"], mode="shared", cache_mb=1, pack_tokens=4096)
    seen = allocated(monkeypatch)
    agree(engine, pairs["llama"])
    long = [GenerateRequest(tuple(range(at, at + 300)), Decoding(max_tokens=40)) for at in range(10, 22)]
    engine.answer((), long)
    assert 500_000 < max(seen) <= 1_000_000
    texts = engine.answer((), long, memo=False)[1]
    wide = pairs["llama"].shared.answer((), long)[1]
    assert [text.ids for text in texts] == [text.ids for text in wide]


def test_a_request_without_room_fails_alone(families: dict[str, Path], loaded: Loader) -> None:
    engine = loaded(families["llama"], mode="shared", cache_mb=1)
    short, long = ScoreRequest((5, 6, 7), 1), ScoreRequest((10,) * 2040, 150)
    with pytest.raises(InputError, match="raise cache_mb"):
        engine.answer([short, long])
    assert engine.answer([short])[0][0].from_memo


def test_overflow_fails_alone(
    families: dict[str, Path], loaded: Loader, pairs: dict[str, Pair], tmp_path: Path
) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    wild = tmp_path / "wild"
    shutil.copytree(families["llama"], wild)
    weights = load_file(wild / "model.safetensors")
    weights["model.embed_tokens.weight"][20] = float("nan")
    save_file(weights, wild / "model.safetensors", {"format": "pt"})
    engine = loaded(wild, mode="shared")
    sequences = [[3, 4, token] for token in range(8, 12)] + [[3, 20, token] for token in range(8, 12)]
    with ThreadPoolExecutor(max_workers=8) as pool:
        futures = [pool.submit(engine.score, [ids]) for ids in sequences]
    for ids, future in zip(sequences, futures, strict=True):
        if 20 in ids:
            with pytest.raises(InputError, match="not finite"):
                future.result()
        else:
            near(future.result()[0], pairs["llama"].exact.score([ids])[0])


def test_texts_asked_for_at_about_the_same_time_share_a_pass(
    families: dict[str, Path], loaded: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = loaded(families["llama"], mode="shared")
    sizes: list[int] = []

    class Counted(SharedPass):
        def __init__(self, *arguments: Any) -> None:
            sizes.append(len(arguments[2]))
            super().__init__(*arguments)

    monkeypatch.setattr("safetyrepro.engine.shared.SharedPass", Counted)
    monkeypatch.setattr("safetyrepro.engine.shared.QUIET", 2.0)
    monkeypatch.setattr("safetyrepro.engine.shared.LONGEST", 60.0)
    prompts = [prompt for prompt, _ in items(6)]
    with ThreadPoolExecutor(len(prompts)) as pool:
        list(pool.map(lambda prompt: engine.generate([prompt], Decoding(max_tokens=3)), prompts))
    assert sizes == [len(prompts)]
    monkeypatch.setattr("safetyrepro.engine.shared.QUIET", 60.0)
    started = time.monotonic()
    engine.score([prompts[0]])
    assert time.monotonic() - started < 30
    monkeypatch.setattr("safetyrepro.engine.shared.LONGEST", 0.0)
    engine.generate([prompts[0]], Decoding(max_tokens=2))
    assert time.monotonic() - started < 30


def test_closing_ends_a_long_pass(families: dict[str, Path], loaded: Loader) -> None:
    engine = loaded(families["llama"], mode="shared", threads=1)
    begun = threading.Event()
    asks = [GenerateRequest((5, 6), Decoding(max_tokens=1000, temperature=1.0, seed=seed)) for seed in range(64)]
    with ThreadPoolExecutor(max_workers=1) as pool:
        scores = [ScoreRequest((5, 6, 7))]
        waiting = pool.submit(engine.answer, scores, asks, progress=lambda _done: begun.set())
        assert begun.wait(60)
        engine.close()
        with pytest.raises(RuntimeError, match="closed"):
            waiting.result()


@pytest.mark.parametrize("mode", ["exact", "shared"])
def test_progress_counts_every_request(pairs: dict[str, Pair], mode: str) -> None:
    counted: list[int] = []
    getattr(pairs["llama"], mode).answer(spans(), continuations(), progress=counted.append)
    assert counted == list(range(1, len(spans()) + len(continuations()) + 1))


@pytest.mark.parametrize("mode", ["exact", "shared"])
@pytest.mark.parametrize("start", [0, 3, 4])
def test_a_span_outside_its_sequence_is_refused(pairs: dict[str, Pair], start: int, mode: str) -> None:
    with pytest.raises(InputError, match=f"starts at token {start} of 3"):
        getattr(pairs["llama"], mode).answer([ScoreRequest((5, 6, 7), start)])


def test_degenerate_requests(pairs: dict[str, Pair]) -> None:
    engine, exact = pairs["gemma3"].shared, pairs["gemma3"].exact
    assert engine.answer() == ([], [])
    assert engine.answer([ScoreRequest((5,))])[0][0] == Scored((None,), ((),), ())
    near(engine.score([[5]])[0], exact.score([[5]])[0])
    twice = engine.answer([ScoreRequest((5, 6))] * 2, [GenerateRequest((5,), DECODINGS[0])] * 2)
    assert twice[0][0] == twice[0][1]
    assert twice[1][0] == twice[1][1]
    one = Decoding(max_tokens=1)
    same(engine.generate([[5, 6]], one)[0], exact.generate([[5, 6]], one)[0])
    with pytest.raises(InputError, match="holds no token"):
        engine.answer([ScoreRequest(())])


def test_numerics_and_details_disclose_it(families: dict[str, Path], loaded: Loader) -> None:
    info = loaded(families["llama"], mode="shared", pack_tokens=33, cache_mb=7).info
    assert info.numerics == "none/float32/-/shared"
    assert (info.details["pack_tokens"], info.details["cache_mb"]) == ("33", "7")
    assert "batch_rows" not in info.details


def test_shared_mode_has_ids_of_its_own_and_exact_mode_keeps_its_ids() -> None:
    exact, shared = ModelSpec(id="smollm2-135m-instruct"), ModelSpec(id="smollm2-135m-instruct", mode="shared")
    assert (
        model_key(exact) == "51c556a68b3d04b3ae28e0501e1d75bbd008977e575dd9766ce93e0639e5b826"
    )  # before this mode was
    others = [shared, *(shared.model_copy(update=change) for change in ({"pack_tokens": 64}, {"cache_mb": 64}))]
    assert len({model_key(model) for model in (exact, *others)}) == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pack_tokens": 64}, "pack_tokens means nothing in mode exact"),
        ({"cache_mb": 64}, "cache_mb means nothing in mode exact"),
        ({"mode": "shared", "batch_rows": 4}, "batch_rows means nothing in mode shared"),
        ({"mode": "shared", "length_bucket": 4}, "length_bucket means nothing in mode shared"),
        ({"mode": "quick"}, "exact"),
    ],
)
def test_settings_of_the_other_mode_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ModelSpec.model_validate({"id": "m", **given})


def test_a_model_that_caps_its_logits_is_refused(families: dict[str, Path], loaded: Loader, tmp_path: Path) -> None:
    import json
    import shutil

    capped = tmp_path / "capped"
    shutil.copytree(families["gemma3"], capped)
    config = json.loads((capped / "config.json").read_text())
    (capped / "config.json").write_text(json.dumps({**config, "final_logit_softcapping": 1.0}))
    with pytest.raises(InputError, match="set mode to exact"):
        loaded(capped, mode="shared")


def brute(sequences: Sequence[tuple[int, ...]]) -> set[tuple[int, ...]]:
    return {ids[:end] for ids in sequences for end in range(1, len(ids) + 1)}


def test_the_tree_holds_every_beginning_once() -> None:
    source = random.Random(3)
    for _ in range(200):
        sequences = [
            tuple(source.randrange(3) for _ in range(source.randrange(0, 6))) for _ in range(source.randrange(1, 9))
        ]
        tree = prefix_tree(sequences, [0] * len(sequences))
        assert len(tree.tokens) == len(brute(sequences))
        for ids, path in zip(sequences, tree.paths, strict=True):
            assert tuple(tree.tokens[path].tolist()) == ids
            assert tree.depths[path].tolist() == list(range(len(ids)))
        ancestors = {
            (a, b) for path in tree.paths for at, b in enumerate(path.tolist()) for a in path[: at + 1].tolist()
        }
        nodes = range(len(tree.tokens))
        assert {(a, b) for a in nodes for b in nodes if a <= b <= tree.last[a]} == ancestors
