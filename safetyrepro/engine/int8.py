"""LLM.int8()'s quantisation of every linear layer but the output embedding, as bitsandbytes does it.

LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale. Tim Dettmers, Mike Lewis, Younes Belkada, Luke
Zettlemoyer, NeurIPS 2022. https://arxiv.org/abs/2208.07339

A weight's row is divided by its largest absolute value and rounded to 8 bits. The library's own layer rounds the
activations too, row by row, but for the columns that hold an outlier. `decode_once` rounds the weights alone, to the
same codes, and leaves an ordinary linear layer behind.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import torch

from safetyrepro.engine.nf4 import linear_layers

OUTLIER: Final = 6.0
"""Activations from this size on make their column an outlier; the paper's value, and transformers' default."""


@torch.no_grad()
def decode_once(model: Any) -> int:
    """Replace every weight by its code's value, in place and in the weight's dtype; the number of layers."""
    from bitsandbytes import functional

    count = 0
    for _, _, layer in linear_layers(model):
        codes, scales, _ = functional.int8_vectorwise_quant(layer.weight.data.to(torch.float16).contiguous())
        layer.weight.data.copy_(functional.int8_vectorwise_dequant(codes, scales))
        count += 1
    return count


@torch.no_grad()
def to_kernels(model: Any) -> int:
    """Replace every linear layer by bitsandbytes' `Linear8bitLt`, in place; the number of layers."""
    from bitsandbytes.nn.modules import Int8Params, Linear8bitLt

    # For every layer of every forward pass the library says that activations are rounded, which is known here.
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    count = 0
    for parent, name, layer in linear_layers(model):
        replacement = Linear8bitLt(
            layer.in_features,
            layer.out_features,
            bias=layer.bias is not None,
            has_fp16_weights=False,
            threshold=OUTLIER,
            device="meta",
        )
        replacement.weight = Int8Params(layer.weight.data, requires_grad=False, has_fp16_weights=False)
        replacement.bias = layer.bias
        moved = replacement.to(layer.weight.device)  # type: ignore[no-untyped-call]
        setattr(parent, name, moved.train(layer.training))
        count += 1
    return count
