"""GRPO: each answer's return relative to the other answers of its group.

    python -m agents.grpo
    python -m agents.grpo --env GSM8K-v0 --data FOLDER --model MODEL

Source: Shao et al., "DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language
Models", 2024 (arXiv 2402.03300). The VinePPO paper calls its GRPO a straightforward modification of
PPO; so is this one: PPO's loss, other advantages. The variants are switches:

    Dr. GRPO   --scale_rewards none --aggregation sum_constant
    DAPO       --epsilon_high 0.28 --truncated_answers mask --zero_spread resample --beta 0
               --overlong_buffer_len N, a fifth of --max_new_tokens in its paper
    restarts   --restart inner: groups go on from states inside answers (agents/core/restarts.py)
    GSPO       --ratio_level sequence --aggregation sequence_mean --epsilon 3e-4 --epsilon_high 4e-4
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from agents.core.advantages import grpo_advantages
from agents.core.agent import Advantages, Agent
from agents.core.command import run_training
from agents.core.config import BaseConfig
from agents.core.credit import group_returns
from agents.core.loss_config import SHARED_ADVANTAGE
from agents.core.options import option
from agents.core.restarts import restarted_groups
from agents.core.rollout import Trajectory


@dataclass(frozen=True)
class GRPOConfig(BaseConfig):
    """What GRPO adds to the options of every agent, and its own defaults."""

    scale_rewards: Literal["group", "batch", "none"] = option(
        "group", "Advantages over the deviation of the group, of the batch, or none (Dr. GRPO)."
    )
    restart: Literal["none", "inner"] = option(
        "none",
        "Where groups start: at the prompt, or at a step border, drawn uniformly, of an answer "
        "that is sampled first and not trained on.",
    )
    num_generations: int = option(8, "Answers per problem.", low=2, paper="8")
    beta: float = option(3e-3, "Coefficient of the KL to the reference.", low=0, paper="3e-3")
    whiten: Literal["none", "std", "mean_std"] = option(
        "none", "Advantages as they are, to deviation 1, or to mean 0 too."
    )

    def __post_init__(self) -> None:
        """Checks every field and those that do not go together; raises ValueError."""
        super().__post_init__()
        if self.restart == "inner" and self.zero_spread == "resample":
            raise ValueError(
                "restart=inner and zero_spread=resample do not go together: other problems would "
                "need first answers of their own. Set zero_spread to keep or skip."
            )


class GRPO(Agent):
    """The agent; all that is its own is where the advantages come from."""

    name = "grpo"
    supports = SHARED_ADVANTAGE
    needs_states = False
    config: GRPOConfig

    def collect(self, iteration: int, progress: Callable[[int, int], None]) -> list[Trajectory]:
        """Samples the iteration's answers, from the prompts or from states inside answers."""
        if self.config.restart == "none":
            return super().collect(iteration, progress)
        groups, self.collected = restarted_groups(
            self.sampler, self.cursor, self.config, iteration, progress
        )
        return [trajectory for group in groups for trajectory in group]

    def advantages(
        self,
        trajectories: Sequence[Trajectory],
        iteration: int,
        progress: Callable[[int, int], None],
    ) -> Advantages:
        """Returns group-relative advantages, the same for all tokens of an answer."""
        rewards, metrics = self.token_rewards(trajectories)
        returns = group_returns(rewards, self.config.num_generations)
        advantages = grpo_advantages(returns, self.config.scale_rewards)
        return Advantages.of_answers(advantages, trajectories, metrics)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    about = str(__doc__).split("\n")[0]
    return run_training(GRPO, GRPOConfig, tiny="tiny_grpo", description=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
