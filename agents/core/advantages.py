"""Advantages: pure functions from rewards and values to a number for each response token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Total = Callable[[ArrayLike], FloatArray]

_STD_FLOOR = 1e-4  # added to GRPO's deviations, as TRL does


def rloo_advantages(returns: ArrayLike) -> FloatArray:
    """Returns each answer's return minus the mean return of the other answers to its prompt.

    Source: Ahmadian et al. 2024 (arXiv 2402.14740), eq. 7.

    Args:
        returns: [P, G], P prompts with G >= 2 answers each.

    Returns:
        [P, G].

    Raises:
        ValueError: Not two dimensions, or G < 2: there is no other answer.

    >>> rloo_advantages([[1.0, 0.0, 0.0]]).tolist()
    [[1.0, -0.5, -0.5]]
    """
    groups = _groups(returns)
    others = (groups.sum(axis=1, keepdims=True) - groups) / (groups.shape[1] - 1)
    advantages: FloatArray = groups - others
    return advantages


def grpo_advantages(
    returns: ArrayLike, scale_rewards: Literal["group", "batch", "none"] = "group"
) -> FloatArray:
    """Returns each answer's return minus the mean of its group, over a standard deviation.

    Source: Shao et al. 2024 (arXiv 2402.03300). Deviations are unbiased (n - 1), plus 1e-4, as in
    TRL.

    Args:
        returns: [P, G], P prompts with G >= 2 answers each.
        scale_rewards: Deviation of the answer's group, of the whole batch, or no division
            (Dr. GRPO, arXiv 2503.20783).

    Returns:
        [P, G].

    Raises:
        ValueError: Not two dimensions, or G < 2.

    >>> grpo_advantages([[1.0, 0.0]]).round(4).tolist()
    [[0.707, -0.707]]
    >>> grpo_advantages([[1.0, 0.0]], "none").tolist()
    [[0.5, -0.5]]
    """
    groups = _groups(returns)
    advantages: FloatArray = groups - groups.mean(axis=1, keepdims=True)
    if scale_rewards == "none":
        return advantages
    axis = 1 if scale_rewards == "group" else None
    advantages /= groups.std(axis=axis, ddof=1, keepdims=True) + _STD_FLOOR
    return advantages


def gae_advantages(
    rewards: Sequence[FloatArray],
    values: Sequence[FloatArray],
    last_values: Sequence[float],
    *,
    gamma: float = 1.0,
    gae_lambda: float = 1.0,
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Returns generalised advantage estimates and returns of tokens, by tianshou's kernel.

    A_t = sum over k of (gamma * lambda)^k delta_{t+k}, delta_t = r_t + gamma V(s_{t+1}) - V(s_t).
    Source: Schulman et al. 2016 (arXiv 1506.02438), eq. 16.

    Args:
        rewards: One array an answer, each [T_i], T_i >= 1.
        values: V of the state before each token, each [T_i].
        last_values: V of the state after the last token: 0 for an answer that terminated, the
            critic's value where a truncated one is to bootstrap.
        gamma: Discount a token.
        gae_lambda: 1 gives Monte-Carlo returns minus values, 0 one-step errors.

    Returns:
        (advantages, returns), each a list of [T_i]; a return is advantage + value.

    >>> gae_advantages([np.array([0.0, 1.0])], [np.array([0.5, 0.75])], [0.0])[0][0].tolist()
    [0.5, 0.25]
    """
    from tianshou.algorithm.algorithm_base import Algorithm  # seconds to import
    from tianshou.data import ReplayBuffer

    lengths = [len(row) for row in rewards]
    ends = np.cumsum(lengths)
    before = np.concatenate([*values])
    after = np.append(before[1:], 0.0)
    after[ends - 1] = last_values
    # To the kernel every answer is truncated: what comes after it is exactly ``last_values``.
    cut = np.zeros(len(before), dtype=np.bool_)
    cut[ends - 1] = True
    index = np.arange(len(before))
    buffer = ReplayBuffer.from_data(
        index, index, np.concatenate([*rewards]), np.zeros_like(cut), cut, cut, index
    )
    returns, advantages = Algorithm.compute_episodic_return(
        buffer[index], buffer, index, after, before, gamma, gae_lambda
    )
    return np.split(advantages, ends[:-1]), np.split(returns, ends[:-1])


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


def whiten(
    advantages: Sequence[FloatArray],
    mode: Literal["none", "std", "mean_std"] = "mean_std",
    total: Total = np.asarray,
) -> list[FloatArray]:
    """Returns the advantages of a minibatch or batch at deviation 1.

    Over all tokens of all answers, with the unbiased variance and 1e-8 under the root, as the
    paper's code does. Fewer than two tokens are returned as they are.

    Args:
        advantages: One array an answer, each of shape [T_i].
        mode: "mean_std" also moves the mean to 0, "std" only divides, "none" changes nothing.
        total: Sums over the processes that hold the other answers, such as ``all_sum``.

    >>> [a.round(3).tolist() for a in whiten([np.array([1.0, 2.0]), np.array([3.0])])]
    [[-1.0, 0.0], [1.0]]
    >>> [a.round(3).tolist() for a in whiten([np.array([1.0, 2.0]), np.array([3.0])], "std")]
    [[1.0, 2.0], [3.0]]
    """
    if mode == "none":
        return list(advantages)
    flat = np.concatenate([np.zeros(0), *advantages])
    count, added = total([len(flat), flat.sum()])
    if count < 2:
        return list(advantages)
    mean = added / count
    scale = np.sqrt(total(np.square(flat - mean).sum()) / (count - 1) + 1e-8)
    return [(array - (mean if mode == "mean_std" else 0.0)) / scale for array in advantages]


def _check_borders(borders: Sequence[int], num_tokens: int) -> None:
    rising = all(a < b for a, b in pairwise([*borders, num_tokens]))
    if not borders or borders[0] != 0 or not rising:
        raise ValueError(
            f"borders must start at 0 and rise below num_tokens = {num_tokens}, got {list(borders)}"
        )


def _groups(returns: ArrayLike) -> FloatArray:
    groups = np.asarray(returns, dtype=np.float64)
    if groups.ndim != 2 or groups.shape[1] < 2:
        raise ValueError(
            f"returns must be [prompts, answers] with 2 answers or more, got {groups.shape}; "
            "set num_generations to 2 or more (paper: 8)"
        )
    return groups
