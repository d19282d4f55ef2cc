"""RLOO: each answer's baseline is the mean return of the other answers to its prompt.

    python -m agents.rloo
    python -m agents.rloo --env GSM8K-v0 --data FOLDER --model MODEL

Source: Ahmadian et al., "Back to Basics: Revisiting REINFORCE-Style Optimization for Learning from
Human Feedback in LLMs", 2024 (arXiv 2402.14740). An answer is one action: one ratio for all its
tokens, the KL in its return, every answer with the same weight, as in TRL's trainer, which the
VinePPO paper follows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from agents.core.advantages import rloo_advantages
from agents.core.agent import Advantages, Agent
from agents.core.command import run_training
from agents.core.config import BaseConfig
from agents.core.credit import group_returns
from agents.core.loss_config import SHARED_ADVANTAGE
from agents.core.options import option
from agents.core.rollout import Trajectory


@dataclass(frozen=True)
class RLOOConfig(BaseConfig):
    """The options of every agent with RLOO's defaults."""

    num_generations: int = option(8, "Answers per problem.", low=2, paper="8")
    ratio_level: Literal["token", "sequence", "product"] = option(
        "product",
        "Ratio of each token, their geometric mean over the answer (GSPO), or their product.",
        paper="product",
        aliases=("importance_sampling_level",),
    )
    aggregation: Literal["token_mean", "sequence_mean", "sum_constant"] = option(
        "sequence_mean",
        "Policy loss: mean over the minibatch's tokens; mean over answers of their token means; "
        "sum over answers * token budget (Dr. GRPO).",
        paper="sequence_mean",
    )
    beta: float = option(3e-3, "Coefficient of the KL to the reference.", low=0, paper="3e-3")
    kl_in: Literal["loss", "reward"] = option(
        "reward", "Whether the KL is part of the loss or of each token's reward.", paper="reward"
    )
    kl_estimator: Literal["k1", "k2", "k3", "full"] = option(
        "k1", "Estimate of the KL at a token; full: exact, over all ids.", paper="k1"
    )
    kl_clamp: float | None = option(
        None, "Largest size of the KL at a token, nats; none: no limit.", above=0
    )
    whiten: Literal["none", "std", "mean_std"] = option(
        "none", "Advantages as they are, to deviation 1, or to mean 0 too.", paper="none"
    )


class RLOO(Agent):
    """The agent; all that is its own is where the advantages come from."""

    name = "rloo"
    supports = SHARED_ADVANTAGE
    needs_states = False
    config: RLOOConfig

    def advantages(
        self,
        trajectories: Sequence[Trajectory],
        iteration: int,
        progress: Callable[[int, int], None],
    ) -> Advantages:
        """Returns leave-one-out advantages, the same for all tokens of an answer."""
        rewards, metrics = self.token_rewards(trajectories)
        returns = group_returns(rewards, self.config.num_generations)
        return Advantages.of_answers(rloo_advantages(returns), trajectories, metrics)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    about = str(__doc__).split("\n")[0]
    return run_training(RLOO, RLOOConfig, tiny="tiny_rloo", description=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
