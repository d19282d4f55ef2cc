"""States that the environment names: rows of different wording are samples of the same value.

Free wording defeats sharing by tokens. An environment may have ``state_key(tokens)``, which maps
the tokens of a state to a name (or to None, where only the tokens will do). States of a prompt slot
with the same name are then one state, and a row is a sample of it if it comes to a border with that
name; it counts once, from the first such border on.

The values are unbiased if the name keeps everything that the rest of the answer and its reward
depend on, the position included, so that no row passes the same name twice. A name that forgets
something averages over states that differ, and what it averages over depends on how the policy came
there: the values are biased, and so is the gradient. That a border is one must not depend on what
follows it, so the segmenter must be causal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from agents.core.rollout import Trajectory, later_borders
from agents.core.sample_pool import SamplePool, StateKey, state_key

StateName = Callable[[Sequence[int]], Hashable | None]
"""Maps the tokens of a state, prompt and response, to its name; None: the tokens name it."""


class NamedStates:
    """The states of an iteration by the environment's names."""

    def __init__(self, env: Any) -> None:
        """Takes the environment's ``state_key``.

        Raises:
            ValueError: It has none, or its segmenter looks ahead.
        """
        name: StateName | None = getattr(env, "state_key", None)
        if name is None:
            raise ValueError(
                "state_key=env needs an environment that names its states, and this one has no "
                "state_key. Set --state_key tokens, or give the environment a method "
                "state_key(tokens)."
            )
        if not getattr(env.segmenter, "causal", True):
            raise ValueError(
                f"state_key=env needs a causal segmenter, and {env.segmenter.name} looks ahead: "
                "which rows pass a state would depend on what follows it. Set --segmenter newline."
            )
        self._env, self._name = env, name
        self._numbers: dict[Hashable, int] = {}

    def keys(self, row: Trajectory, borders: Sequence[int]) -> list[StateKey]:
        """Returns the key of the state at each border of a row.

        Args:
            row: An answer or a rollout.
            borders: Indices into its response.
        """
        slot, prompt = row.start.slot, row.start.tokens
        return [self._key(slot, prompt + row.response[:border]) for border in borders]

    def passed(self, rollout: Trajectory) -> list[StateKey]:
        """Returns the keys of a rollout's borders, that of the state where it began first."""
        return self.keys(rollout, later_borders(self._env, rollout))

    def _key(self, slot: int, tokens: list[int]) -> StateKey:
        name = self._name(tokens)
        if name is None:
            return state_key(slot, tokens)
        number = self._numbers.setdefault(name, len(self._numbers))
        return slot, b"n" + number.to_bytes(4)  # no token key has five bytes


class NamedPool(SamplePool):
    """Samples of the values of named states.

    >>> pool = NamedPool([[(0, b"a"), (0, b"b")], [(0, b"a"), (0, b"c")]])
    >>> pool.add_named([(0, b"a"), (0, b"b")], owner=0, reward=1.0)
    >>> pool.needs((0, b"a"), 1), pool.rewards((0, b"b"))
    (1, [1.0])
    """

    def __init__(self, rows: Sequence[Sequence[StateKey]]) -> None:
        """Starts with no samples.

        Args:
            rows: The keys of each answer's borders, in order.
        """
        self._rows = rows
        self._samples = {key: [] for row in rows for key in row}

    def add_named(self, keys: Sequence[StateKey], *, owner: int, reward: float) -> None:
        """Counts a finished row as a sample of every state that it passes through, once.

        Args:
            keys: Those of its borders, from where it began.
            owner: The answer's number, or a ``rollout_owner``.
            reward: How it ended.
        """
        for key in dict.fromkeys(keys):
            if key in self._samples:
                self._samples[key].append((owner, reward))

    def lacking(
        self, wanted: Mapping[StateKey, int], *, below_others: bool = False
    ) -> dict[StateKey, int]:
        """Returns the states that lack samples; see ``SamplePool.lacking``."""
        missing = {key: self.needs(key, wanted[key]) for key in self._samples}
        below: set[StateKey] = set()
        for row in self._rows:
            above = False
            for key in row:
                if above:
                    below.add(key)
                above = above or missing[key] > 0
        return {
            key: count
            for key, count in missing.items()
            if count and (below_others or key not in below)
        }
