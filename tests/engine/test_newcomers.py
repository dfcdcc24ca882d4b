"""Shared mode takes in what is asked while it is at work: the same results, shared beginnings, and no wait."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from safetyrepro.config import ModelSpec
from safetyrepro.engine import Decoding, Engine, Generated, GenerateRequest, Scored, ScoreRequest, load
from safetyrepro.engine.api import GivenUp, given_up
from safetyrepro.engine.forward import Likeliest
from safetyrepro.engine.generation import PackedGeneration
from safetyrepro.engine.held import HeldKeys
from safetyrepro.engine.loading import Opened, load_tokenizer, open_model
from safetyrepro.engine.packed import PackedShape
from safetyrepro.engine.requests import Answer, PackedSpan, Request
from safetyrepro.engine.row import packs
from safetyrepro.engine.sharing import SharedPass
from safetyrepro.engine.tree import EMPTY
from safetyrepro.errors import InputError
from tests.engine.conftest import Loader
from tests.engine.test_shared import DECODINGS, FAMILIES, TOLERANCE, continuations, items, near, same, spans

ENDLESS = GenerateRequest((5, 6, 7), Decoding(max_tokens=1900))


@dataclass(frozen=True)
class Opening:
    """One model for passes of the test's own, and in exact mode."""

    opened: Opened
    shape: PackedShape
    exact: Engine

    def answers(self, groups: Sequence[Sequence[Request]], every: int = 3) -> tuple[list[Answer], int]:
        """Of one pass that begins with the first group and takes in one more `every` so many forward passes.

        With them the number of tokens that went through the model.
        """
        waiting, found, calls = list(groups[1:]), dict[int, Answer](), 0

        def newcomers() -> Sequence[Request]:
            nonlocal calls
            calls += 1
            return waiting.pop(0) if waiting and calls % every == 0 else ()

        before = self.shape.forwarded
        SharedPass(
            self.shape,
            self.opened.tokenizer,
            groups[0],
            2048,
            lambda number, answer: found.update({number: answer}),
            newcomers=newcomers,
        ).run()
        assert not waiting, "the pass went on until all had come"
        return [found[number] for number in range(sum(map(len, groups)))], self.shape.forwarded - before


