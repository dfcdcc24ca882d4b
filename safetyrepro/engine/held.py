"""Keys and values that later tokens still look at, as transformers' models fill and read them.

Three kinds are held. **Slots**: tokens of the prefix tree, side by side in one row, which many look at. **Stems**: the
end of a prompt that no other prompt shares, a row for each prompt. **Tails**: what a generation has said so far, a row
for each generation. A generation looks at slots, at its prompt's stem and at its own tail, so that it never computes
products with another's and throws them away.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

ROWS: Final = 8
"""Stems and tails are made room for in so many rows at once."""
SLOTS: Final = 64
"""Slots are made room for in so many at once."""
TAIL: Final = 32
"""Tails are made room for in so many tokens at once."""


class HeldKeys(Cache):
    """The keys and values of all layers."""

    def __init__(self, layers: int) -> None:
        self.held = [HeldLayer() for _ in range(layers)]
        super().__init__(layers=list(self.held))

    @property
    def bytes_per_token(self) -> int:
        """Of keys and values of all layers, once a token has gone through the model."""
        return sum(layer.bytes_per_token for layer in self.held)

    def expect(self, fed: torch.Tensor, rows: int, most: int) -> None:
        """Take the first tokens of the next forward pass as tails' tokens.

        Args:
            fed: At which place of each tail.
            rows: For how many tails to make room.
            most: How many tokens the longest of them may come to hold.
        """
        for layer in self.held:
            layer.fed, layer.rows, layer.most = fed, rows, most

    def keep(self, still: int, moved: torch.Tensor, spare: int) -> None:
        """Hold the first `still` slots, those at `moved` behind them, and room for about `spare` more."""
        for layer in self.held:
            layer.keep(still, moved, spare)

    def add_stem(self, row: int, slots: torch.Tensor, rows: int) -> None:
        """Copy `slots` into the stem `row`, with room for `rows` of them."""
        for layer in self.held:
            layer.add_stem(row, slots, rows)

    def move_stem(self, source: int, target: int) -> None:
        """Copy a stem over another."""
        for layer in self.held:
            for buffer in layer.stems:
                buffer[target] = buffer[source]

    def move_tail(self, source: int, target: int) -> None:
        """Copy a tail over another."""
        for layer in self.held:
            for buffer in layer.tails:
                buffer[target] = buffer[source]

    def give_back(self, stems: int, stem: int, tails: int, tail: int) -> None:
        """Free the room behind the first `stems` stems of `stem` tokens and the first `tails` tails of `tail`."""
        for layer in self.held:
            layer.stems = _fewer(layer.stems, stems, stem)
            layer.tails = _fewer(layer.tails, tails, tail)

    def forget(self) -> None:
        """Free the room of all stems and tails."""
        for layer in self.held:
            layer.stems = layer.tails = ()


class HeldLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer's, in buffers that grow."""

    is_sliding = False
    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fed = torch.empty(0, dtype=torch.long)
        self.rows = self.most = 0
        self.stems: tuple[torch.Tensor, ...] = ()
        """Keys and values, each (rows, heads, tokens, width); empty where there are none."""
        self.tails: tuple[torch.Tensor, ...] = ()
        """As `stems`."""
        self._held = 0

    @property
    def bytes_per_token(self) -> int:
        """Of one token's keys and values."""
        return sum(buffer[:, :, :1].nbytes for buffer in (self.keys, self.values))

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Begin with no room."""
        self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Hold further tokens: first those of the tails, then slots; keys and values of all slots."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        states, fed = (key_states, value_states), len(self.fed)
        if fed:
            self.tails = tuple(
                _roomy(buffer, self.rows, self._tokens(), state)
                for buffer, state in zip(self.tails or (None, None), states, strict=True)
            )
            rows = torch.arange(fed, device=self.fed.device)
            for buffer, state in zip(self.tails, states, strict=True):
                buffer[rows, :, self.fed] = state[0, :, :fed].transpose(0, 1)
        before, self._held = self._held, self._held + key_states.shape[2] - fed
        self.keys = self._filled(self.keys, key_states[:, :, fed:], before)
        self.values = self._filled(self.values, value_states[:, :, fed:], before)
        return self.keys[:, :, : self._held], self.values[:, :, : self._held]

    def _tokens(self) -> int:
        """How many tokens of tails to have room for; in steps that grow, since every one copies them all."""
        needed = rounded(int(self.fed.max()) + 1, TAIL)
        held = self.tails[0].shape[2] if self.tails else 0
        return held if needed <= held else max(needed, min(rounded(held + held // 4, TAIL), rounded(self.most, TAIL)))

    def keep(self, still: int, moved: torch.Tensor, spare: int) -> None:
        """As `HeldKeys.keep`."""
        self._held = still + len(moved)
        if len(moved):
            for buffer in (self.keys, self.values):
                buffer[:, :, still : self._held] = buffer.index_select(2, moved.to(buffer.device))
        if self.is_initialized and self.keys.shape[2] > rounded(self._held + spare, SLOTS):
            room = rounded(self._held, SLOTS)
            self.keys = _copy(self.keys[:, :, : self._held], self.keys, room)
            self.values = _copy(self.values[:, :, : self._held], self.values, room)

    def add_stem(self, row: int, slots: torch.Tensor, rows: int) -> None:
        """As `HeldKeys.add_stem`."""
        self.stems = tuple(
            _roomy(buffer, rows, len(slots), state)
            for buffer, state in zip(self.stems or (None, None), (self.keys, self.values), strict=True)
        )
        for buffer, state in zip(self.stems, (self.keys, self.values), strict=True):
            buffer[row, :, : len(slots)] = state[0].index_select(1, slots.to(state.device))

    def get_seq_length(self) -> int:
        """Slots that are held."""
        return self._held

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of what is looked at."""
        return self._held + query_length, 0

    def get_max_length(self) -> int:
        """No limit that a model should know of."""
        return -1

    get_max_cache_shape = get_max_length  # its name in earlier releases of transformers 5

    def _filled(self, buffer: torch.Tensor, states: torch.Tensor, before: int) -> torch.Tensor:
        if buffer.shape[2] < self._held:
            buffer = _copy(buffer[:, :, :before], states, rounded(self._held, SLOTS))
        buffer[:, :, before : self._held] = states
        return buffer


