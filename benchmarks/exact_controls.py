"""Estimators that must fail: each breaks one rule of unbiased values, and nothing else.

The library offers none of them, except those that it documents as biased (the zero fill after a
cap, groups left out for their rewards, segmenters that look ahead). ``benchmarks/exact_mdp.py``
shows by how much they fail, and the tests that they do.

Where a control needs values besides what it gets wrong, it takes the exact ones, so that what is
measured is the broken rule alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agents.analysis.expectation import Draw, Estimate, exact_advantages
from agents.core.advantages import FloatArray, capped_values, stepwise_advantages
from agents.core.credit import zero_spread_groups
from agents.core.rollout import Start, Trajectory, start_at
from agents.core.values import monte_carlo_values, state_keys

Estimator = Callable[[Draw], Estimate]


def from_values(draw: Draw, values: list[list[float]], fresh: float = float("nan")) -> Estimate:
    """Returns step-wise advantages from values of all borders."""
    rows = zip(draw.trajectories, values, strict=True)
    return Estimate([_stepwise(row, numbers) for row, numbers in rows], values, fresh)


def own_outcome_kept(draw: Draw) -> Estimate:
    """An answer is a sample of the values that it is measured by."""
    pool = monte_carlo_values(draw.sampler, draw.trajectories, 1, iteration=1).pool
    kept = [[_mean(pool.rewards(key)) for key in state_keys(row)] for row in draw.trajectories]
    return from_values(draw, kept)


def left_out_by_content(draw: Draw) -> Estimate:
    """An answer leaves out every answer that equals it, instead of itself alone."""

    def others(row: Trajectory, border: int) -> list[Trajectory]:
        return [other for other in draw.trajectories if other.response != row.response]

    return _from_siblings(draw, others)


def at_own_borders(draw: Draw) -> Estimate:
    """A sibling counts only where it has a border itself, which depends on how it goes on."""

    def others(row: Trajectory, border: int) -> list[Trajectory]:
        return [
            other for other in draw.trajectories if other is not row and border in other.borders
        ]

    return _from_siblings(draw, others)


def confidence_stop(draw: Draw, first: int = 2, most: int = 4) -> Estimate:
    """Rollouts of a state stop when they agree, so that an early run of luck is kept."""
    found: dict[tuple[int, ...], list[float]] = {}
    starts: dict[tuple[int, ...], Start] = {}
    for row in draw.trajectories:
        for number, border in enumerate(row.borders):
            starts[tuple(row.response[:border])] = start_at(row, number)
    wanted = list(starts)
    while wanted:
        count = 1 if found else first
        purpose = f"value {len(found)}"
        groups = draw.sampler.sample(
            [starts[prefix] for prefix in wanted], count, iteration=1, purpose=purpose
        )
        for prefix, group in zip(wanted, groups, strict=True):
            found.setdefault(prefix, []).extend(rollout.reward for rollout in group)
        wanted = [
            p for p, rewards in found.items() if len(set(rewards)) > 1 and len(rewards) < most
        ]
    values = [
        [_mean(found[tuple(row.response[:border])]) for border in row.borders]
        for row in draw.trajectories
    ]
    return from_values(draw, values)


def named_states(draw: Draw) -> Estimate:
    """Reuse by the environment's names."""
    found = monte_carlo_values(draw.sampler, draw.trajectories, 1, iteration=1, named=True)
    fresh = found.metrics["vine/k_fresh"] * found.metrics["vine/states"]
    return from_values(draw, found.values, fresh)


def forgetful_name(tokens: Sequence[int]) -> tuple[int, int]:
    """Names a state by its length and its number of ones: which of them were ones is forgotten."""
    return len(tokens), sum(tokens)


def zero_fill(draw: Draw) -> Estimate:
    """After a cap of one step the advantage is 0: ``cap_fill=zero``, as the paper does."""
    values = monte_carlo_values(draw.sampler, draw.trajectories, 1, iteration=1, max_steps=1).values
    filled = [
        capped_values(numbers, len(row.borders), row.reward)
        for row, numbers in zip(draw.trajectories, values, strict=True)
    ]
    advantages = from_values(draw, filled).advantages
    return Estimate(advantages, values)


def resampled_groups(draw: Draw) -> Estimate:
    """Groups that agree are replaced, and siblings are samples: ``zero_spread=resample``."""
    found = monte_carlo_values(draw.sampler, draw.trajectories, 1, iteration=1)
    values = from_values(draw, found.values)
    return Estimate(values.advantages, values.values, weight=float(not _flat(draw)))


def skipped_groups(draw: Draw) -> Estimate:
    """Groups that agree are not trained on, and siblings are samples: ``zero_spread=skip``."""
    found = monte_carlo_values(draw.sampler, draw.trajectories, 1, iteration=1)
    estimate = from_values(draw, found.values)
    if not _flat(draw):
        return estimate
    return Estimate([0.0 * row for row in estimate.advantages], estimate.values)


def exact_values(draw: Draw) -> Estimate:
    """The truth as values: what is left is the luck of the last token."""
    mdp = draw.mdp
    values = [
        [mdp.value(tuple(row.response[:border])) for border in row.borders]
        for row in draw.trajectories
    ]
    return Estimate([exact_advantages(mdp, row) for row in draw.trajectories], values, 0.0)


def cut_before_ones(tokens: Sequence[int], tokenizer: Any) -> list[int]:
    """Cuts before each 1, so that a border looks at the token that follows it."""
    return [0, *(t for t in range(1, len(tokens)) if tokens[t] == 1)]


def _from_siblings(draw: Draw, others: Callable[[Trajectory, int], list[Trajectory]]) -> Estimate:
    """Values from the other answers that pass through a state; where none does, exact ones."""

    def value(row: Trajectory, border: int) -> float:
        prefix = row.response[:border]
        rewards = [t.reward for t in others(row, border) if t.response[:border] == prefix]
        return _mean(rewards) if rewards else draw.mdp.value(tuple(prefix))

    values = [[value(row, border) for border in row.borders] for row in draw.trajectories]
    return from_values(draw, values)


def _flat(draw: Draw) -> bool:
    return zero_spread_groups(draw.trajectories, len(draw.trajectories))[0]


def _mean(rewards: Sequence[float]) -> float:
    return float(np.mean(rewards))


def _stepwise(row: Trajectory, values: Sequence[float]) -> FloatArray:
    return stepwise_advantages(row.borders, len(row.response), values, row.reward)
