"""VinePPO: PPO whose values come from restoring the environment and rolling out.

    python -m agents.vineppo
    python -m agents.vineppo --env GSM8K-v0 --data FOLDER --model MODEL

Source: Kazemnejad et al., "VinePPO: Refining credit assignment in RL training of LLMs", ICML 2025
(arXiv 2410.01679). No critic: V(s) of the state before each reasoning step is the mean reward of K
continuations of s, and every token of step i has the advantage r_i + V(s_{i+1}) - V(s_i).
``--reuse false`` gives the paper's estimator; by default answers and rollouts that pass through a
state count as samples of its value. With ``--num_rollouts 0`` only answers do.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agents.core.advantages import capped_values, spread_advantages, stepwise_advantages
from agents.core.agent import Advantages, Agent
from agents.core.allocation import VarianceAllocation
from agents.core.command import run_training
from agents.core.config import BaseConfig
from agents.core.named_states import NamedStates
from agents.core.options import option
from agents.core.rollout import Trajectory
from agents.core.values import monte_carlo_values


@dataclass(frozen=True)
class VinePPOConfig(BaseConfig):
    """What VinePPO adds to the options of every agent."""

    num_rollouts: int = option(
        9,
        "Samples of each distinct state's value (K); 0: answers value each other, no rollouts.",
        low=0,
        high=10**6,
        paper="9",
    )
    reuse: bool = option(
        True,
        "Rows that pass through a state are samples of its value too; fresh rollouts only fill up "
        "to K. False: K fresh rollouts of every state.",
        paper="False",
    )
    allocation: Literal["none", "variance"] = option(
        "none",
        "Samples of a state: K each, or K on average and more at the depths where earlier "
        "iterations saw more variance.",
        paper="none",
    )
    state_key: Literal["tokens", "env"] = option(
        "tokens",
        "With reuse, what makes two states the same: their tokens, or the environment's own name "
        "for them (its state_key; biased if that forgets something that matters).",
        paper="tokens",
    )
    max_steps_valued: int | None = option(
        None, "Only the first so many steps get values; none: all.", low=1, paper="25 on GSM8K"
    )
    cap_fill: Literal["spread", "zero"] = option(
        "spread",
        "Advantage after the cap: R - V(cap) for all later tokens, or 0 (biased).",
        paper="zero",
    )
    train_rollouts: bool = option(
        False,
        "Whether the rollouts are trained on too, with values that the other rows give them "
        "(needs reuse): more rows from deeper states.",
        paper="False",
    )
    allow_biased: bool = option(
        False, "Whether zero_spread=skip or resample may go with reuse, which biases the values."
    )

    def __post_init__(self) -> None:
        """Checks every field and those that do not go together; raises ValueError."""
        super().__post_init__()
        if self.reuse and self.zero_spread != "keep" and not self.allow_biased:
            raise ValueError(
                f"zero_spread={self.zero_spread} and reuse=true do not go together: in a group "
                "known to be mixed an answer tells something about the others, whose rewards are "
                "its values. Set zero_spread to keep, reuse to false, or allow_biased to true."
            )
        if self.num_rollouts == 0:
            self._check_no_rollouts()
        if self.train_rollouts and (not self.reuse or self.state_key == "env"):
            raise ValueError(
                "train_rollouts=true goes with reuse=true and state_key=tokens only: a rollout's "
                "values are those of the other rows that pass through the same tokens."
            )
        if self.state_key == "env" and not self.reuse:
            raise ValueError(
                "state_key=env and reuse=False do not go together: without reuse no row serves "
                "another state. Set reuse to true, or state_key to tokens."
            )

    def _check_no_rollouts(self) -> None:
        """Raises ValueError where ``num_rollouts=0`` leaves nothing to make values of."""
        remedies = {
            "reuse=False": (not self.reuse, "reuse to true"),
            "num_generations=1": (self.num_generations == 1, "num_generations to 2 or more"),
            "allocation=variance": (self.allocation == "variance", "allocation to none"),
            "cap_fill=zero": (self.cap_fill == "zero", "cap_fill to spread"),
        }
        for setting, (is_set, remedy) in remedies.items():
            if is_set:
                raise ValueError(
                    f"num_rollouts=0 and {setting} do not go together: without rollouts the "
                    f"answers to a problem value each other. Set {remedy}, or num_rollouts to 1 "
                    "or more."
                )


class VinePPO(Agent):
    """The agent; all that is its own is where the advantages come from."""

    name = "vineppo"
    config: VinePPOConfig

    def __init__(self, config: VinePPOConfig, folder: Path) -> None:
        """Builds what every agent has; warns where the values are biased.

        Raises:
            ValueError: As ``Agent``, and where states have no names.
        """
        super().__init__(config, folder)
        if config.state_key == "env":
            NamedStates(self.env)
        for warning in _biases(config, self.env):
            warnings.warn(warning, stacklevel=2)
        varied = config.allocation == "variance"
        self.allocation = VarianceAllocation(config.num_rollouts) if varied else None

    def memory(self) -> dict[str, Any]:
        """Returns what the allocation of rollouts learned too."""
        more = {} if self.allocation is None else {"allocation": self.allocation.state()}
        return super().memory() | more

    def load_memory(self, memory: Mapping[str, Any]) -> None:
        """Takes over what ``memory`` returned."""
        super().load_memory(memory)
        if self.allocation is not None:
            self.allocation.load_state(memory["allocation"])

    def advantages(
        self,
        trajectories: Sequence[Trajectory],
        iteration: int,
        progress: Callable[[int, int], None],
    ) -> Advantages:
        """Returns step-wise Monte-Carlo advantages (see ``agents/core/values.py``)."""
        estimates = monte_carlo_values(
            self.sampler,
            trajectories,
            self.config.num_rollouts,
            iteration=iteration,
            reuse=self.config.reuse,
            named=self.config.state_key == "env",
            max_steps=self.config.max_steps_valued,
            allocation=self.allocation,
            progress=progress,
        )
        advantages = []
        for trajectory, values in zip(trajectories, estimates.values, strict=True):
            borders, length = trajectory.borders, len(trajectory.response)
            if self.config.cap_fill == "zero":
                filled = capped_values(values, len(borders), trajectory.reward)
                advantages.append(stepwise_advantages(borders, length, filled, trajectory.reward))
            else:
                advantages.append(spread_advantages(borders, length, values, trajectory.reward))
        credit = Advantages(advantages, estimates.metrics, estimates.values)
        if self.config.train_rollouts:
            rollouts, found = estimates.rollouts, estimates.value_rollouts(self.env)
            credit.rollouts.extend(rollouts)
            credit.rollout_tokens.extend(
                spread_advantages(row.borders, len(row.response), values, row.reward)
                for row, values in zip(rollouts, found, strict=True)
            )
        return credit


def _biases(config: VinePPOConfig, env: Any) -> list[str]:
    """Returns what of the settings biases the values or the gradient, a sentence each."""
    found = []
    if config.reuse and config.zero_spread != "keep":
        found.append(
            f"zero_spread={config.zero_spread} with reuse: the values are biased. Set reuse to "
            "false or zero_spread to keep."
        )
    if config.max_steps_valued is not None and config.cap_fill == "zero":
        found.append(
            f"cap_fill=zero: answers of more than {config.max_steps_valued} steps have a biased "
            "gradient, as in the paper's code. Set cap_fill to spread."
        )
    if not getattr(env.segmenter, "causal", True):
        found.append(
            f"segmenter {env.segmenter.name} looks ahead: the gradient is biased, as in the "
            "paper's code. Set segmenter to newline or sentences."
        )
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    about = str(__doc__).split("\n")[0]
    return run_training(VinePPO, VinePPOConfig, tiny="tiny_vineppo", description=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
