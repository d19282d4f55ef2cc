"""The mutable part of an environment: one episode, and its row of the observation."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lang_env.problem import Problem
from lang_env.snapshot import Outcome, Snapshot


class _History(array):  # type: ignore[type-arg]  # not subscriptable in Python 3.11
    """Ids that are only ever appended to, and who may do so."""

    __slots__ = ("owner",)
    owner: object


class Episode:
    """One episode: a problem, its prompt, and the response so far.

    The response is the first ``length`` ids of ``history``, which snapshots share. Only the episode
    that made an array appends to it, and only at its end; otherwise the prefix is copied first.
    So threads with an environment each may share snapshots.

    Attributes:
        problem: The problem.
        prompt: Prompt ids; never changed in place.
        history: Ids, of which the first ``length`` are the response.
        length: Tokens of the response.
        budget: Most tokens the response may have.
        outcome: How the episode ended, or None while it is running.
        drawn: Whether it began with a problem that was drawn, and no state was restored since.
    """

    __slots__ = ("_key", "budget", "drawn", "history", "length", "outcome", "problem", "prompt")

    def __init__(
        self, problem: Problem, prompt: Sequence[int], budget: int, drawn: bool = False
    ) -> None:
        """Begins an episode."""
        self._key = object()
        self.history: array[int]
        self.begin(problem, prompt, budget, drawn)

    def begin(
        self, problem: Problem, prompt: Sequence[int], budget: int, drawn: bool = False
    ) -> None:
        """Begins a new episode in place."""
        self.problem, self.budget, self.drawn = problem, budget, drawn
        self.prompt = array("i", prompt)
        self._own_copy(array("i"))
        self.length = 0
        self.outcome: Outcome | None = None

    def load(self, snapshot: Snapshot, budget: int) -> None:
        """Puts this episode into the snapshot's state; copies nothing yet."""
        self.problem, self.budget, self.outcome = snapshot.problem, budget, snapshot.outcome
        self.drawn = False
        self.prompt, self.history = snapshot._prompt, snapshot._history
        self.length = snapshot.num_tokens

    def apply(self, tokens: Sequence[int], outcome: Outcome | None) -> float:
        """Appends ids to the response, which no snapshot sees, and ends the episode if it ends.

        Args:
            tokens: Ids that were judged.
            outcome: How the episode ends by the last of them, or None.

        Returns:
            The reward.
        """
        if len(self.history) != self.length or getattr(self.history, "owner", None) != self._key:
            self._own_copy(self.response)
        self.history.extend(tokens)
        self.length += len(tokens)
        self.outcome = outcome
        return 0.0 if outcome is None else outcome.score

    def _own_copy(self, ids: array[int]) -> None:
        history = _History("i", ids)
        history.owner = self._key
        self.history = history

    @property
    def response(self) -> array[int]:
        """Response ids, copied."""
        return self.history[: self.length]

    @property
    def remaining(self) -> int:
        """Tokens that may still be played; 0 after the end."""
        return 0 if self.outcome is not None else self.budget - self.length

    def info(self) -> dict[str, Any]:
        """Returns a new ``info``: the same keys at every step, never None."""
        outcome = self.outcome
        if outcome is None:
            return {
                "problem_id": self.problem.id,
                "num_tokens": self.length,
                "score": 0.0,
                "verdict": "",
                "extracted": "",
                "is_success": False,
            }
        return {
            "problem_id": self.problem.id,
            "num_tokens": self.length,
            "score": outcome.score,
            "verdict": outcome.verdict,
            "extracted": outcome.extracted,
            "is_success": outcome.verdict == "correct",
        }

    @property
    def num_tokens(self) -> int:
        """Tokens of prompt and response."""
        return len(self.prompt) + self.length

    def padded(self, padding: array[int]) -> NDArray[np.int32]:
        """Returns prompt, response and padding, int32, as a new array.

        Args:
            padding: L ids of padding; the result has the same length.
        """
        ids = self.prompt + self.response
        ids.extend(padding[len(ids) :])
        return np.frombuffer(ids, np.int32)
