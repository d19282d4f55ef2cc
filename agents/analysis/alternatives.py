"""Alternative next steps of a state, as the policy samples them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agents.analysis.states import border_starts, separate
from agents.core.rollout import Sampler, Start, Trajectory, play_tokens

_AT_ONCE = 64  # states whose rollouts are in memory at the same time


@dataclass(frozen=True)
class Alternative:
    """A next step.

    Attributes:
        rollout: A rollout that began with it, with a border and a state behind it.
        after: The state behind it; None if it ended the answer.
    """

    rollout: Trajectory
    after: Start | None

    @property
    def reward(self) -> float:
        """What it earned, if it ended the answer."""
        return self.rollout.reward


def sample_alternatives(
    sampler: Sampler, starts: Sequence[Start], wanted: int, tries: int
) -> list[list[Alternative]]:
    """Returns up to ``wanted`` distinct next steps of each state, in the order they were drawn.

    Distinct by their tokens. A likely step is found first, as the policy would draw it.

    Args:
        sampler: Engine and environment.
        starts: The states.
        wanted: Alternatives a state.
        tries: Rollouts a state that are looked through.
    """
    found: list[list[Alternative]] = []
    apart = separate(sampler, "alternatives")
    for begin in range(0, len(starts), _AT_ONCE):
        part = list(starts[begin : begin + _AT_ONCE])
        groups = apart.sample(part, tries, iteration=0, purpose="alternatives")
        found += [_distinct(sampler.env, group, wanted) for group in groups]
    return found


def _distinct(env: Any, rollouts: Sequence[Trajectory], wanted: int) -> list[Alternative]:
    chosen: dict[tuple[int, ...], Alternative] = {}
    for rollout in rollouts:
        if len(chosen) == wanted:
            break
        borders = env.segmenter(rollout.response, env.tokenizer)[:2]
        step = tuple(rollout.response[: borders[1]] if len(borders) > 1 else rollout.response)
        if step not in chosen:
            chosen[step] = _alternative(env, rollout, borders)
    return list(chosen.values())


def _alternative(env: Any, rollout: Trajectory, borders: list[int]) -> Alternative:
    states = [rollout.start.snapshot]
    if len(borders) > 1:
        env.restore(rollout.start.snapshot)
        play_tokens(env, rollout.response[: borders[1]])
        states.append(env.snapshot())
    marked = replace(rollout, borders=borders, states=states)
    return Alternative(marked, border_starts(marked)[1] if len(borders) > 1 else None)


def chosen_states(
    found: Sequence[Sequence[Alternative]],
    problem: Sequence[int],
    *,
    least: int,
    per_problem: int,
    rng: np.random.Generator,
) -> list[int]:
    """Returns which states to rank: some of each problem's that have enough alternatives.

    Args:
        found: Alternatives of each state.
        problem: Problem of each state.
        least: Alternatives a state must have.
        per_problem: States a problem at most.
        rng: Picks them.
    """
    rows: list[int] = []
    for group in sorted(set(problem)):
        fit = [r for r, p in enumerate(problem) if p == group and len(found[r]) >= least]
        rows += sorted(int(row) for row in rng.permutation(fit)[:per_problem])
    return rows
