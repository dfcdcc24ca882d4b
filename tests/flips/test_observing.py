"""What is read inside a model against plain transformers loops, on tiny models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from safetyrepro.config import ModelSpec
from safetyrepro.engine import load
from safetyrepro.engine.api import TOP
from safetyrepro.engine.observing.observer import Observer
from safetyrepro.engine.observing.view import Ids, Look, View
from safetyrepro.errors import InputError
from tests.tiny import FAMILIES, make_tiny_model

TEXT = "The capital of France is Paris, and the capital of Japan is Tokyo. Which one of them was helpful?"
ENDINGS = (" Paris", " The answer cannot be determined.", " A nurse and an engineer", ".")


def view(
    observer: Observer,
    context: Sequence[int],
    continuations: Sequence[Sequence[int]],
    supports: Sequence[Ids | None] | None = None,
) -> View:
    """One item, given as in `Look`."""
    wanted = tuple(supports) if supports is not None else (None,) * len(continuations)
    return observer.views([Look(tuple(context), tuple(map(tuple, continuations)), wanted)])[0]


class Tiny:
    """A tiny model twice: behind an engine, and as transformers loads it with eager attention."""

    def __init__(self, folder: Path, mode: Literal["exact", "shared"]) -> None:
        from transformers import AutoModelForCausalLM

        self.engine = load(ModelSpec(id=str(folder), quant="none", threads=1, mode=mode))
        self.observer = Observer(self.engine)
        self.plain: Any = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
        encode = self.engine.tokenizer.encode
        self.context = encode(TEXT)
        self.endings = [encode(TEXT + ending)[len(self.context) :] for ending in ENDINGS]

    def logprobs(self, ids: list[int]) -> torch.Tensor:
        with torch.no_grad():
            return torch.log_softmax(self.plain(torch.tensor([ids])).logits[0].float(), dim=-1)


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("observed") / request.param, family=request.param)


@pytest.fixture(scope="module")
def alone(folder: Path) -> Iterator[Tiny]:
    made = Tiny(folder, "exact")
    yield made
    made.engine.close()


@pytest.fixture(scope="module")
def packed(folder: Path) -> Iterator[Tiny]:
    made = Tiny(folder, "shared")
    yield made
    made.engine.close()


@pytest.fixture(params=["alone", "packed"])
def tiny(request: pytest.FixtureRequest, alone: Tiny, packed: Tiny) -> Tiny:
    return {"alone": alone, "packed": packed}[request.param]


def test_likelihoods_against_a_plain_loop(tiny: Tiny) -> None:
    seen = view(tiny.observer, tiny.context, tiny.endings)
    assert len(tiny.context) > 32
    for ending, span in zip(tiny.endings, seen.spans, strict=True):
        whole = tiny.logprobs([*tiny.context, *ending])
        for place, token in enumerate(ending):
            row = whole[len(tiny.context) + place - 1]
            assert span.logprobs[place] == pytest.approx(float(row[token]), abs=2e-4)
            values, _ = row.topk(TOP)
            assert span.top_logprobs[place] == pytest.approx(values.numpy(), abs=2e-4)
            assert row[torch.tensor(span.top_ids[place])].numpy() == pytest.approx(span.top_logprobs[place], abs=2e-4)


def test_attention_and_state_against_transformers(tiny: Tiny) -> None:
    seen = view(tiny.observer, tiny.context, tiny.endings[:1])
    with torch.no_grad():
        output = tiny.plain(torch.tensor([tiny.context]), output_attentions=True, output_hidden_states=True)
    weights = output.attentions[-1][0, :, -1].double()
    expected = float(-(weights**2).sum(-1).log().mean())
    assert seen.attention_entropy == pytest.approx(expected, abs=1e-4)
    assert expected > 0
    assert seen.state == pytest.approx(output.hidden_states[-1][0, -1].numpy(), abs=2e-4)


def test_company_and_padding_change_nothing(tiny: Tiny) -> None:
    together = view(tiny.observer, tiny.context, tiny.endings)
    for ending, span in zip(tiny.endings, together.spans, strict=True):
        alone = view(Observer(tiny.engine), tiny.context, [ending])
        assert span.logprobs == pytest.approx(alone.spans[0].logprobs, abs=1e-4)
        assert together.attention_entropy == pytest.approx(alone.attention_entropy or 0, abs=1e-5)


def test_asked_tokens_are_read_in_their_place(tiny: Tiny) -> None:
    support = np.array([[5, 6, 7]] * len(tiny.endings[1]))
    span = view(tiny.observer, tiny.context, tiny.endings[:2], [None, support]).spans[1]
    whole = tiny.logprobs([*tiny.context, *tiny.endings[1]])
    assert span.support_logprobs is not None
    for place in range(len(tiny.endings[1])):
        row = whole[len(tiny.context) + place - 1]
        assert span.support_logprobs[place] == pytest.approx(row[[5, 6, 7]].numpy(), abs=2e-4)


def test_in_pieces_and_without_a_cache_it_is_the_same(alone: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = view(alone.observer, alone.context, alone.endings)
    monkeypatch.setattr(alone.observer._way, "_logits_rows", 1)
    pieces = view(alone.observer, alone.context, alone.endings)
    monkeypatch.setattr(alone.observer._way, "_continues", False)
    monkeypatch.setattr(alone.observer._way, "_latest", None)
    uncached = view(alone.observer, alone.context, alone.endings)
    for other in (pieces, uncached):
        for one, two in zip(whole.spans, other.spans, strict=True):
            assert one.logprobs == pytest.approx(two.logprobs, abs=1e-4)


def test_looking_leaves_the_engine_as_it_was(tiny: Tiny) -> None:
    ids = [*tiny.context, *tiny.endings[1]]
    before = tiny.engine.score([ids], memo=False)[0]
    view(tiny.observer, tiny.context, tiny.endings)
    assert tiny.engine.score([ids], memo=False)[0] == before


def test_unwatched_attention_is_undefined(alone: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone.observer._way, "_watchable", False)
    monkeypatch.setattr(alone.observer._way, "_latest", None)
    assert view(alone.observer, alone.context, alone.endings[:1]).attention_entropy is None


def test_items_together_are_as_each_by_itself(alone: Tiny, packed: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [(packed.context[:length], packed.endings[:count]) for length, count in ((40, 4), (9, 2), (40, 0), (55, 1))]
    looks = [
        Look(tuple(context), tuple(map(tuple, endings)), (np.array([[3, 4]] * len(endings[0])), *[None] * 3)[:count])
        if (count := len(endings))
        else Look(tuple(context), (), ())
        for context, endings in items
    ]
    singles = [alone.observer.views([look])[0] for look in looks]
    packed.observer.views([])
    whole = packed.observer.views(looks)
    packed.observer.views([])
    shape = packed.engine._model  # type: ignore[attr-defined]
    monkeypatch.setattr(shape, "pack_tokens", 7)
    monkeypatch.setattr(shape, "logits_rows", 2)
    in_pieces = packed.observer.views(looks)
    for together in (whole, in_pieces):
        for one, two in zip(singles, together, strict=True):
            assert two.state == pytest.approx(one.state, abs=1e-4)
            assert two.attention_entropy == pytest.approx(one.attention_entropy or 0, abs=1e-5)
            for mine, other in zip(one.spans, two.spans, strict=True):
                assert other.logprobs == pytest.approx(mine.logprobs, abs=1e-4)
                assert other.top_logprobs == pytest.approx(mine.top_logprobs, abs=1e-4)
                assert (other.support_logprobs is None) == (mine.support_logprobs is None)
                if mine.support_logprobs is not None:
                    assert other.support_logprobs == pytest.approx(mine.support_logprobs, abs=1e-4)


def test_the_latest_look_is_not_computed_again(packed: Tiny) -> None:
    shape = packed.engine._model  # type: ignore[attr-defined]
    packed.observer.views([])
    first = view(packed.observer, packed.context, packed.endings)
    forwarded = shape.forwarded
    support = np.array([[5, 6]] * len(packed.endings[2]))
    again = view(packed.observer, packed.context, packed.endings[2:3], [support]).spans[0]
    assert shape.forwarded == forwarded
    assert again.logprobs == pytest.approx(first.spans[2].logprobs, abs=1e-6)
    assert again.support_logprobs is not None
    view(packed.observer, packed.context, packed.endings)
    assert shape.forwarded > forwarded


def test_no_room_for_an_item_is_said(packed: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    packed.observer.views([])
    monkeypatch.setattr(packed.engine._model, "room", 64)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="raise cache_mb"):
        view(packed.observer, packed.context, packed.endings)


def test_a_model_that_scales_its_logits(tmp_path: Path) -> None:
    from transformers import GraniteConfig, GraniteForCausalLM

    folder = make_tiny_model(tmp_path / "granite")
    config = GraniteConfig(
        vocab_size=500,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        logits_scaling=0.05,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        GraniteForCausalLM(config).save_pretrained(folder)
    scaled = Tiny(folder, "exact")
    try:
        assert not scaled.engine._model.continues()  # type: ignore[attr-defined]
        test_likelihoods_against_a_plain_loop(scaled)
        test_attention_and_state_against_transformers(scaled)
    finally:
        scaled.engine.close()
