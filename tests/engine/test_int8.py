"""int8 is LLM.int8()'s as bitsandbytes has it, applied to the layers that transformers applies it to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from safetyrepro.config import ModelSpec
from safetyrepro.engine import Decoding, Engine, GenerateRequest, ScoreRequest, int8
from tests.engine.conftest import Loader
from tests.tiny import FAMILIES


def from_transformers(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    quantisation = BitsAndBytesConfig(load_in_8bit=True)  # type: ignore[no-untyped-call]
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, quantization_config=quantisation, device_map="cpu"
    )


def plain(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


@pytest.mark.parametrize("family", FAMILIES)
def test_decoded_weights_are_the_codes_of_transformers(families: dict[str, Path], family: str) -> None:
    from bitsandbytes.nn.modules import Linear8bitLt

    theirs: dict[str, Any] = dict(from_transformers(families[family]).named_modules())
    ours = plain(families[family])
    before = {name: weight.clone() for name, weight in ours.state_dict().items()}
    count = int8.decode_once(ours)
    quantised = {name for name, layer in theirs.items() if isinstance(layer, Linear8bitLt)}
    assert len(quantised) == count == 14
    for name, weight in ours.state_dict().items():
        if name.removesuffix(".weight") not in quantised or not name.endswith(".weight"):
            assert torch.equal(weight, before[name])
            continue
        stored = theirs[name.removesuffix(".weight")].weight
        scales = stored.SCB[:, None]
        assert torch.equal(scales[:, 0], before[name].half().abs().amax(dim=1).float())
        assert torch.allclose(weight, stored.data.float() * scales / 127, rtol=1e-6, atol=0)
        # Half a step of rounding, and what the weight loses as the library takes it to float16 first.
        assert ((weight - before[name]).abs() <= scales / 127 * 0.5 + before[name].abs() * 2**-10).all()


def test_per_call_is_the_librarys_own_layer(families: dict[str, Path]) -> None:
    theirs, ours = from_transformers(families["qwen2"]), plain(families["qwen2"])
    assert int8.to_kernels(ours) == 14
    ids = torch.arange(40)[None]
    with torch.no_grad():
        assert torch.equal(ours(ids).logits, theirs(ids).logits)


def sums(engine: Engine) -> float:
    ids = engine.tokenizer.encode("The capital of France is Paris")
    return sum(value for value in engine.score([ids])[0].logprobs if value is not None)


def test_numerics_move_the_scores_and_are_disclosed(families: dict[str, Path], loaded: Loader) -> None:
    engines = {
        "none/float32/-/exact": loaded(families["llama"]),
        "int8/float32/once/exact": loaded(families["llama"], quant="int8"),
        "int8/float32/per_call/exact": loaded(families["llama"], quant="int8", decode="per_call"),
    }
    assert {engine.info.numerics for engine in engines.values()} == set(engines)
    exact, once, per_call = map(sums, engines.values())
    assert 0 < abs(exact - once) < abs(exact - sums(loaded(families["llama"], quant="nf4")))
    assert abs(once - per_call) > 0
    details = {numerics: engine.info.details for numerics, engine in engines.items()}
    assert details["int8/float32/once/exact"]["int8_activations"] == "not quantised"
    assert "columns with a value from 6.0" in details["int8/float32/per_call/exact"]["int8_activations"]
    assert "int8_layers" not in details["none/float32/-/exact"]


@pytest.mark.parametrize("family", FAMILIES)
def test_shared_mode_is_held_to_exact_mode(families: dict[str, Path], loaded: Loader, family: str) -> None:
    exact, shared = (loaded(families[family], quant="int8", mode=mode, threads=1) for mode in ("exact", "shared"))
    shots = tuple(range(20, 80))
    scores = [ScoreRequest((*shots, at, at + 1, at + 2), len(shots)) for at in range(100, 108)]
    texts = [GenerateRequest((*shots, at), Decoding(max_tokens=6)) for at in range(100, 108)]
    found, expected = shared.answer(scores, texts), exact.answer(scores, texts)
    for ours, theirs in zip(found[0], expected[0], strict=True):
        assert ours.logprobs[len(shots) :] == pytest.approx(theirs.logprobs[len(shots) :], abs=2e-4)
    assert [text.ids for text in found[1]] == [text.ids for text in expected[1]]


def test_what_cannot_be_held_is_refused() -> None:
    with pytest.raises(ValidationError, match="set decode to once, or mode to exact"):
        ModelSpec(id="m", quant="int8", decode="per_call", mode="shared")
    with pytest.raises(ValidationError, match="remove double_quant"):
        ModelSpec(id="m", quant="int8", double_quant=True)
