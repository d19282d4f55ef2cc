"""The samples of V(s) that an iteration has: fresh rollouts, and every row that passes through s.

A row (an answer, or a rollout) that started at s or above it and whose tokens begin with s is one
more continuation of s, whatever its own step borders. So siblings share values through the tree of
their common prefixes. Which states still need rollouts, and how many, follows from tokens alone,
never from rewards: the pooled means stay unbiased.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

StateKey = tuple[int, bytes]
"""A state: (prompt slot, its tokens as int32 bytes)."""

_WIDTH = 4  # bytes of a token in a key
ROLLOUT = -1
"""The owner of a rollout that need not be told from others; every owner below 0 is a rollout."""


def rollout_owner(number: int) -> int:
    """Returns the owner of rollout ``number`` of an iteration, so that it can be left out.

    >>> rollout_owner(0), rollout_owner(1)
    (-2, -3)
    """
    return ROLLOUT - 1 - number


def state_key(slot: int, tokens: Sequence[int]) -> StateKey:
    """Returns the key of a state.

    >>> state_key(0, [1, 2]) == (0, np.array([1, 2], np.int32).tobytes())
    True
    """
    return slot, np.asarray(tokens, dtype=np.int32).tobytes()


def tokens_of(key: StateKey) -> list[int]:
    """Returns a state's tokens."""
    tokens: list[int] = np.frombuffer(key[1], dtype=np.int32).tolist()
    return tokens


class SamplePool:
    """Samples of the values of a fixed set of states.

    >>> pool = SamplePool([state_key(0, [1]), state_key(0, [1, 2])])
    >>> pool.add(0, [1, 2, 3], born=1, owner=0, reward=1.0)
    >>> pool.add(0, [1, 4, 3], born=1, owner=1, reward=0.0)
    >>> pool.value(state_key(0, [1]), owner=0), pool.needs(state_key(0, [1, 2]), 2)
    (0.0, 2)
    """

    def __init__(self, states: Iterable[StateKey]) -> None:
        """Starts with no samples.

        Args:
            states: The states to value; every one lies on the path of some answer.
        """
        self._samples: dict[StateKey, list[tuple[int, float]]] = {key: [] for key in states}
        lengths: dict[int, set[int]] = {}
        for slot, data in self._samples:
            lengths.setdefault(slot, set()).add(len(data))
        self._lengths = {slot: sorted(found) for slot, found in lengths.items()}
        self._order = sorted(self._samples, key=lambda key: (key[0], len(key[1]), key[1]))
        self._parents = {key: self._parent(key) for key in self._order}

    def __contains__(self, key: StateKey) -> bool:
        """Returns whether samples of this state are kept."""
        return key in self._samples

    def add(
        self, slot: int, tokens: Sequence[int], *, born: int, owner: int, reward: float
    ) -> None:
        """Counts a finished row as a sample of every state that it passes through.

        Args:
            slot: The row's prompt slot.
            tokens: All its tokens, the prompt included.
            born: How many of them were there when it started.
            owner: The answer's number, or a ``rollout_owner``.
            reward: How it ended.
        """
        data = state_key(slot, tokens)[1]
        lengths = self._lengths.get(slot, [])
        for length in lengths[bisect_left(lengths, born * _WIDTH) :]:
            if length >= len(data):
                break
            found = self._samples.get((slot, data[:length]))
            if found is not None:
                found.append((owner, reward))

    def add_at(self, key: StateKey, reward: float) -> None:
        """Counts a rollout as a sample of the state that it started from, and of no other."""
        self._samples[key].append((ROLLOUT, reward))

    def needs(self, key: StateKey, wanted: int) -> int:
        """Returns how many samples ``key`` lacks, for the answer that may use the fewest.

        An answer never uses itself, so where it passes through it counts for nothing.
        """
        owners = [owner for owner, _ in self._samples[key]]
        own = any(owner >= 0 for owner in owners)
        return max(0, wanted - (len(owners) - own))

    def lacking(
        self, wanted: Mapping[StateKey, int], *, below_others: bool = False
    ) -> dict[StateKey, int]:
        """Returns the states that lack samples, and how many each lacks.

        Args:
            wanted: K of each state, samples that an answer may use.
            below_others: Whether states below another one that lacks samples are in it too; if
                not, the rollouts of the states above may serve them first.
        """
        lacks: dict[StateKey, bool] = {}
        result = {}
        for key in self._order:
            parent = self._parents[key]
            above = parent is not None and lacks[parent]
            missing = self.needs(key, wanted[key])
            if missing and (below_others or not above):
                result[key] = missing
            lacks[key] = above or missing > 0
        return result

    def rewards(self, key: StateKey, owner: int = ROLLOUT) -> list[float]:
        """Returns the samples that row ``owner`` may use; all of them for ROLLOUT."""
        samples = self._samples[key]
        return [reward for row, reward in samples if row == ROLLOUT or row != owner]

    def value(self, key: StateKey, owner: int) -> float:
        """Returns the mean of the samples that row ``owner`` may use."""
        return float(np.mean(self.rewards(key, owner)))

    def _parent(self, key: StateKey) -> StateKey | None:
        """Returns the deepest state above ``key``, or None."""
        slot, data = key
        lengths = self._lengths[slot]
        for length in reversed(lengths[: bisect_left(lengths, len(data))]):
            if (slot, data[:length]) in self._samples:
                return slot, data[:length]
        return None
