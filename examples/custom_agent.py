"""An agent of your own: credit that fades with the distance from the end of the answer.

    python examples/custom_agent.py
    python examples/custom_agent.py --fade 0.9 --seed 1

Everything but the advantage comes from the base class: options, engine, loss, reports, checkpoints.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.core.agent import Advantages, Agent
from agents.core.command import run_training
from agents.core.config import BaseConfig
from agents.core.options import option
from agents.core.rollout import Trajectory


@dataclass(frozen=True)
class FadingConfig(BaseConfig):
    """What this agent adds to the options of every agent."""

    fade: float = option(0.98, "Share of the credit left one token further back.", above=0, high=1)


class Fading(Agent):
    """The answer's reward over its group's mean, less of it for each token before the last."""

    name = "fading"
    needs_states = False  # no advantage here depends on where a step ends
    config: FadingConfig

    def advantages(
        self, trajectories: Sequence[Trajectory], iteration: int, progress: Any
    ) -> Advantages:
        """Returns A_t = fade^(T - 1 - t) * (R - mean of the group)."""
        rewards = np.array([trajectory.reward for trajectory in trajectories])
        groups = rewards.reshape(-1, self.config.num_generations)
        edges = (groups - groups.mean(axis=1, keepdims=True)).ravel()
        lengths = [len(trajectory.response) for trajectory in trajectories]
        tokens = [
            edge * self.config.fade ** np.arange(length - 1, -1, -1.0)
            for edge, length in zip(edges, lengths, strict=True)
        ]
        return Advantages(tokens, {}, [[] for _ in tokens])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    about = str(__doc__).split("\n")[0]
    return run_training(Fading, FadingConfig, tiny="tiny_rloo", description=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
