"""A prefix tree over token ids: every beginning that sequences have in common stands in it once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class PrefixTree:
    """n nodes in depth-first order, so that a node's subtree is the run of nodes from it to its `last`.

    Node a is an ancestor of node b (or b itself) where `a <= b <= last[a]`.
    """

    tokens: Nodes
    """(n,)"""
    depths: Nodes
    """(n,): a token's position in its sequences, from 0."""
    last: Nodes
    """(n,)"""
    paths: tuple[Nodes, ...]
    """Per sequence, in the order given, the nodes of its tokens from a place on."""


def prefix_tree(sequences: Sequence[tuple[int, ...]], places: Sequence[int]) -> PrefixTree:
    """The tree of `sequences`, which may be empty, repeat and begin with one another.

    Args:
        sequences: Token ids.
        places: Per sequence the place from which its path is wanted; 0 takes all of it.
    """
    tokens: list[int] = []
    depths: list[int] = []
    last: list[int] = []
    paths: list[Nodes] = [np.empty(0, dtype=np.int64)] * len(sequences)
    open_nodes: list[int] = []
    before: tuple[int, ...] = ()
    for at in sorted(range(len(sequences)), key=sequences.__getitem__):
        ids = sequences[at]
        common = _common(before, ids)
        for node in open_nodes[common:]:
            last[node] = len(tokens) - 1
        del open_nodes[common:]
        for depth in range(common, len(ids)):
            open_nodes.append(len(tokens))
            tokens.append(ids[depth])
            depths.append(depth)
            last.append(-1)
        paths[at] = np.array(open_nodes[places[at] :], dtype=np.int64)
        before = ids
    for node in open_nodes:
        last[node] = len(tokens) - 1
    return PrefixTree(
        np.array(tokens, dtype=np.int64), np.array(depths, dtype=np.int64), np.array(last, dtype=np.int64), tuple(paths)
    )


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many tokens both begin with."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(at for at in range(shorter) if one[at] != other[at])
