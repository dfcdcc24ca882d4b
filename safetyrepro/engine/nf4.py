"""NF4 as everybody uses it: bitsandbytes' 4-bit quantisation of every linear layer but the output embedding.

On a CPU the library's 4-bit kernels round through bfloat16. `decode_once` therefore quantises a weight, decodes it
into the compute dtype and leaves an ordinary linear layer behind; `to_kernels` puts the library's own layer in its
place. Which layers are quantised, and to which codes, is what transformers does with a `BitsAndBytesConfig`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import nn

BLOCK_SIZE: Final = 64
"""Weights that share one scale; bitsandbytes' default."""


def linear_layers(model: Any) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    """(parent, attribute, layer) of every linear layer but the output embedding, in the model's order."""
    output = model.get_output_embeddings()
    found = [
        (parent, name, layer)
        for parent in model.modules()
        for name, layer in parent.named_children()
        if isinstance(layer, nn.Linear) and layer is not output
    ]
    yield from found


@torch.no_grad()
def decode_once(model: Any, *, double_quant: bool) -> int:
    """Replace every weight by its NF4 code's value, in place and in the weight's dtype; the number of layers."""
    from bitsandbytes import functional

    count = 0
    for _, _, layer in linear_layers(model):
        codes, state = functional.quantize_4bit(
            layer.weight.data.contiguous(),
            blocksize=BLOCK_SIZE,
            compress_statistics=double_quant,
            quant_type="nf4",
        )
        layer.weight.data.copy_(functional.dequantize_4bit(codes, state))
        count += 1
    return count


@torch.no_grad()
def to_kernels(model: Any, *, double_quant: bool, compute_dtype: torch.dtype) -> int:
    """Replace every linear layer by bitsandbytes' `Linear4bit`, in place; the number of layers."""
    from bitsandbytes.nn.modules import Linear4bit, Params4bit

    count = 0
    for parent, name, layer in linear_layers(model):
        replacement = Linear4bit(  # type: ignore[no-untyped-call]
            layer.in_features,
            layer.out_features,
            bias=layer.bias is not None,
            compute_dtype=compute_dtype,
            compress_statistics=double_quant,
            quant_type="nf4",
            device="meta",
        )
        replacement.weight = Params4bit(
            layer.weight.data,
            requires_grad=False,
            compress_statistics=double_quant,
            quant_type="nf4",
            blocksize=BLOCK_SIZE,
            module=replacement,
        )
        replacement.bias = layer.bias
        setattr(parent, name, replacement.to(layer.weight.device))
        count += 1
    return count