@pytest.fixture(scope="module")
def unending(families: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same models, whose greedy texts no end token ends."""
    made = {}
    for family, folder in families.items():
        made[family] = tmp_path_factory.mktemp("unending") / family
        shutil.copytree(folder, made[family])
        weights = load_file(folder / "model.safetensors")
        ends = sorted(load_tokenizer(ModelSpec(id=str(folder), quant="none")).eos_ids)
        weights["lm_head.weight"][ends] = 0
        save_file(weights, made[family] / "model.safetensors", {"format": "pt"})
    return made


@pytest.fixture(scope="module")
def openings(unending: dict[str, Path]) -> Iterator[dict[str, Opening]]:
    made = {}
    for family, folder in unending.items():
        spec = ModelSpec(id=str(folder), quant="none", threads=1)
        opened = open_model(spec, lambda _: None)
        shape = PackedShape(opened.model, pad_id=0, pack_tokens=16, cache_bytes=1 << 28)
        assert packs(shape)
        made[family] = Opening(opened, shape, load(spec))
    yield made
    for opening in made.values():
        opening.exact.close()


def asked() -> list[Request]:
    texts = [
        Request(ask.ids, 1, ask.top, replace(ask.decoding, max_tokens=1 + at % 11))
        for at, ask in enumerate([*continuations(), *continuations(top=True)])
    ]
    return [*texts, *(Request(ask.ids, ask.start, ask.top, None) for ask in [*spans(), *spans(top=True)])]


def agree(requests: Sequence[Request], answers: Sequence[Answer], exact: Engine) -> None:
    scores = [ScoreRequest(ask.ids, ask.start, ask.top) for ask in requests if ask.decoding is None]
    texts = [GenerateRequest(ask.ids, ask.decoding, ask.top) for ask in requests if ask.decoding is not None]
    scored, generated = exact.answer(scores, texts)
    for ours, theirs in zip((one for one in answers if isinstance(one, PackedSpan)), scored, strict=True):
        near(ours.unpacked(), theirs)
    for our_text, their_text in zip(
        (one for one in answers if isinstance(one, PackedGeneration)), generated, strict=True
    ):
        same(our_text.unpacked(), their_text)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("every", [1, 7])
def test_whenever_they_come_the_results_are_those_of_exact_mode(
    openings: dict[str, Opening], family: str, every: int
) -> None:
    opening, requests = openings[family], asked()
    random.Random(every).shuffle(requests)
    long = Request(tuple(range(20, 90)), 1, False, Decoding(max_tokens=250))
    groups = [[long], *(requests[at : at + 5] for at in range(0, len(requests), 5))]
    answers, _ = opening.answers(groups, every)
    agree([long, *requests], answers, opening.exact)


def test_newcomers_share_the_beginning_of_those_at_work(openings: dict[str, Opening]) -> None:
    opening = openings["llama"]
    prompts = [prompt for prompt, _ in items(6)]
    requests = [Request(ids, 1, False, Decoding(max_tokens=60)) for ids in prompts]
    answers, forwarded = opening.answers([requests[:2], *([ask] for ask in requests[2:])], every=9)
    agree(requests, answers, opening.exact)
    beginnings = {ids[:end] for ids in prompts for end in range(1, len(ids) + 1)}
    said = sum(len(answer.ids) - 1 for answer in answers if isinstance(answer, PackedGeneration))
    assert forwarded == len(beginnings) + said


def test_a_newcomer_that_repeats_a_prompt_begins_off_a_node_of_its_own(openings: dict[str, Opening]) -> None:
    opening, prompt = openings["qwen2"], tuple(range(30, 60))
    long = Decoding(max_tokens=30)
    requests = [Request(prompt, 1, False, decoding) for decoding in (long, *DECODINGS)]
    requests += [Request(prompt, 4, True, None), Request(prompt[:12], 1, False, None)]
    answers, _ = opening.answers([[ask] for ask in requests], every=4)
    agree(requests, answers, opening.exact)


def test_the_room_of_long_answers_is_given_back_while_others_come(
    openings: dict[str, Opening], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for two long answers: the short ones that come later find it once those have ended."""
    opening, room = openings["llama"], []
    give_back = HeldKeys.give_back

    def watched(keys: HeldKeys, *left: int) -> None:
        before = keys.held[0].tails[0].shape[2]
        give_back(keys, *left)
        room.append((before, keys.held[0].tails[0].shape[2]))

    monkeypatch.setattr(HeldKeys, "give_back", watched)
    per_token = opening.shape.room
    prompts = [tuple(range(10 + at, 40 + at)) for at in range(2)]
    long = [Request(ids, 1, False, Decoding(max_tokens=150)) for ids in prompts]
    short = [Request((*range(100, 130), at), 1, False, Decoding(max_tokens=20)) for at in range(40)]
    opening.shape.room = 2 * 192 + 40 * 40
    try:
        answers, _ = opening.answers([long, *(short[at : at + 8] for at in range(0, 40, 8))], every=30)
    finally:
        opening.shape.room = per_token
    agree([*long, *short], answers, opening.exact)
    assert any(before >= 150 and after <= 64 for before, after in room)


def test_nobody_is_taken_in_beyond_a_size(openings: dict[str, Opening], monkeypatch: pytest.MonkeyPatch) -> None:
    opening = openings["llama"]
    monkeypatch.setattr("safetyrepro.engine.sharing.MOST_NODES", 5)
    with pytest.raises(AssertionError, match="until all had come"):
        opening.answers([[Request(tuple(range(9, 20)), 1, False, DECODINGS[0])], [Request((5, 6), 1, False, None)]], 1)


def ask_behind(
    engine: Engine, long_text: GenerateRequest, asks: Sequence[GenerateRequest | ScoreRequest]
) -> list[Scored | Generated]:
    """What an engine answers that is already writing a long text, before that is there."""
    begun = threading.Event()
    with ThreadPoolExecutor(len(asks) + 1) as pool:
        long = pool.submit(
            engine.answer, [ScoreRequest((5, 6, 7))], [long_text], memo=False, progress=lambda _: begun.set()
        )
        assert begun.wait(60)
        later = [
            pool.submit(engine.answer, [ask], ())
            if isinstance(ask, ScoreRequest)
            else pool.submit(engine.answer, (), [ask])
            for ask in asks
        ]
        found = [[*scored, *texts][0] for scored, texts in (future.result(120) for future in later)]
        assert not long.done(), "they waited for the long answer"
        engine.close()
        with pytest.raises(RuntimeError, match="closed"):
            long.result()
    return found


def test_a_short_request_does_not_wait_for_a_long_answer(unending: dict[str, Path], loaded: Loader) -> None:
    exact = loaded(unending["llama"], threads=1)
    engine = loaded(unending["llama"], mode="shared", threads=1)
    asks = [*spans()[:4], *continuations()[:6]]
    found = ask_behind(engine, ENDLESS, asks)
    scored, texts = exact.answer(spans()[:4], continuations()[:6])
    for ours, theirs in zip(found, [*scored, *texts], strict=True):
        assert ours.logprobs[-1] == pytest.approx(theirs.logprobs[-1], abs=TOLERANCE)
        assert getattr(ours, "ids", None) == getattr(theirs, "ids", None)


def test_a_newcomer_without_room_fails_and_takes_nobody_along(unending: dict[str, Path], loaded: Loader) -> None:
    engine = loaded(unending["llama"], mode="shared", threads=1, cache_mb=1)
    begun = threading.Event()
    with ThreadPoolExecutor(3) as pool:
        long = GenerateRequest((5, 6, 7), Decoding(max_tokens=300))
        first = pool.submit(engine.answer, [ScoreRequest((5, 6, 7))], [long], progress=lambda _: begun.set())
        assert begun.wait(60)
        too_long = pool.submit(engine.answer, [ScoreRequest((10,) * 2040, 150)])
        short = pool.submit(engine.score, [(8, 9, 10)])
        assert len(first.result(120)[1][0].ids) == 300
        assert short.result(120)[0].logprobs[1] is not None
        with pytest.raises(InputError, match="raise cache_mb"):
            too_long.result(120)


def test_a_newcomer_given_up_ends_at_once(unending: dict[str, Path], loaded: Loader) -> None:
    engine = loaded(unending["llama"], mode="shared", threads=1)
    gone = threading.Event()

    def answer_for_nobody() -> object:
        given_up.set(gone.is_set)
        return engine.generate([(9, 10)], Decoding(max_tokens=1900), memo=False)

    begun = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        scores = [ScoreRequest((5, 6, 7))]
        first = pool.submit(engine.answer, scores, [ENDLESS], progress=lambda _: begun.set())
        assert begun.wait(60)
        later = pool.submit(answer_for_nobody)
        gone.set()
        with pytest.raises(GivenUp):
            later.result(60)
        assert not first.done()
        engine.close()


def test_a_tree_grows_at_its_edge_and_holds_what_it_can_share_once() -> None:
    source = random.Random(5)
    for _ in range(300):
        tree, known = EMPTY, dict[int, tuple[int, ...]]()
        for _ in range(3):
            sequences = [
                tuple(source.randrange(3) for _ in range(source.randrange(6))) for _ in range(source.randrange(5))
            ]
            places = [source.randrange(len(ids) + 1) for ids in sequences]
            kept = source.randrange(len(tree.edge) + 1)
            edge = known[int(tree.edge[kept - 1])] if kept else ()
            before, tree = tree, tree.grown(sequences, places, kept)
            size, old = len(before.tokens), dict[int, int]()
            assert (tree.tokens[:size] == before.tokens).all()
            for ids, place, path in zip(sequences, places, tree.paths, strict=True):
                assert tuple(tree.tokens[path].tolist()) == ids[place:]
                assert (path >= size).all()
            for node in range(size, len(tree.tokens)):
                above = np.flatnonzero((np.arange(node + 1) <= node) & (tree.last[: node + 1] >= node))
                known[node] = tuple(tree.tokens[above].tolist())
                old[node] = int((above < size).sum())
                assert tree.depths[above].tolist() == list(range(len(above)))
            assert {ids for ids in sequences if ids} <= {*known.values()}
            needed = set()
            for ids, place in zip(sequences, places, strict=True):
                shared = sum(ids[:end] == edge[:end] for end in range(1, min(place, len(ids), len(edge)) + 1))
                needed |= {(shared, ids[:end]) for end in range(shared + 1, len(ids) + 1)}
            fresh = [(old[node], known[node]) for node in range(size, len(tree.tokens))]
            assert len(fresh) == len(needed)
            assert set(fresh) == needed


def test_an_answer_that_was_never_asked_for_its_likeliest_holds_none(openings: dict[str, Opening]) -> None:
    answers, _ = openings["llama"].answers([[Request((5, 6, 7), 1, False, replace(DECODINGS[0], max_tokens=2))]])
    assert isinstance(answers[0], PackedGeneration)
    assert isinstance(answers[0].likeliest, Likeliest)
    assert not len(answers[0].likeliest.ids)
