"""Forward passes over tokens of many sequences side by side in one row, each looking at its own beginning alone.

A row has no padding: branches that part from a beginning stand next to each other, and an attention mask keeps them
apart. What a mask hides has the weight zero, so that a token's numbers differ from those of a pass of its own by the
order of sums alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from safetyrepro.engine.attention import renyi_entropies
from safetyrepro.engine.forward import LOGITS_AT_ONCE, FixedShape
from safetyrepro.engine.held import HeldKeys

ATTENTION: Final = "safetyrepro_packed"
"""The name under which transformers' models find `attend`."""

Mask = NDArray[np.bool_]
"""Which of some places (columns) tokens (rows) look at."""


@dataclass
class Watched:
    """Tokens of a pass whose attention is read on the way."""

    layer: int
    tokens: NDArray[np.int64]
    """Which of the tree's tokens that go through the model."""
    entropies: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """Per token `-log sum a^2`, mean over heads, nats; read in the pass."""

    def read(self, query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor, scale: float) -> None:
        """Read them.

        Args:
            query: (queries a head, shared heads, tokens, width)
            key: (1, shared heads, slots, width)
            mask: (tokens, slots), added to products.
            scale: Of the products.
        """
        rows = torch.from_numpy(self.tokens).to(query.device)
        products = query[:, :, rows].float() @ key.float().transpose(2, 3) * scale + mask[rows].float()
        self.entropies = renyi_entropies(products.softmax(dim=-1).permute(2, 0, 1, 3).flatten(1, 2)).cpu().numpy()


@dataclass(frozen=True)
class Groups:
    """Which generations share a stem."""

    rows: torch.Tensor
    """(stems, most generations of one): rows of generations, 0 where there are fewer."""
    stem: torch.Tensor
    """Per generation its stem."""
    place: torch.Tensor
    """Per generation its place among those of its stem."""


