"""The states that values are asked of, and what is sampled from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from agents.analysis.errors import FloatArray, IntArray
from agents.core.rollout import Sampler, Start, Trajectory, mark_states
from agents.core.streams import stream_key

_AT_ONCE = 32  # states whose rollouts are in memory at the same time


@dataclass(frozen=True)
class States:
    """The states at the step borders of one answer to each problem.

    Attributes:
        groups: The answers to each problem, with borders; the first one's states are meant.
        starts: Where to sample from, [S].
        problem: Which problem each state belongs to, int64, [S].
        relative: Place in its answer, the steps before it over all steps, in [0, 1), [S].
    """

    groups: list[list[Trajectory]]
    starts: list[Start]
    problem: IntArray
    relative: FloatArray

    @property
    def answers(self) -> list[Trajectory]:
        """The answers whose states these are."""
        return [group[0] for group in self.groups]


def separate(sampler: Sampler, purpose: str) -> Sampler:
    """Returns the same sampler with random streams that no other purpose has."""
    return replace(sampler, seed=stream_key(sampler.seed, "analysis", purpose) >> 1)


def sample_states(sampler: Sampler, starts: Sequence[Start], num_generations: int) -> States:
    """Samples answers to each problem, cuts them into steps and returns the first ones' states."""
    groups = separate(sampler, "answers").sample(
        list(starts), num_generations, iteration=0, purpose="rollout"
    )
    for group in groups:
        for trajectory in group:
            mark_states(sampler.env, trajectory)
    firsts = [group[0] for group in groups]
    return States(
        groups,
        [start for trajectory in firsts for start in border_starts(trajectory)],
        np.repeat(np.arange(len(firsts)), [len(first.borders) for first in firsts]),
        np.concatenate([np.arange(n := len(first.borders)) / n for first in firsts]),
    )


def border_starts(trajectory: Trajectory) -> list[Start]:
    """Returns the state at each border of a trajectory, to sample from."""
    above = trajectory.start
    return [
        Start(
            snapshot,
            above.tokens + trajectory.response[:border],
            above.budget - border,
            above.slot,
            above.problem_id,
        )
        for border, snapshot in zip(trajectory.borders, trajectory.states, strict=True)
    ]


def sample_rewards(
    sampler: Sampler, starts: Sequence[Start], n: int, purpose: str
) -> tuple[FloatArray, int]:
    """Returns the rewards of ``n`` rollouts of each state, float64, [S, n], and their tokens.

    Args:
        sampler: Engine and environment.
        starts: The states; no two of a slot may be equal.
        n: Rollouts a state.
        purpose: Names the random streams.
    """
    sampler = separate(sampler, purpose)
    rewards, tokens = np.zeros((len(starts), n)), 0
    order = sorted(range(len(starts)), key=lambda row: (len(starts[row].tokens), row))
    for begin in range(0, len(order), _AT_ONCE):
        rows = order[begin : begin + _AT_ONCE]
        groups = sampler.sample([starts[row] for row in rows], n, iteration=0, purpose=purpose)
        for row, group in zip(rows, groups, strict=True):
            rewards[row] = [rollout.reward for rollout in group]
            tokens += sum(len(rollout.response) for rollout in group)
    return rewards, tokens
