"""Attention entropy of the last layer at the last token, read on the way without changing a forward pass.

transformers lets an attention function be registered by name. The one here hands everything to the library's own
(`sdpa`), and for the last layer weighs once more the one row that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import torch

NAME: Final = "sdpa_with_entropy"
_OTHER_TERMS: Final = ("softcap", "s_aux", "position_bias")
"""Further terms of a score that are not read here: with one of them the entropy is undefined."""


@dataclass
class Watch:
    """What the last layer's attention came to in the latest forward pass."""

    layer: int
    entropy: float | None = None
    """`-log sum a^2` in nats, mean over heads; None where nothing was read."""


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)
"""The function is registered for all models; a thread that watches sees its own forward passes alone."""


def renyi_entropies(weights: torch.Tensor) -> torch.Tensor:
    """Mean over heads of the Renyi entropy of order 2, `-log sum_j a_j^2`, in nats.

    Args:
        weights: (..., heads, positions), every row summing to 1.

    Returns:
        (...), float64.

    References:
        A. Renyi (1961), On Measures of Entropy and Information, Proc. Fourth Berkeley Symposium 1, 547-561.
    """
    return -(weights.double() ** 2).sum(dim=-1).log().mean(dim=-1)


def watchable(network: Any) -> bool:
    """Whether the model computes attention by the library's `sdpa`, through the functions that can be registered."""
    return bool(network.config._attn_implementation == "sdpa" and network._can_set_attn_implementation())


@contextmanager
def watching(network: Any) -> Iterator[Watch]:
    """Read the last layer's attention in this thread's forward passes meanwhile."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(NAME, _sdpa)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    network.set_attn_implementation(NAME)
    watch = Watch(int(network.config.get_text_config().num_hidden_layers) - 1)
    token = _WATCH.set(watch)
    try:
        yield watch
    finally:
        _WATCH.reset(token)
        network.set_attn_implementation("sdpa")


def _sdpa(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> Any:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    watch = _WATCH.get()
    if watch is not None and getattr(module, "layer_idx", None) == watch.layer:
        read = len(query) == 1 and all(options.get(name) is None for name in _OTHER_TERMS)
        watch.entropy = _entropy(query, key, attention_mask, options.get("scaling")) if read else None
    return sdpa_attention_forward(module, query, key, value, attention_mask, **options)


def _entropy(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, scaling: float | None) -> float:
    """Of the last query (heads, width) against every key; without a mask the last token sees all of them."""
    last = query[0, :, -1].float()
    keys = key[0].float().repeat_interleave(len(last) // key.shape[1], dim=0)
    scores = torch.einsum("hd,hkd->hk", last, keys) * (last.shape[-1] ** -0.5 if scaling is None else scaling)
    if mask is not None:
        row = mask[0, :, -1, : scores.shape[-1]]
        scores = scores.masked_fill(~row, -torch.inf) if row.dtype == torch.bool else scores + row.float()
    return float(renyi_entropies(scores.softmax(dim=-1)))
