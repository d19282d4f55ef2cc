"""What says the value of a state: rollouts, rollouts with reuse, a critic, a group's mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from agents.analysis.errors import FloatArray
from agents.analysis.states import States, separate
from agents.core.critic import Critic
from agents.core.policy import Sequences
from agents.core.rollout import Sampler, Trajectory
from agents.core.values import ValueEstimates, monte_carlo_values

_ROWS = 64  # answers a pass of the critic


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted values.

    Attributes:
        values: Of each state, float64, [S].
        rollouts: Independent rollouts behind each value; None where they are none.
        tokens_per_state: Tokens generated for a value; with reuse over the states of all answers.
    """

    values: FloatArray
    rollouts: int | None = None
    tokens_per_state: float = 0.0


def predictions(
    sampler: Sampler,
    states: States,
    num_rollouts: Sequence[int],
    critic: Critic | None = None,
    *,
    on_policy: bool = True,
) -> dict[str, Prediction]:
    """Returns what each predictor says of the states, by its name.

    ``mc K`` is the paper's estimator: K rollouts of the state. ``reuse K`` counts all rows that
    pass through a state, the siblings among the answers too. ``group mean`` is what GRPO compares
    an answer with, its own reward in it; ``leave one out`` is RLOO's baseline, the mean reward of
    the other answers. The last two say the same at every state of an answer.

    Args:
        sampler: Of the policy whose values are meant.
        states: With at least two answers a problem.
        num_rollouts: K of the Monte-Carlo predictors.
        critic: Of a PPO run.
        on_policy: Whether the answers are the policy's own. Of other answers, rewards say nothing
            about the policy's values: reuse and group means are left out.
    """
    found = {}
    for k in num_rollouts:
        estimates = monte_carlo_values(
            separate(sampler, f"mc {k}"), states.answers, k, iteration=0, reuse=False
        )
        found[f"mc {k}"] = Prediction(np.array([*chain(*estimates.values)]), k, _cost(estimates))
    if critic is not None:
        found["critic"] = Prediction(critic_values(critic, states.answers))
    if not on_policy:
        return found
    rows = [trajectory for group in states.groups for trajectory in group]
    firsts = np.cumsum([0, *(len(group) for group in states.groups[:-1])])
    for k in num_rollouts:
        estimates = monte_carlo_values(
            separate(sampler, f"reuse {k}"), rows, k, iteration=0, reuse=True
        )
        values = np.array([*chain(*(estimates.values[row] for row in firsts))])
        found[f"reuse {k}"] = Prediction(values, tokens_per_state=_cost(estimates))
    rewards = np.array([[answer.reward for answer in group] for group in states.groups])
    found["group mean"] = Prediction(rewards.mean(1)[states.problem])
    found["leave one out"] = Prediction(rewards[:, 1:].mean(1)[states.problem])
    return found


def _cost(estimates: ValueEstimates) -> float:
    """Returns the tokens generated for a state's value."""
    return estimates.metrics["vine/tokens"] / estimates.metrics["vine/states"]


def critic_values(critic: Critic, trajectories: Sequence[Trajectory]) -> FloatArray:
    """Returns what a critic says at every border of the trajectories in turn, float64, [S]."""
    device = next(critic.parameters()).device
    values = []
    for begin in range(0, len(trajectories), _ROWS):
        part = trajectories[begin : begin + _ROWS]
        batch = Sequences.of([t.start.tokens for t in part], [t.response for t in part], device)
        with torch.no_grad():
            said = critic(batch).double().cpu().numpy()
        values += [said[row, trajectory.borders] for row, trajectory in enumerate(part)]
    return np.concatenate(values)
