"""A prefix tree over token ids: beginnings that sequences have in common stand in it once."""

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
    """Per sequence given last, in the order given, the nodes of its tokens from a place on."""

    @property
    def edge(self) -> Nodes:
        """The last node and its ancestors, from the root on: where the tree can grow."""
        found: Nodes = np.flatnonzero(self.last == len(self.tokens) - 1)
        return found

    def grown(self, sequences: Sequence[tuple[int, ...]], places: Sequence[int], kept: int = 0) -> PrefixTree:
        """The tree with further nodes behind its own: those of `sequences`, which may be empty, repeat and begin alike.

        A sequence shares with the earlier ones what it has in common with the edge, and with the others given all that
        it has in common with them. Nodes of the tree keep their numbers.

        Args:
            sequences: Token ids.
            places: Per sequence the place from which its path is wanted, all of it new nodes; 0 takes all of it.
            kept: How many nodes of the edge, from the root on, can be shared.
        """
        size = len(self.tokens)
        last_of_own = self.last.copy()
        tokens: list[int] = []
        depths: list[int] = []
        last: list[int] = []
        paths: list[Nodes] = [np.empty(0, dtype=np.int64)] * len(sequences)
        open_nodes: list[int] = self.edge[:kept].tolist()
        before = tuple(self.tokens[open_nodes].tolist())
        edge = len(open_nodes)
        """How many of the open nodes are the tree's own."""

        def close(nodes: list[int]) -> None:
            for node in nodes:
                if node < size:
                    last_of_own[node] = size + len(tokens) - 1
                else:
                    last[node - size] = size + len(tokens) - 1

        shared = [min(_common(before, ids), place) for ids, place in zip(sequences, places, strict=True)]
        for at in sorted(range(len(sequences)), key=lambda at: (-shared[at], sequences[at])):
            ids = sequences[at]
            common = _common(before, ids) if edge <= shared[at] else min(_common(before, ids), shared[at])
            close(open_nodes[common:])
            del open_nodes[common:]
            edge = min(edge, common)
            for depth in range(common, len(ids)):
                open_nodes.append(size + len(tokens))
                tokens.append(ids[depth])
                depths.append(depth)
                last.append(-1)
            paths[at] = np.array(open_nodes[places[at] :], dtype=np.int64)
            before = ids
        close(open_nodes)
        return PrefixTree(
            np.concatenate([self.tokens, np.array(tokens, dtype=np.int64)]),
            np.concatenate([self.depths, np.array(depths, dtype=np.int64)]),
            np.concatenate([last_of_own, np.array(last, dtype=np.int64)]),
            tuple(paths),
        )


_NONE = np.empty(0, dtype=np.int64)
EMPTY = PrefixTree(_NONE, _NONE, _NONE, ())


def prefix_tree(sequences: Sequence[tuple[int, ...]], places: Sequence[int]) -> PrefixTree:
    """The tree of `sequences` alone, as `PrefixTree.grown`."""
    return EMPTY.grown(sequences, places)


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many tokens both begin with."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(at for at in range(shorter) if one[at] != other[at])
