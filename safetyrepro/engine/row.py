"""A row of tokens of one prefix tree and of generations that branch off it, from one forward pass to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from safetyrepro.engine.held import ROWS, SLOTS, TAIL, HeldKeys, rounded
from safetyrepro.engine.packed import Groups, Mask, PackedShape, Step, Watched
from safetyrepro.engine.tree import EMPTY, Nodes, PrefixTree, prefix_tree

_TRIAL: Final = ((1, 2, 3, 4, 5, 6), (1, 2, 3, 7, 8))
"""Token ids of the trial at load: two sequences that part; the first is continued by the last token of the second."""


@dataclass
class _Stem:
    """The end of a prompt that no other prompt shares."""

    node: int
    """Of the prompt's last token."""
    positions: Nodes
    tails: int = 0


@dataclass
class _Tail:
    """What one generation has said."""

    stem: _Stem
    room: int
    """Tokens that it may come to hold."""
    length: int = 0


class PackedRow:
    """The tokens that are held, and forward passes that look at them."""

    def __init__(self, shape: PackedShape, tree: PrefixTree, prompts: Sequence[int]) -> None:
        """Begin with nothing; the arguments are the model and those of `grow`."""
        self._shape, self._tree = shape, EMPTY
        self._keys = HeldKeys(shape.layers)
        self._slots: Nodes = np.empty(0, dtype=np.int64)
        self._stems: list[_Stem] = []
        self._tails: list[_Tail] = []
        self._claimed = np.zeros(4, dtype=np.int64)
        """Rows and tokens of the stems, rows and tokens of the tails that there is room for, or a claim on."""
        self._common = np.empty(0, dtype=np.bool_)
        """Whether several of the prompts that came with a node begin with it."""
        self.grow(tree, prompts)

    def grow(self, tree: PrefixTree, prompts: Sequence[int]) -> None:
        """Go on with a tree that grew out of the one until now.

        Args:
            tree: Of all sequences.
            prompts: New nodes that generations branch off, in any order.
        """
        size = len(self._tree.tokens)
        ends = np.zeros(len(tree.tokens) - size + 1, dtype=np.int64)
        ends[np.array(sorted(set(prompts)), dtype=np.int64) - size + 1] = 1
        before = ends.cumsum()
        self._common = np.concatenate([self._common, before[tree.last[size:] - size + 1] - before[:-1] > 1])
        self._tree = tree

    def kept(self, ahead: int) -> int:
        """How many nodes of the tree's edge, from the root on, are held or to come, `ahead` being the next."""
        edge = self._tree.edge
        gone = np.flatnonzero((edge < ahead) & ~np.isin(edge, self._slots))
        return int(gone[0]) if len(gone) else len(edge)

    def room(self) -> int:
        """Tokens that there is room for beside what is held or claimed."""
        return self._shape.room - len(self._slots) - SLOTS - _product(self._claimed)

    @property
    def bytes_per_token(self) -> int:
        """Of a token's keys and values, once one has been held."""
        return self._keys.bytes_per_token

    def forward(self, said: Sequence[int], nodes: Nodes, watched: Watched | None = None) -> torch.Tensor:
        """Put the newest token of every generation and nodes of the tree through the model, and hold them.

        Args:
            said: A token for each generation, in the order of the rows.
            nodes: Nodes whose ancestors are held or among them.
            watched: Which of the nodes' attention to read.

        Returns:
            (len(said) + len(nodes), width): what `logits` takes.
        """
        tree = self._tree
        self._slots = np.concatenate([self._slots, nodes])
        places = np.array([tail.length for tail in self._tails], dtype=np.int64)
        ends = np.array([tail.stem.node for tail in self._tails], dtype=np.int64)
        positions = np.concatenate([tree.depths[ends] + 1 + places, tree.depths[nodes]])
        device = self._shape.device
        self._keys.expect(torch.from_numpy(places).to(device), int(self._claimed[2]), int(self._claimed[3]))
        tokens = np.concatenate([np.array(said, dtype=np.int64), tree.tokens[nodes]])
        for tail in self._tails:
            tail.length += 1
        step = self._step(ends, positions, nodes, watched)
        return self._shape.packed(torch.from_numpy(tokens).to(device), torch.from_numpy(positions).to(device), step)

    def fits(self, node: int, room: int) -> bool:
        """Whether there is room for a generation of up to `room` fed tokens off `node`."""
        return _product(self._claim(node, room)) - _product(self._claimed) <= self.room()

    def begin(self, node: int, room: int) -> None:
        """Begin a generation off `node`, in a row behind the others."""
        self._claimed = self._claim(node, room)
        at = next((at for at, stem in enumerate(self._stems) if stem.node == node), len(self._stems))
        if at == len(self._stems):
            slots = self._stem_slots(node)
            self._stems.append(_Stem(node, self._tree.depths[self._slots[slots]]))
            self._keys.add_stem(at, torch.from_numpy(slots), int(self._claimed[0]))
        self._stems[at].tails += 1
        self._tails.append(_Tail(self._stems[at], room))

    def end(self, row: int) -> None:
        """End the generation in `row`; the last row takes its place."""
        stem = self._tails[row].stem
        last = self._tails.pop()
        if row < len(self._tails):
            self._tails[row] = last
            if last.length:
                self._keys.move_tail(len(self._tails), row)
        stem.tails -= 1
        if not stem.tails:
            at = next(at for at, other in enumerate(self._stems) if other is stem)
            moved = self._stems.pop()
            if at < len(self._stems):
                self._stems[at] = moved
                self._keys.move_stem(len(self._stems), at)
        if not self._tails:
            self._keys.forget()
            self._claimed = np.zeros(4, dtype=np.int64)
            return
        needed = np.array(
            [
                rounded(len(self._stems), ROWS),
                max(len(other.positions) for other in self._stems),
                rounded(len(self._tails), ROWS),
                rounded(max(tail.room for tail in self._tails), TAIL),
            ]
        )
        halved = (2 * needed <= self._claimed) & (needed < self._claimed)
        if halved.any():
            self._claimed = np.where(halved, needed, self._claimed)
            self._keys.give_back(*self._claimed.tolist())

    def drop(self, ahead: Sequence[int], *, must: bool) -> None:
        """Give up the slots that neither the nodes `ahead` nor the generations look at.

        They are kept where to move the others costs more than to look past them, unless there `must` be room.
        """
        needed = self._leads(np.array(sorted(set(ahead)), dtype=np.int64)).any(axis=0)
        stems = np.array([stem.node for stem in self._stems], dtype=np.int64)
        needed |= self._leads(stems).any(axis=0) & self._common[self._slots]
        kept = np.flatnonzero(needed)
        still = int((kept == np.arange(len(kept))).sum())  # ascending: those before the first gap stay where they are
        if must or 8 * (len(self._slots) - len(kept)) > len(kept) - still:
            self._slots = self._slots[kept]
            self._keys.keep(still, torch.from_numpy(kept[still:]), spare=0 if must else self._shape.pack_tokens)

    def _claim(self, node: int, room: int) -> Nodes:
        """`_claimed` with one more generation."""
        stem = [other for other in self._stems if other.node == node]
        length = len(stem[0].positions) if stem else len(self._stem_slots(node))
        rows = len(self._stems) + (not stem)
        for step in (ROWS, 1):  # row by row where there is no room for more
            needed = [rounded(rows, step), length, rounded(len(self._tails) + 1, step), rounded(room, TAIL)]
            claim = np.maximum(self._claimed, needed)
            if _product(claim) - _product(self._claimed) <= self.room():
                break
        return claim

    def _stem_slots(self, node: int) -> Nodes:
        found: Nodes = np.flatnonzero(self._leads(np.array([node]))[0] & ~self._common[self._slots])
        return found

    def _leads(self, nodes: Nodes) -> Mask:
        """(nodes, slots): whether a slot's node is one of `nodes` or its ancestor."""
        upper, lower = self._slots, nodes[:, None]
        found: Mask = (upper <= lower) & (lower <= self._tree.last[upper])
        return found

    def _step(self, ends: Nodes, positions: Nodes, nodes: Nodes, watched: Watched | None) -> Step:
        fed, at = len(ends), self._tree.depths[self._slots]
        own = positions[:fed, None]
        by_slot = self._leads(ends) & self._common[self._slots]
        slots = int(np.flatnonzero(by_slot.any(axis=0)).max(initial=-1)) + 1
        length = max((len(stem.positions) for stem in self._stems), default=0)
        stems = np.full((fed, length), -1, dtype=np.int64)
        for row, tail in enumerate(self._tails):
            stems[row, : len(tail.stem.positions)] = tail.stem.positions
        lengths = np.array([tail.length for tail in self._tails], dtype=np.int64)
        wide = rounded(int(lengths.max(initial=0)), TAIL)
        places = np.arange(wide)
        tails = self._tree.depths[ends][:, None] + 1 + places
        looked_at = np.concatenate([by_slot[:, :slots], stems >= 0, places < lengths[:, None]], axis=1)
        where = np.concatenate([np.broadcast_to(at[:slots], (fed, slots)), stems, tails], axis=1)
        in_tree = self._leads(nodes)
        tree_masks, fed_masks = {}, {}
        for window in self._shape.windows:
            reach = np.inf if window is None else window
            tree_masks[window] = self._shape.mask(in_tree & (positions[fed:, None] - at < reach))
            fed_masks[window] = self._shape.mask(looked_at & (own - where < reach))[:, None, None]
        groups = self._groups() if length else None
        return Step(self._keys, fed, slots, length, wide, groups, tree_masks, fed_masks, watched)

    def _groups(self) -> Groups:
        rows: dict[int, list[int]] = {id(stem): [] for stem in self._stems}
        number = {id(stem): at for at, stem in enumerate(self._stems)}
        place = []
        for row, tail in enumerate(self._tails):
            place.append(len(rows[id(tail.stem)]))
            rows[id(tail.stem)].append(row)
        most = max(map(len, rows.values()))
        table = [own + [0] * (most - len(own)) for own in rows.values()]
        stem = [number[id(tail.stem)] for tail in self._tails]
        table_, stem_, place_ = (torch.tensor(values, device=self._shape.device) for values in (table, stem, place))
        return Groups(table_, stem_, place_)


