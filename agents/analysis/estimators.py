"""Estimators of a token's advantage by name, as the agents compute them.

``rloo``, ``grpo``, ``paper:K`` (VinePPO, K fresh rollouts of every distinct state), ``reuse:K``
(VinePPO with reuse, K samples a state; K = 0: no rollouts) and ``ppo`` (a critic and generalised
advantage estimates).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from agents.core.advantages import (
    FloatArray,
    gae_advantages,
    grpo_advantages,
    rloo_advantages,
    spread_advantages,
)
from agents.core.objective import Batch
from agents.core.rollout import Sampler, Trajectory
from agents.core.values import monte_carlo_values
from graders.resolve import nearest

GROUP = ("rloo", "grpo")
ROLLOUTS = ("paper", "reuse")


@dataclass(frozen=True, slots=True)
class Credit:
    """What an estimator says of a batch of answers.

    Attributes:
        advantages: Of each token, each [T_i].
        tokens: How many tokens it generated beside the answers.
    """

    advantages: list[FloatArray]
    tokens: int = 0


class CriticValues(Protocol):
    """A critic, as ``agents.core.critic.CriticTrainer``."""

    def values(self, batch: Batch) -> list[FloatArray]:
        """Returns V before each token of every answer, each [T_i]."""
        ...


Maker = Callable[[Sampler, Sequence[Trajectory], int, int], Credit]


@dataclass(frozen=True)
class Estimator:
    """An estimator of advantages.

    Attributes:
        name: As on the command line.
        unbiased: Whether its policy gradient is (on-policy, causal steps).
        credit: Called with (sampler, answers with states, answers a prompt, iteration).
        samples: K, where it has one.
    """

    name: str
    unbiased: bool
    credit: Maker = field(repr=False)
    samples: int | None = None

    @property
    def values_states(self) -> bool:
        """Whether it needs the states at the borders of steps."""
        return self.samples is not None

    @property
    def training_passes(self) -> int:
        """Training passes an iteration: a critic of the policy's size has its own."""
        return 2 if self.name == "ppo" else 1

    @property
    def label(self) -> str:
        """How a figure calls it.

        >>> estimator_of("paper:9").label, estimator_of("rloo").label
        ('VinePPO paper, K=9', 'RLOO')
        """
        kind = self.name.partition(":")[0]
        if self.samples is not None:
            return f"VinePPO {kind}, K={self.samples}"
        return self.name.upper()


def estimator_of(
    name: str, *, critic: CriticValues | None = None, gae_lambda: float = 1.0
) -> Estimator:
    """Returns an estimator by name.

    Args:
        name: See the top of the file.
        critic: For "ppo".
        gae_lambda: For "ppo"; biased below 1, as far as the critic is wrong.

    Raises:
        ValueError: Unknown name, a K that is no whole number >= 1 (>= 0 for reuse), or "ppo"
            without a critic.

    >>> estimator_of("paper:0")
    Traceback (most recent call last):
        ...
    ValueError: K must be a whole number >= 1, got '0' in 'paper:0' (paper: 9)
    """
    kind, colon, samples = name.partition(":")
    if kind in ROLLOUTS and colon:
        least = 0 if kind == "reuse" else 1
        if not samples.isdecimal() or int(samples) < least:
            raise ValueError(
                f"K must be a whole number >= {least}, got {samples!r} in {name!r} (paper: 9)"
            )
        return Estimator(name, True, _rollouts(int(samples), kind == "reuse"), int(samples))
    if name in GROUP:
        return Estimator(name, name == "rloo", _group(name))
    if name == "ppo" and critic is not None:
        return Estimator(name, gae_lambda == 1.0, _critic(critic, gae_lambda))
    if name == "ppo":
        raise ValueError(
            "ppo needs a critic. Pass a PPO run, or --critic_problems 1024 to train one."
        )
    known = [*GROUP, "ppo", *(f"{kind}:K" for kind in ROLLOUTS)]
    raise ValueError(f"unknown estimator {name!r}.{nearest(name, known)} Known: {', '.join(known)}")


def _group(name: str) -> Maker:
    def credit(
        sampler: Sampler, trajectories: Sequence[Trajectory], group: int, iteration: int
    ) -> Credit:
        returns = np.array([trajectory.reward for trajectory in trajectories]).reshape(-1, group)
        numbers = rloo_advantages(returns) if name == "rloo" else grpo_advantages(returns)
        pairs = zip(numbers.ravel(), trajectories, strict=True)
        return Credit([np.full(len(trajectory.response), number) for number, trajectory in pairs])

    return credit


def _rollouts(samples: int, reuse: bool) -> Maker:
    def credit(
        sampler: Sampler, trajectories: Sequence[Trajectory], group: int, iteration: int
    ) -> Credit:
        estimates = monte_carlo_values(
            sampler, trajectories, samples, iteration=iteration, reuse=reuse
        )
        advantages = [
            spread_advantages(t.borders, len(t.response), values, t.reward)
            for t, values in zip(trajectories, estimates.values, strict=True)
        ]
        return Credit(advantages, int(estimates.metrics["vine/tokens"]))

    return credit


def _critic(critic: CriticValues, gae_lambda: float) -> Maker:
    def credit(
        sampler: Sampler, trajectories: Sequence[Trajectory], group: int, iteration: int
    ) -> Credit:
        rewards = [np.zeros(len(trajectory.response)) for trajectory in trajectories]
        for row, trajectory in zip(rewards, trajectories, strict=True):
            row[-1] = trajectory.reward
        batch = Batch(
            [trajectory.start.tokens for trajectory in trajectories],
            [trajectory.response for trajectory in trajectories],
            [],
            [],
        )
        ends = [0.0] * len(trajectories)
        return Credit(gae_advantages(rewards, critic.values(batch), ends, gae_lambda=gae_lambda)[0])

    return credit
