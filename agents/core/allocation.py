"""How many samples each state gets: more where earlier iterations saw more variance.

The error of a mean of K samples is sqrt(variance / K): at a given number of rollouts in all it is
least where K is proportional to the standard deviation. K of a state depends on its depth and on
earlier iterations alone, neither on its iteration's rewards nor on how its answers go on, so the
values stay unbiased.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from agents.core.rollout import Start
from agents.core.sample_pool import SamplePool, StateKey

_LEARNED = ("states", "squares", "degrees")
_BUCKETS = 16  # depths that are told apart
_KEPT = 0.8  # share of what was seen that the next iteration keeps
_PRIOR = 4.0  # samples of the mean variance that each depth is given, so that none is 0


def depth_of(start: Start) -> int:
    """Returns the depth of a state: the share of its budget that is spent, in sixteenths.

    >>> depth_of(Start(None, [1, 2, 3], budget=30, slot=0, problem_id="p", written=2))
    1
    """
    return _BUCKETS * start.written // (start.written + start.budget)


class VarianceAllocation:
    """Samples a state by depth, with a given mean over the states of earlier iterations.

    Attributes:
        states: How many states each depth had, older iterations counting less, [16].
        squares: Sum of squared deviations of the rewards from their state's mean, likewise.
        degrees: Samples less one of each state, likewise.
    """

    def __init__(self, mean: int) -> None:
        """Starts with the same number at every depth.

        Args:
            mean: K, samples a state on average, >= 1.
        """
        self._mean = mean
        self.states, self.squares, self.degrees = (np.zeros(_BUCKETS) for _ in range(3))

    def samples(self) -> NDArray[np.int64]:
        """Returns K of each depth, each >= 1, [16].

        The largest numbers in proportion to the standard deviations whose mean over the states seen
        so far is at most K; K everywhere as long as nothing was seen, or no reward ever varied.
        """
        uniform = np.full(_BUCKETS, self._mean, dtype=np.int64)
        if not self.squares.sum():
            return uniform
        mean = self.squares.sum() / self.degrees.sum()
        deviations = np.sqrt((self.squares + _PRIOR * mean) / (self.degrees + _PRIOR))
        low, high = 0.0, 2 * self._mean * self.states.sum() / deviations.min()
        for _ in range(60):
            middle = (low + high) / 2
            found = _rounded(middle * deviations)
            if found @ self.states <= self._mean * self.states.sum():
                low = middle
            else:
                high = middle
        return _rounded(low * deviations)

    def wanted(self, starts: Mapping[StateKey, Start]) -> dict[StateKey, int]:
        """Returns how many samples each state is to have."""
        samples = self.samples()
        return {key: int(samples[depth_of(start)]) for key, start in starts.items()}

    def learn(self, starts: Mapping[StateKey, Start], pool: SamplePool) -> None:
        """Takes an iteration's samples into account, for the iterations after it."""
        for numbers in (self.states, self.squares, self.degrees):
            numbers *= _KEPT
        for key, start in starts.items():
            depth, rewards = depth_of(start), np.array(pool.rewards(key))
            self.states[depth] += 1
            self.squares[depth] += ((rewards - rewards.mean()) ** 2).sum()
            self.degrees[depth] += len(rewards) - 1

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Returns what was learned, for a checkpoint."""
        return {name: getattr(self, name) for name in _LEARNED}

    def load_state(self, state: Mapping[str, NDArray[np.float64]]) -> None:
        """Goes on from what ``state`` returned."""
        for name in _LEARNED:
            setattr(self, name, np.array(state[name]))


def _rounded(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.maximum(1, np.rint(numbers)).astype(np.int64)
