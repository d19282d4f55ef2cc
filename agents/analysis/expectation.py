"""Bias and variance of an estimator of advantages, exactly: a sum over all that can happen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agents.analysis.choices import Chooser, Path, outcomes
from agents.analysis.exact import FloatArray, Lump, TableEngine, TableEnv, TableMDP, Tokens
from agents.core.advantages import stepwise_advantages
from agents.core.rollout import Sampler, Trajectory, mark_states, start_of


@dataclass(frozen=True, slots=True)
class Draw:
    """What an estimator is given.

    Attributes:
        mdp: The truth, for what an estimator is to know exactly.
        sampler: For rollouts from the states of the answers.
        trajectories: The answers of one group, cut into steps.
    """

    mdp: TableMDP
    sampler: Sampler
    trajectories: list[Trajectory]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an estimator makes of it.

    Attributes:
        advantages: Of each token of each answer, each [T].
        values: Of the borders of each answer, as far as they are estimated.
        fresh: Rollouts that were drawn for it.
        weight: The outcome counts as often as this; for groups that are thrown away.
    """

    advantages: list[FloatArray]
    values: list[list[float]] = field(default_factory=list)
    fresh: float = 0.0
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Expectation:
    """What comes out on average; see ``expectation``.

    Attributes:
        outcomes: How many there are.
        value_bias: Largest error of the mean value of a state, over states that have one.
        value_bias_given_answer: The same, given the whole answer that the value is for: an
            answer's own luck must not be in its values.
        gradient_bias: Largest error of an entry of the mean policy gradient.
        cosine: Between the mean gradient and the true one.
        advantage_variance: Mean square of what separates a token's advantage from the one that
            exact values give, mean over tokens.
        gradient_variance: Trace of the covariance of the group's gradient, times its answers.
        fresh: Rollouts an answer.
    """

    outcomes: int
    value_bias: float
    value_bias_given_answer: float
    gradient_bias: float
    cosine: float
    advantage_variance: float
    gradient_variance: float
    fresh: float


def expectation(
    mdp: TableMDP,
    estimate: Callable[[Draw], Estimate],
    *,
    group: int = 2,
    segmenter: Callable[[Sequence[int], Any], list[int]] | None = None,
    texts: Sequence[str] = "",
    state_key: Callable[[Sequence[int]], Hashable | None] | None = None,
    lump: Lump = "order",
) -> Expectation:
    """Runs an estimator on everything that can happen to a group of answers.

    Args:
        mdp: The tables.
        estimate: The estimator; must not depend on the order of the answers or rollouts.
        group: Answers to the prompt.
        segmenter: Cuts answers into steps; None: every token is a step.
        texts: Texts of the ids, for the segmenter.
        state_key: Names states, for estimators that use it.
        lump: Of rollouts, see ``TableEngine``.

    >>> from agents.analysis.exact import two_token_mdp
    >>> def constant(draw):
    ...     return Estimate([np.full(3, row.reward - 0.5) for row in draw.trajectories])
    >>> found = expectation(two_token_mdp(), constant, group=1)
    >>> found.gradient_bias < 1e-15, round(found.cosine, 9)
    (True, 1.0)
    """
    env = TableEnv(mdp, segmenter, texts, state_key)
    by_state: defaultdict[Any, FloatArray] = defaultdict(lambda: np.zeros(2))
    by_answer: defaultdict[Any, FloatArray] = defaultdict(lambda: np.zeros(2))

    def program(chooser: Path) -> tuple[Draw, Estimate]:
        return play(env, estimate, chooser, group=group, lump=lump)

    count = 0
    total = noise = fresh = 0.0
    mean, second = np.zeros(len(mdp.gradient)), np.zeros(len(mdp.gradient))
    for chance, (draw, found) in outcomes(program):
        weight = chance * found.weight
        gradient = gradient_of(draw, found)
        count += 1
        total += weight
        mean += weight * gradient
        second += weight * gradient**2
        noise += weight * _error(draw, found)
        fresh += weight * found.fresh / group
        for row, values in zip(draw.trajectories, found.values, strict=bool(found.values)):
            answer = tuple(row.response)
            for border, value in zip(row.borders, values, strict=False):
                entry = np.array([weight, weight * value])
                by_state[answer[:border]] += entry
                by_answer[answer, answer[:border]] += entry
    mean, second = mean / total, second / total
    length = float(np.linalg.norm(mean) * np.linalg.norm(mdp.gradient))
    return Expectation(
        count,
        _bias(mdp, [(sums, state) for state, sums in by_state.items()]),
        _bias(mdp, [(sums, state) for (_, state), sums in by_answer.items()]),
        float(np.abs(mean - mdp.gradient).max()),
        float(mean @ mdp.gradient) / length if length else 0.0,
        noise / total,
        float((second - mean**2).sum()) * group,
        fresh / total,
    )


def play(
    env: TableEnv,
    estimate: Callable[[Draw], Estimate],
    chooser: Chooser,
    *,
    group: int = 2,
    lump: Lump = "order",
) -> tuple[Draw, Estimate]:
    """Samples a group of answers and runs an estimator on it, by the choices of ``chooser``."""
    engine = TableEngine(env.mdp, chooser, "order")
    sampler = Sampler(engine, env, 0, 1.0)
    rows = sampler.sample([start_of(env, 0)], group, iteration=1, purpose="rollout")[0]
    for row in rows:
        mark_states(env, row)
    engine.lump = lump
    draw = Draw(env.mdp, sampler, rows)
    return draw, estimate(draw)


def gradient_of(draw: Draw, found: Estimate) -> FloatArray:
    """Returns the policy gradient of a group, mean over its answers, [parameters]."""
    total = np.zeros(len(draw.mdp.gradient))
    for row, advantages in zip(draw.trajectories, found.advantages, strict=True):
        total += advantages @ draw.mdp.scores(tuple(row.response))
    return total / len(draw.trajectories)


def exact_advantages(mdp: TableMDP, row: Trajectory) -> FloatArray:
    """Returns an answer's step-wise advantages from the exact values of its borders, [T]."""
    answer = tuple(row.response)
    values = [mdp.value(answer[:border]) for border in row.borders]
    return stepwise_advantages(row.borders, len(answer), values, row.reward)


def _error(draw: Draw, found: Estimate) -> float:
    """Returns the mean square of what separates advantages from the exact ones."""
    pairs = zip(draw.trajectories, found.advantages, strict=True)
    return float(np.mean([np.mean((a - exact_advantages(draw.mdp, t)) ** 2) for t, a in pairs]))


def _bias(mdp: TableMDP, entries: Sequence[tuple[FloatArray, Tokens]]) -> float:
    """Returns the largest error of a mean value; nan where no state has one."""
    errors = [
        float(abs(sums[1] / sums[0] - mdp.value(state))) for sums, state in entries if sums[0] > 0
    ]
    return max(errors, default=float("nan"))
