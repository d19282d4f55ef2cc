"""Advantages: pure functions from rewards and values to a number for each response token."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def stepwise_advantages(
    borders: Sequence[int], num_tokens: int, values: Sequence[float], reward: float
) -> FloatArray:
    """Returns the step-wise Monte-Carlo advantage of each token (VinePPO, section 3).

    Every token of step i has A_i = r_i + V(s_{i+1}) - V(s_i). The reward comes with the last step,
    and the value after it is 0.

    Args:
        borders: Where each step starts, as indices into the response; the first is 0.
        num_tokens: Length of the response in tokens.
        values: V of the state at each border, the prompt included; as many as ``borders``.
        reward: The episode's reward.

    Returns:
        Advantages, float64, shape [num_tokens].

    Raises:
        ValueError: Lengths differ, or the borders do not start at 0 and rise below num_tokens.

    >>> stepwise_advantages([0, 2, 3], 4, [0.5, 0.75, 0.25], 1.0).tolist()
    [0.25, 0.25, -0.5, 0.75]
    """
    if len(values) != len(borders):
        raise ValueError(f"one value for each border: got {len(values)} for {len(borders)}")
    _check_borders(borders, num_tokens)
    after = np.append(np.asarray(values[1:], dtype=np.float64), reward)
    steps = after - np.asarray(values, dtype=np.float64)
    return np.repeat(steps, np.diff([*borders, num_tokens]))


def capped_values(values: Sequence[float], num_borders: int, reward: float) -> list[float]:
    """Fills the values after a cap with the realised return (the paper's backward fill).

    Every step after the cap then has advantage 0, and the step that crosses it takes what is left:
    biased, since an outcome enters its own baseline.

    Args:
        values: V of the first borders, up to the cap.
        num_borders: How many borders the response has.
        reward: The episode's reward.

    >>> capped_values([0.5, 0.75], 4, 1.0)
    [0.5, 0.75, 1.0, 1.0]
    """
    return [*values, *([reward] * (num_borders - len(values)))]


def spread_advantages(
    borders: Sequence[int], num_tokens: int, values: Sequence[float], reward: float
) -> FloatArray:
    """Step-wise advantages with a cap on valued states: all later tokens get R - V(s_cap).

    Args:
        borders: Where each step starts, [S].
        num_tokens: Length of the response in tokens.
        values: V of the first ``len(values)`` borders; the last of them is the cap's.
        reward: The episode's reward.

    >>> spread_advantages([0, 1, 2, 3], 4, [0.5, 0.75], 1.0).tolist()
    [0.25, 0.25, 0.25, 0.25]
    >>> spread_advantages([0, 1, 2, 3], 4, [0.5, 0.25], 1.0).tolist()
    [-0.25, 0.75, 0.75, 0.75]
    """
    return stepwise_advantages(borders[: len(values)], num_tokens, values, reward)


def whiten(advantages: Sequence[FloatArray]) -> list[FloatArray]:
    """Returns the advantages of a minibatch shifted to mean 0 and scaled to deviation 1.

    Over all tokens of all answers, with the unbiased variance and 1e-8 under the root, as the
    paper's code does. Fewer than two tokens are returned as they are.

    Args:
        advantages: One array a answer, each of shape [T_i].

    >>> [a.round(3).tolist() for a in whiten([np.array([1.0, 2.0]), np.array([3.0])])]
    [[-1.0, 0.0], [1.0]]
    """
    flat = np.concatenate([np.zeros(0), *advantages])
    if len(flat) < 2:
        return list(advantages)
    scale = np.sqrt(flat.var(ddof=1) + 1e-8)
    return [(array - flat.mean()) / scale for array in advantages]


def _check_borders(borders: Sequence[int], num_tokens: int) -> None:
    rising = all(a < b for a, b in pairwise([*borders, num_tokens]))
    if not borders or borders[0] != 0 or not rising:
        raise ValueError(
            f"borders must start at 0 and rise below num_tokens = {num_tokens}, got {list(borders)}"
        )
