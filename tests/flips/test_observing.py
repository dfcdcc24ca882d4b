"""What is read inside a model against plain transformers loops, on tiny models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from safetyrepro.config import ModelSpec
from safetyrepro.engine import load
from safetyrepro.engine.api import TOP
from safetyrepro.engine.observing import Observer
from tests.tiny import FAMILIES, make_tiny_model

TEXT = "The capital of France is Paris, and the capital of Japan is Tokyo. Which one of them was helpful?"
ENDINGS = (" Paris", " The answer cannot be determined.", " A nurse and an engineer", ".")


class Tiny:
    """A tiny model twice: behind an engine, and as transformers loads it with eager attention."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM

        self.engine = load(ModelSpec(id=str(folder), quant="none", threads=1))
        self.observer = Observer(self.engine)
        self.plain: Any = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
        encode = self.engine.tokenizer.encode
        self.context = encode(TEXT)
        self.endings = [encode(TEXT + ending)[len(self.context) :] for ending in ENDINGS]

    def logprobs(self, ids: list[int]) -> torch.Tensor:
        with torch.no_grad():
            return torch.log_softmax(self.plain(torch.tensor([ids])).logits[0].float(), dim=-1)


@pytest.fixture(scope="module", params=FAMILIES)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiny]:
    made = Tiny(make_tiny_model(tmp_path_factory.mktemp("observed") / request.param, family=request.param))
    yield made
    made.engine.close()


def test_likelihoods_against_a_plain_loop(tiny: Tiny) -> None:
    view = tiny.observer.view(tiny.context, tiny.endings)
    assert len(tiny.context) > 32
    for ending, span in zip(tiny.endings, view.spans, strict=True):
        whole = tiny.logprobs([*tiny.context, *ending])
        for place, token in enumerate(ending):
            row = whole[len(tiny.context) + place - 1]
            assert span.logprobs[place] == pytest.approx(float(row[token]), abs=2e-4)
            values, _ = row.topk(TOP)
            assert span.top_logprobs[place] == pytest.approx(values.numpy(), abs=2e-4)
            assert row[torch.tensor(span.top_ids[place])].numpy() == pytest.approx(span.top_logprobs[place], abs=2e-4)


def test_attention_and_state_against_transformers(tiny: Tiny) -> None:
    view = tiny.observer.view(tiny.context, tiny.endings[:1])
    with torch.no_grad():
        output = tiny.plain(torch.tensor([tiny.context]), output_attentions=True, output_hidden_states=True)
    weights = output.attentions[-1][0, :, -1].double()
    expected = float(-(weights**2).sum(-1).log().mean())
    assert view.attention_entropy == pytest.approx(expected, abs=1e-4)
    assert expected > 0
    assert view.state == pytest.approx(output.hidden_states[-1][0, -1].numpy(), abs=2e-4)


def test_company_and_padding_change_nothing(tiny: Tiny) -> None:
    together = tiny.observer.view(tiny.context, tiny.endings)
    for ending, span in zip(tiny.endings, together.spans, strict=True):
        alone = Observer(tiny.engine).view(tiny.context, [ending])
        assert span.logprobs == pytest.approx(alone.spans[0].logprobs, abs=1e-4)
        assert together.attention_entropy == pytest.approx(alone.attention_entropy or 0, abs=1e-6)


def test_asked_tokens_are_read_in_their_place(tiny: Tiny) -> None:
    support = np.array([[5, 6, 7]] * len(tiny.endings[1]))
    span = tiny.observer.view(tiny.context, tiny.endings[:2], [None, support]).spans[1]
    whole = tiny.logprobs([*tiny.context, *tiny.endings[1]])
    assert span.support_logprobs is not None
    for place in range(len(tiny.endings[1])):
        row = whole[len(tiny.context) + place - 1]
        assert span.support_logprobs[place] == pytest.approx(row[[5, 6, 7]].numpy(), abs=2e-4)


def test_in_pieces_and_without_a_cache_it_is_the_same(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tiny.observer.view(tiny.context, tiny.endings)
    monkeypatch.setattr("safetyrepro.engine.observing.LOGITS_AT_ONCE", 1)
    pieces = tiny.observer.view(tiny.context, tiny.endings)
    monkeypatch.setattr(tiny.observer, "_continues", False)
    monkeypatch.setattr(tiny.observer, "_latest", None)
    uncached = tiny.observer.view(tiny.context, tiny.endings)
    for other in (pieces, uncached):
        for one, two in zip(whole.spans, other.spans, strict=True):
            assert one.logprobs == pytest.approx(two.logprobs, abs=1e-4)


def test_looking_leaves_the_engine_as_it_was(tiny: Tiny) -> None:
    ids = [*tiny.context, *tiny.endings[1]]
    before = tiny.engine.score([ids], memo=False)[0]
    tiny.observer.view(tiny.context, tiny.endings)
    assert tiny.engine.score([ids], memo=False)[0] == before


def test_unwatched_attention_is_undefined(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny.observer, "watchable", False)
    monkeypatch.setattr(tiny.observer, "_latest", None)
    assert tiny.observer.view(tiny.context, tiny.endings[:1]).attention_entropy is None