def rounded(count: int, step: int) -> int:
    """`count` rounded up to a multiple of `step`."""
    return -(-count // step) * step


def _copy(held: torch.Tensor, like: torch.Tensor, room: int) -> torch.Tensor:
    grown = like.new_empty((*like.shape[:2], room, like.shape[3]))
    grown[:, :, : held.shape[2]] = held
    return grown


def _fewer(buffers: tuple[torch.Tensor, ...], rows: int, tokens: int) -> tuple[torch.Tensor, ...]:
    """`buffers` with their first `rows` of `tokens` alone, where they hold more."""
    return tuple(
        buffer[:rows, :, :tokens].clone(memory_format=torch.contiguous_format)
        if rows < buffer.shape[0] or tokens < buffer.shape[2]
        else buffer
        for buffer in buffers
    )


def _roomy(buffer: torch.Tensor | None, rows: int, tokens: int, like: torch.Tensor) -> torch.Tensor:
    """A buffer with room for `rows` of `tokens`, with what the first `rows` of `buffer` held; other places are zero."""
    held = (0, 0) if buffer is None else (buffer.shape[0], buffer.shape[2])
    if buffer is not None and held[0] >= rows and held[1] >= tokens:
        return buffer
    grown = like.new_zeros((rows, like.shape[1], max(held[1], tokens), like.shape[3]))
    if buffer is not None:
        grown[: held[0], :, : held[1]] = buffer[:rows]
    return grown
