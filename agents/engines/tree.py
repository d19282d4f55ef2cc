"""The tree of the states that a sweep starts from, walked by many rows at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
OFF = -1
"""The node of a row whose tokens begin no state any more."""


class StateTree:
    """The prefixes of a set of states; a node is a prefix, equal prefixes of a tree are one node.

    Attributes:
        paths: The states that no other state begins with: every state is a prefix of one of them.
        path_of: For each state the number of a path that begins with it, [S].
        lengths: Tokens of each state, [S].

    >>> tree = StateTree([[1, 2], [1, 2, 3], [1, 4]], [0, 0, 0])
    >>> tree.paths, tree.path_of.tolist()
    ([[1, 2, 3], [1, 4]], [0, 0, 1])
    >>> there = tree.node_of[:1]  # rows that stand at [1, 2]
    >>> bool(tree.step(there, np.array([3]))[0] == tree.node_of[1]), tree.step(there, np.array([9]))
    (True, array([-1]))
    """

    def __init__(self, states: Sequence[Sequence[int]], trees: Sequence[int]) -> None:
        """Builds the tree.

        Args:
            states: Non-empty token ids; no two the same of one tree.
            trees: Which tree each belongs to: equal tokens of two trees are two states.
        """
        order = sorted(range(len(states)), key=lambda place: (trees[place], list(states[place])))
        self.lengths = np.array([len(state) for state in states], dtype=np.int64)
        self.path_of = np.zeros(len(states), dtype=np.int64)
        self.paths: list[list[int]] = []
        roots: list[int] = []
        for place, after in zip(order, [*order[1:], None], strict=True):
            state = list(states[place])
            self.path_of[place] = len(self.paths)
            begun = after is not None and trees[after] == trees[place]
            if not begun or list(states[after][: len(state)]) != state:  # type: ignore[index]
                self.paths.append(state)
                roots.append(trees[place])
        self._build(np.unique(np.array(roots), return_inverse=True)[1].astype(np.int64))

    def _build(self, nodes: IntArray) -> None:
        """Numbers the nodes, given the roots of the paths; a path's node at depth 0 is its root."""
        depths = np.array([len(path) for path in self.paths])
        tokens = np.zeros((len(depths), int(depths.max())), dtype=np.int64)
        for row, path in enumerate(self.paths):
            tokens[row, : len(path)] = path
        self._base = int(tokens.max()) + 1
        self.node_of = np.zeros(len(self.lengths), dtype=np.int64)
        keys, first = [], int(nodes.max()) + 1
        for depth in range(1, tokens.shape[1] + 1):
            inside = depths >= depth
            edges = nodes[inside] * self._base + tokens[inside, depth - 1]
            distinct, child = np.unique(edges, return_inverse=True)
            nodes[inside] = first + child
            here = self.lengths == depth
            self.node_of[here] = nodes[self.path_of[here]]
            keys.append(distinct)
            first += len(distinct)
        self._keys = np.concatenate(keys)  # sorted: nodes are numbered by depth
        self._first = first - len(self._keys)
        self.num_nodes = first

    def step(self, nodes: IntArray, tokens: IntArray) -> IntArray:
        """Returns the nodes that rows at ``nodes`` reach by ``tokens``, each [B], or OFF."""
        edges = nodes * self._base + tokens
        place = np.minimum(np.searchsorted(self._keys, edges), len(self._keys) - 1)
        on_tree = (self._keys[place] == edges) & (nodes != OFF) & (tokens < self._base)
        return np.where(on_tree, place + self._first, OFF)
