"""A critic for a policy that stays as it is: what PPO's baseline could be at best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from agents.core.config import BaseConfig
from agents.core.critic import Critic, CriticConfig, CriticTrainer, explained_variance
from agents.core.objective import Batch
from agents.core.policy import Policy
from agents.core.rollout import Trajectory
from agents.core.streams import generator


class CriticSizes(Protocol):
    """The options that are read; ``GradientConfig`` has them."""

    @property
    def num_prompts(self) -> int:
        """Problems a batch."""
        ...

    @property
    def num_generations(self) -> int:
        """Answers a problem."""
        ...

    @property
    def critic_learning_rate(self) -> float:
        """Peak learning rate."""
        ...

    @property
    def micro_batch_size(self) -> int:
        """Answers a pass."""
        ...

    @property
    def seed(self) -> int:
        """Of the head's weights and of the order of answers."""
        ...


def trainer_of(
    critic: Critic, config: CriticSizes, *, temperature: float, iterations: int = 1
) -> CriticTrainer:
    """Returns what asks a critic for values, and trains it.

    Args:
        critic: Loaded or new.
        config: Sizes and learning rate.
        temperature: Of sampling.
        iterations: How many it is to be trained for.
    """
    options = CriticConfig(critic_learning_rate=config.critic_learning_rate)
    settings = BaseConfig(
        iterations=iterations,
        num_prompts=config.num_prompts,
        num_generations=config.num_generations,
        minibatch_size=config.num_prompts * config.num_generations,
        micro_batch_size=config.micro_batch_size,
        updates_per_batch=2,
        temperature=temperature,
        warmup_ratio=0.1,
        adam_beta2=0.99,
    )
    return CriticTrainer(critic, settings, options)


def fit_critic(
    policy: Policy,
    collect: Callable[[int], list[Trajectory]],
    iterations: Sequence[int],
    *,
    config: CriticSizes,
    temperature: float,
) -> tuple[CriticTrainer, float]:
    """Trains a critic of its own on the answers of a policy that does not change.

    As PPO does in its warm-up: two passes over each batch, targets are the returns of the answers
    (gamma = lambda = 1).

    Args:
        policy: Whose trunk is copied.
        collect: Returns the answers of an iteration.
        iterations: Whose answers are learned from.
        config: Sizes and learning rate.
        temperature: Of sampling.

    Returns:
        The critic, and how much of the returns of answers that it had not seen yet it explained in
        the last quarter of the iterations.
    """
    trainer = trainer_of(
        Critic.apart(policy, config.seed),
        config,
        temperature=temperature,
        iterations=len(iterations),
    )
    explained = []
    for iteration in iterations:
        answers = collect(iteration)
        batch = Batch(
            [answer.start.tokens for answer in answers],
            [answer.response for answer in answers],
            [],
            [],
            returns=[np.full(len(answer.response), answer.reward) for answer in answers],
        )
        batch.values = trainer.values(batch)
        explained.append(explained_variance(batch.values, batch.returns))
        trainer.update(batch, generator(config.seed, iteration, "critic"))
    return trainer, float(np.mean(explained[-max(1, len(explained) // 4) :]))
