"""From trajectories to rows to train on: group returns, and which answers count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.core.advantages import FloatArray
from agents.core.config import BaseConfig
from agents.core.objective import Batch
from agents.core.rollout import Trajectory


def group_returns(rewards: Sequence[FloatArray], num_generations: int) -> FloatArray:
    """Returns the sum of each answer's token rewards, [prompts, num_generations].

    Args:
        rewards: r_t of each answer, each [T_i]; the answers of a prompt stand together.
        num_generations: Answers a prompt.

    >>> group_returns([np.array([0.0, 1.0]), np.array([-0.5])], 2).tolist()
    [[1.0, -0.5]]
    """
    return np.array([row.sum() for row in rewards]).reshape(-1, num_generations)


def zero_spread_groups(trajectories: Sequence[Trajectory], num_generations: int) -> list[bool]:
    """Returns whether each group of answers got the same reward throughout, [prompts]."""
    rewards = np.array([trajectory.reward for trajectory in trajectories])
    groups = rewards.reshape(-1, num_generations)
    result: list[bool] = (groups.min(axis=1) == groups.max(axis=1)).tolist()
    return result


def batch_of(
    trajectories: Sequence[Trajectory], advantages: list[FloatArray], config: BaseConfig
) -> Batch:
    """Returns the rows to train on; ``zero_spread`` and ``truncated_answers`` say which count.

    Args:
        trajectories: ``num_generations`` answers of each prompt in turn.
        advantages: Of each token, each [T_i].
        config: The switches.
    """
    masked = [t.truncated and config.truncated_answers == "mask" for t in trajectories]
    skipped = [
        flat and config.zero_spread == "skip"
        for flat in zero_spread_groups(trajectories, config.num_generations)
        for _ in range(config.num_generations)
    ]
    pairs = list(zip(masked, skipped, strict=True))
    return Batch(
        [trajectory.start.tokens for trajectory in trajectories],
        [trajectory.response for trajectory in trajectories],
        advantages,
        [trajectory.log_probs for trajectory in trajectories],
        in_policy_loss=[not (mask or skip) for mask, skip in pairs],
        in_kl=[not (mask or (skip and not config.zero_spread_kl)) for mask, skip in pairs],
    )