@dataclass(frozen=True)
class Step:
    """What one forward pass looks at: first `fed` generations' newest tokens, then tokens of the tree."""

    keys: HeldKeys
    fed: int
    slots: int
    """Generations look at slots before this one alone."""
    stem: int
    """Tokens of the longest stem."""
    tail: int
    """Tokens of the longest tail, or a few more."""
    groups: Groups | None
    tree_masks: dict[int | None, torch.Tensor]
    """By a layer's window (None looks at all): (tokens, all slots), added to products."""
    fed_masks: dict[int | None, torch.Tensor]
    """By a layer's window: (generations, slots + stem + tail), added to products."""
    watched: Watched | None

    def attend(
        self, layer: int, window: int | None, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Attention of one layer, without a copy of keys and values for each of the query heads that share them.

        Args:
            layer: The layer's number.
            window: How many tokens it looks back.
            query: (1, heads, fed + tokens, width)
            key: (1, shared heads, all slots, width)
            value: As `key`.
            scale: Of the products.

        Returns:
            (1, fed + tokens, heads, width)
        """
        shared, (heads, length, width) = key.shape[1], query.shape[1:]
        query = query.reshape(shared, heads // shared, length, width)
        parts = []
        if self.fed:
            own = query[:, :, : self.fed].permute(2, 0, 1, 3) * scale
            found = self._generations(layer, own, key[0, :, : self.slots], value[0, :, : self.slots], window)
            parts.append(found.permute(1, 2, 0, 3))
        if length > self.fed:
            tree = query[:, :, self.fed :].transpose(0, 1)
            if self.watched is not None and layer == self.watched.layer:
                self.watched.read(tree, key, self.tree_masks[window], scale)
            found = torch.nn.functional.scaled_dot_product_attention(
                tree,
                key.expand(heads // shared, -1, -1, -1),
                value.expand(heads // shared, -1, -1, -1),
                attn_mask=self.tree_masks[window],
                scale=scale,
            )
            parts.append(found.transpose(0, 1))
        return torch.cat(parts, dim=2).reshape(1, heads, length, -1).transpose(1, 2).contiguous()

    def _generations(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, window: int | None
    ) -> torch.Tensor:
        """Attention of the generations over slots, stems and tails.

        Args:
            layer: The layer's number.
            query: (fed, shared heads, queries a head, width), scaled.
            key: (shared heads, slots, width)
            value: As `key`.
            window: How many tokens the layer looks back.

        Returns:
            As `query`.
        """
        held = self.keys.held[layer]
        flat = query.permute(1, 2, 0, 3).flatten(1, 2)
        by_slot = _unflat(flat @ key.transpose(1, 2), (-1, self.fed)).permute(2, 0, 1, 3)
        tails = [buffer[: self.fed, :, : self.tail] for buffer in held.tails]
        by_tail = query @ tails[0].transpose(2, 3)
        ends = [buffer[:, :, : self.stem] for buffer in held.stems]
        stems = self._by_stem(query, ends[0].transpose(2, 3)) if self.groups else by_slot[..., :0]
        products = torch.cat([by_slot, stems, by_tail], dim=-1) + self.fed_masks[window]
        weights = products.softmax(dim=-1, dtype=torch.float32).to(query.dtype)
        slot, stem, tail = torch.split(weights, [by_slot.shape[-1], stems.shape[-1], by_tail.shape[-1]], dim=-1)
        found = _unflat(slot.permute(1, 2, 0, 3).flatten(1, 2) @ value, (-1, self.fed)).permute(2, 0, 1, 3)
        found = found + tail @ tails[1]
        return found + self._by_stem(stem, ends[1]) if self.groups else found

    def _by_stem(self, rows: torch.Tensor, stems: torch.Tensor) -> torch.Tensor:
        """Products of each generation's `rows` (fed, shared heads, queries a head, .) with its stem's matrix."""
        assert self.groups is not None
        count, most = self.groups.rows.shape
        gathered = rows[self.groups.rows].permute(0, 2, 1, 3, 4).flatten(2, 3)
        found = torch.unflatten(gathered @ stems[:count], 2, (most, -1))
        return found[self.groups.stem, :, self.groups.place]


def _unflat(rows: torch.Tensor, sizes: tuple[int, int]) -> torch.Tensor:
    return torch.unflatten(rows, 1, sizes)


class PackedShape(FixedShape):
    """A model whose forward passes hold up to `pack_tokens` tokens of any sequences."""

    def __init__(self, model: Any, *, pad_id: int, pack_tokens: int, cache_bytes: int) -> None:
        super().__init__(model, rows=1, bucket=1, pad_id=pad_id)
        config = model.config.get_text_config()
        self.pack_tokens = pack_tokens
        self._cache_bytes = cache_bytes
        self.room = pack_tokens
        """Tokens whose keys and values are held at most; as many as fit once `learn_room` was told their size."""
        self.layers = int(config.num_hidden_layers)
        self.windows = frozenset({None, getattr(config, "sliding_window", None)})
        """How far layers may look back."""
        self.logits_rows = max(1, LOGITS_AT_ONCE // config.vocab_size)
        """Rows of logits that are computed in one piece."""

    def pack(self) -> None:
        """Compute with `Step.attend` from now on.

        Raises:
            ValueError: the model's attention cannot be replaced.
        """
        from transformers import AttentionInterface

        AttentionInterface.register(ATTENTION, _attend)
        self.model.set_attn_implementation(ATTENTION)
        if self.model.config._attn_implementation != ATTENTION:
            raise ValueError("the model keeps its own attention")

    def learn_room(self, bytes_per_token: int) -> None:
        """Take note of the size of a token's keys and values in all layers."""
        self.room = self._cache_bytes // bytes_per_token

    def packed(self, tokens: torch.Tensor, positions: torch.Tensor, step: Step) -> torch.Tensor:
        """What `logits` takes, (n, width), for n tokens at n positions."""
        self.forwarded += len(tokens)
        options = {
            "input_ids": tokens[None],
            "position_ids": positions[None],
            "use_cache": True,
            self._cache_name: step.keys,
            "packed": step,
        }
        hidden: torch.Tensor = self._body(**options).last_hidden_state[0]
        return hidden

    def mask(self, looked_at: Mask) -> torch.Tensor:
        """`looked_at` as what is added to products."""
        hidden = torch.from_numpy(~looked_at).to(self.device)
        mask = torch.zeros(hidden.shape, dtype=self.model.dtype, device=self.device)
        return mask.masked_fill_(hidden, -torch.inf)


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,  # noqa: ARG001 - transformers passes it, and the step knows better
    **further: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as transformers' layers call it."""
    if any(further.get(name) is not None for name in ("softcap", "s_aux", "position_bias")):
        raise ValueError("attention with a cap, a sink or a bias is not done in packed rows")
    step: Step = further["packed"]
    window = further.get("sliding_window")
    return step.attend(module.layer_idx, window, query, key, value, further["scaling"]), None
