"""PPO with a critic: generalised advantage estimates of every token.

    python -m agents.ppo
    python -m agents.ppo --env GSM8K-v0 --data FOLDER --model MODEL

Source: Schulman et al., "Proximal Policy Optimization Algorithms", 2017 (arXiv 1707.06347), with
the VinePPO paper's settings: gamma = lambda = 1, the reward on the last token, a critic that starts
as a copy of the policy. ``--critic shared`` puts the head on the policy's own trunk; ``--critic
constant`` is REINFORCE with a fixed baseline.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import nn

from agents.core.advantages import FloatArray, gae_advantages
from agents.core.agent import Advantages, Agent
from agents.core.command import run_training
from agents.core.config import BaseConfig
from agents.core.credit import batch_of
from agents.core.critic import (
    CRITIC,
    Critic,
    CriticConfig,
    CriticTrainer,
    ValueHead,
    explained_variance,
)
from agents.core.objective import Batch, ValueTerm
from agents.core.policy import Policy
from agents.core.rollout import Trajectory
from agents.core.streams import generator
from agents.core.update import Updater
from agents.core.update_log import TrainerState


@dataclass(frozen=True)
class PPOConfig(CriticConfig, BaseConfig):
    """The options of every agent and those of a critic."""


class PPO(Agent):
    """The agent; its own are the advantages and the critic's training."""

    name = "ppo"
    supports = frozenset({"kl_in=reward", "truncated_answers=bootstrap"})
    needs_states = False
    config: PPOConfig

    def __init__(self, config: PPOConfig, folder: Path) -> None:
        """Builds what every agent has, and the critic."""
        super().__init__(config, folder)
        self.critic: CriticTrainer | None = None
        value = self.updater.value
        if config.critic == "separate":
            self.critic = CriticTrainer(Critic.apart(self.policy, config.seed), config, config)
        elif value is not None:
            critic = Critic(self.policy.model.base_model, value.head, frozen_trunk=True)
            self.critic = CriticTrainer(critic, config, config)

    def make_updater(self, reference: Policy | None) -> Updater:
        """Returns what trains the policy, and the critic's head where it shares the trunk."""
        config = self.config
        if config.critic != "shared":
            return super().make_updater(reference)
        head = ValueHead(self.policy.model, config.seed)
        return Updater(
            self.policy,
            reference,
            config,
            budget=getattr(self.env, "max_new_tokens", None),
            value=ValueTerm(head, config.vf_coef, config.cliprange_value),
            value_learning_rate=config.critic_learning_rate,
        )

    def trained_beside(self) -> dict[str, nn.Module]:
        """Returns the critic, or its head where it shares the trunk."""
        return {} if self.critic is None else {CRITIC: self.critic.critic.trained()}

    def trainers(self) -> dict[str, TrainerState]:
        """Returns policy and critic."""
        return super().trainers() | ({} if self.critic is None else {"critic": self.critic})

    def advantages(
        self,
        trajectories: Sequence[Trajectory],
        iteration: int,
        progress: Callable[[int, int], None],
    ) -> Advantages:
        """Returns generalised advantage estimates and what the critic is to learn."""
        rewards, metrics = self.token_rewards(trajectories)
        values, last_values = self._values(trajectories)
        advantages, returns = gae_advantages(
            rewards,
            values,
            last_values,
            gamma=self.config.gamma,
            gae_lambda=self.config.gae_lambda,
        )
        metrics["critic/explained_variance"] = explained_variance(values, returns)
        metrics["critic/value_mean"] = float(np.concatenate(values).mean())
        return Advantages(advantages, metrics, [[] for _ in values], returns, values)

    def update(
        self,
        batch: Batch,
        iteration: int,
        progress: Callable[[int, int], None],
        stop: Callable[[], bool],
    ) -> dict[str, float]:
        """Trains the critic, and after its warm-up the policy."""
        metrics: dict[str, float] = {}
        warm_up = self.critic is not None and iteration <= self.config.critic_warmup
        if self.critic is not None and (warm_up or self.config.critic == "separate"):
            rng = generator(self.config.seed, iteration, "critic")
            metrics = self.critic.update(batch, rng, stop)
        if warm_up:
            return metrics | {"updates": 0.0}
        return metrics | super().update(batch, iteration, progress, stop)

    def _values(self, trajectories: Sequence[Trajectory]) -> tuple[list[FloatArray], list[float]]:
        """Returns V before each token, each [T_i], and V after the last one."""
        if self.config.critic == "constant":
            constant = self.config.critic_constant
            return [np.full(len(t.response), constant) for t in trajectories], [0.0] * len(
                trajectories
            )
        bootstrap = self.config.truncated_answers == "bootstrap"
        # The state after the last token is the one before a token appended to it.
        extended = [[*t.response, 0] if bootstrap and t.truncated else t.response
                    for t in trajectories]  # fmt: skip
        batch = replace(batch_of(trajectories, [], self.config), responses=extended)
        assert self.critic is not None
        said = self.critic.values(batch)
        lengths = [len(t.response) for t in trajectories]
        last = [
            float(row[n]) if len(row) > n else 0.0 for row, n in zip(said, lengths, strict=True)
        ]
        return [row[:n] for row, n in zip(said, lengths, strict=True)], last


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    about = str(__doc__).split("\n")[0]
    return run_training(PPO, PPOConfig, tiny="tiny_ppo", description=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