@torch.inference_mode()
def packs(shape: PackedShape) -> bool:
    """Whether the model gives the same in packed rows, up to rounding; it computes so from then on."""
    if not shape.continues():
        return False
    vocabulary = shape.model.config.get_text_config().vocab_size
    one, other = (tuple(token % vocabulary for token in ids) for ids in _TRIAL)
    continued = (*one, other[-1])
    alone = [shape.hidden(torch.tensor([ids], device=shape.device))[0] for ids in (continued, other)]
    tree = prefix_tree([one, other], [0, 0])
    some, every = len(tree.tokens) // 2, np.arange(len(tree.tokens))
    prompt = int(tree.paths[0][-1])
    try:
        shape.pack()
        row = PackedRow(shape, tree, [prompt])
        packed = torch.cat([row.forward([], every[:some]), row.forward([], every[some:])])
        row.begin(prompt, 1)
        said = row.forward([other[-1]], every[:0])
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError):
        return False
    found = [torch.cat([packed[torch.from_numpy(tree.paths[0])], said]), packed[torch.from_numpy(tree.paths[1])]]
    shape.learn_room(row.bytes_per_token)
    far = [(ours - theirs).float().norm() / theirs.float().norm() for ours, theirs in zip(found, alone, strict=True)]
    return bool(max(far) <= 0.05)


def _product(claimed: Nodes) -> int:
    return int(claimed[0] * claimed[1] + claimed[2] * claimed[3])
