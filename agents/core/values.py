"""Monte-Carlo values of states: the heart of VinePPO.

V(s) is the mean reward of K continuations of s, sampled by the policy after the environment was
restored to s. This is the paper's estimator: K fresh rollouts for every distinct state. Equal
states of a problem are one state, also across sibling answers: they are the same random variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agents.core.rollout import Sampler, Start, Trajectory
from agents.engines.base import Progress, silent

StateKey = tuple[int, tuple[int, ...]]
"""A state: (prompt slot, all its tokens)."""


@dataclass(frozen=True, slots=True)
class ValueEstimates:
    """Values of the borders of every trajectory, and what they cost.

    Attributes:
        values: For each trajectory V of its borders, the prompt first; shorter than its borders
            where a cap was set.
        metrics: ``vine/*`` numbers of the iteration.
        rollouts: For each distinct state the rewards of its rollouts, [K].
    """

    values: list[list[float]]
    metrics: dict[str, float]
    rollouts: dict[StateKey, list[float]]


def state_keys(trajectory: Trajectory, max_steps: int | None = None) -> list[StateKey]:
    """Returns the key of the state at each border, up to the cap.

    Args:
        trajectory: With borders.
        max_steps: Only the borders 0 .. max_steps are valued; None: all.
    """
    borders = trajectory.borders if max_steps is None else trajectory.borders[: max_steps + 1]
    prompt = tuple(trajectory.start.tokens)
    response = tuple(trajectory.response)
    return [(trajectory.start.slot, prompt + response[:border]) for border in borders]


def monte_carlo_values(
    sampler: Sampler,
    trajectories: Sequence[Trajectory],
    num_rollouts: int,
    *,
    iteration: int,
    max_steps: int | None = None,
    progress: Progress = silent,
) -> ValueEstimates:
    """Estimates V at every border of every trajectory with K fresh rollouts a distinct state.

    A rollout may spend what the restored environment has left. A rollout that runs out of budget
    counts with the reward the environment gives it. Unbiased: the value of a state is independent
    of the trajectories that pass through it, given the state.

    Args:
        sampler: Engine and environment.
        trajectories: With borders and states (see ``mark_states``).
        num_rollouts: K, continuations a state, >= 1.
        iteration: Part of the random streams.
        max_steps: Borders after this one are not valued; None: all are.
        progress: Called with (rollouts, tokens) as they finish.

    Raises:
        ValueError: K or the cap is out of range.
    """
    if num_rollouts < 1:
        raise ValueError(f"num_rollouts (K) must be >= 1, got {num_rollouts} (paper: 9)")
    if max_steps is not None and max_steps < 1:
        raise ValueError(f"max_steps_valued must be >= 1, got {max_steps} (paper: 25 on GSM8K)")
    keys = [state_keys(trajectory, max_steps) for trajectory in trajectories]
    starts: dict[StateKey, Start] = {}
    for trajectory, row in zip(trajectories, keys, strict=True):
        for border, snapshot, key in zip(trajectory.borders, trajectory.states, row, strict=False):
            start = trajectory.start
            starts.setdefault(
                key,
                Start(snapshot, list(key[1]), start.budget - border, start.slot, start.problem_id),
            )
    groups = sampler.sample(
        list(starts.values()), num_rollouts, iteration=iteration, purpose="value", progress=progress
    )
    rollouts = {
        key: [rollout.reward for rollout in group]
        for key, group in zip(starts, groups, strict=True)
    }
    means = {key: float(np.mean(rewards)) for key, rewards in rollouts.items()}
    played = [rollout for group in groups for rollout in group]
    num_states = sum(len(row) for row in keys)
    metrics = {
        "vine/states": float(num_states),
        "vine/unique_states": float(len(starts)),
        "vine/k_fresh": len(played) / num_states,
        "vine/k_effective": float(num_rollouts),
        "vine/tokens": float(sum(len(rollout.response) for rollout in played)),
        "vine/value_mean": float(np.mean([means[key] for row in keys for key in row])),
        "vine/value_std_within": float(np.mean([np.std(rewards) for rewards in rollouts.values()])),
        "vine/truncated_ratio": float(np.mean([rollout.truncated for rollout in played])),
        "vine/steps": num_states / len(trajectories),
    }
    return ValueEstimates([[means[key] for key in row] for row in keys], metrics, rollouts)
