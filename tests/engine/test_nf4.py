"""NF4 is bitsandbytes', applied to the layers that transformers applies it to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from safetyrepro.config import ModelSpec
from safetyrepro.engine import load, nf4
from tests.engine.conftest import Loader
from tests.tiny import FAMILIES


def from_transformers(folder: Path, double_quant: bool) -> Any:
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    quantisation = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.float32,
        bnb_4bit_use_double_quant=double_quant,
    )
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, quantization_config=quantisation, device_map="cpu"
    )


def plain(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


@pytest.mark.parametrize("double_quant", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_decoded_weights_are_those_of_transformers_bit_for_bit(
    families: dict[str, Path], family: str, double_quant: bool
) -> None:
    from bitsandbytes.functional import dequantize_4bit
    from bitsandbytes.nn.modules import Linear4bit

    theirs: dict[str, Any] = dict(from_transformers(families[family], double_quant).named_modules())
    unquantised = plain(families[family])
    before = {name: weight.clone() for name, weight in unquantised.state_dict().items()}
    count = nf4.decode_once(unquantised, double_quant=double_quant)
    quantised = {name for name, layer in theirs.items() if isinstance(layer, Linear4bit)}
    assert len(quantised) == count == 14
    for name, weight in unquantised.state_dict().items():
        layer = theirs[name.removesuffix(".weight")] if name.endswith(".weight") else None
        if isinstance(layer, Linear4bit):
            stored: Any = layer.weight
            assert torch.equal(weight, dequantize_4bit(stored.data, stored.quant_state))
            assert not torch.equal(weight, before[name])
        else:
            assert torch.equal(weight, before[name])


def test_per_call_is_the_librarys_own_layer(families: dict[str, Path]) -> None:
    theirs = from_transformers(families["qwen2"], False)
    ours = plain(families["qwen2"])
    assert nf4.to_kernels(ours, double_quant=False, compute_dtype=torch.float32) == 14
    ids = torch.arange(40)[None]
    with torch.no_grad():
        assert torch.equal(ours(ids).logits, theirs(ids).logits)


def test_numerics_move_the_scores_and_are_disclosed(families: dict[str, Path], loaded: Loader) -> None:
    folder = families["llama"]
    engines = {
        "none/float32/-/exact": loaded(folder),
        "nf4/float32/once/exact": loaded(folder, quant="nf4"),
        "nf4/float32/per_call/exact": loaded(folder, quant="nf4", decode="per_call"),
        "nf4/bfloat16/once/exact": loaded(folder, quant="nf4", compute_dtype="bfloat16"),
    }
    sums = {}
    for numerics, engine in engines.items():
        assert engine.info.numerics == numerics
        ids = engine.tokenizer.encode("The capital of France is Paris")
        sums[numerics] = sum(value for value in engine.score([ids])[0].logprobs if value is not None)
    exact, once, per_call, half = sums.values()
    assert abs(exact - once) > 0.1
    assert abs(once - per_call) < abs(exact - once)
    assert 0 < abs(once - half) < abs(exact - once)
    details = engines["nf4/float32/once/exact"].info.details
    assert (details["nf4_block_size"], details["nf4_double_quant"]) == ("64", "false")


def test_already_quantised_weights_are_refused(families: dict[str, Path], tmp_path: Path) -> None:
    from safetyrepro.errors import InputError

    from_transformers(families["llama"], False).save_pretrained(tmp_path / "quantised")
    with pytest.raises(InputError, match="quantised already"):
        load(ModelSpec(id=str(tmp_path / "quantised")))
