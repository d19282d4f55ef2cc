"""RestEM: sample, keep what is right, fine-tune the start on it, and again.

    python -m agents.restem
    python -m agents.restem --env GSM8K-v0 --data FOLDER --model MODEL --num_prompts 7100

Source: Singh et al., "Beyond Human Data: Scaling Self-Training for Problem-Solving with Language
Models", 2023 (arXiv 2312.06585), as the VinePPO paper uses it: in each iteration the newest policy
answers the problems, wrong answers are thrown away, and the policy before all training is
fine-tuned on the right ones, by the negative log-likelihood of an answer's mean token. The best
iteration by the evaluations during training is ``checkpoints/best``. (The authors' code also
chooses among the passes over the answers; here an iteration ends with its last pass.
And it keeps a right answer as often as it was sampled; here once.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from agents.core.agent import Advantages, Agent
from agents.core.command import run_training
from agents.core.config import BaseConfig
from agents.core.objective import Batch, Constants, Objective
from agents.core.optimizer import make_optimizer
from agents.core.options import option
from agents.core.policy import Policy
from agents.core.rollout import Trajectory
from agents.core.update import Updater
from agents.core.update_log import Pending


@dataclass(frozen=True)
class RestEMConfig(BaseConfig):
    """What RestEM adds to the options of every agent, and its own defaults."""

    max_kept: int = option(10, "Right answers to a problem that are kept.", low=1, paper="10")
    iterations: int = option(10, "Rounds of sampling and fine-tuning.", low=1, paper="10")
    updates_per_batch: int = option(8, "Passes over the right answers.", low=1, paper="8")
    eval_every: int = option(1, "Iterations between evaluations; 0: none.", low=0, paper="1")
    beta: float = option(0.0, "Coefficient of the KL to the reference.", low=0, paper="0")
    aggregation: Literal["token_mean", "sequence_mean", "sum_constant"] = option(
        "sequence_mean", "Mean over answers of their token means, or over all tokens.",
        paper="sequence_mean",
    )  # fmt: skip
    whiten: Literal["none", "std", "mean_std"] = option("none", "Nothing to whiten: set none.")
    max_ratio: float | None = option(None, "Without meaning here: set none.", above=1)
    max_logprob_gap: float | None = option(None, "Without meaning here: set none.", above=0)

    def __post_init__(self) -> None:
        """Checks every field, and that no switch asks for what fine-tuning has not."""
        super().__post_init__()
        needed = {"beta": 0.0, "whiten": "none", "max_ratio": None, "max_logprob_gap": None}
        needed |= {"zero_spread": "keep", "target_kl": None, "importance_sampling_cap": None}
        for name, value in needed.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name}={getattr(self, name)} does not go with restem, which imitates right "
                    f"answers. Set {name} to {'none' if value is None else value}."
                )


class FineTuner(Updater):
    """Fine-tunes the policy as it was before all training, with a new optimizer each time.

    The ratio of the policy loss is held at 1, so that with advantages of 1 its gradient is that of
    the negative log-likelihood.
    """

    def __init__(self, policy: Policy, config: BaseConfig, budget: int | None) -> None:
        """Remembers the weights to begin from each time."""
        super().__init__(policy, None, config, budget=budget)
        self._base = {name: t.detach().clone() for name, t in policy.model.state_dict().items()}
        self._steps = 1

    def state(self) -> dict[str, Any]:
        """Returns what ``Updater`` does, and over how many steps the schedule runs."""
        return super().state() | {"steps": self._steps}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        self._renew(int(state["steps"]))
        super().load_state(state)

    def _renew(self, steps: int) -> None:
        self._steps = max(1, steps)
        self.optimizer, self.scheduler = make_optimizer(self.policy, self.config, self._steps)

    def _accumulate(self, batch: Batch, rows: list[int], pending: Pending) -> Objective:
        for row in rows:  # what another process, or this one, saw of them in an earlier pass
            pending.seen[row] = None
        return super()._accumulate(batch, rows, pending)

    def _begin(self, batch: Batch, rows: list[int], steps: int) -> Pending:
        self.policy.model.load_state_dict(self._base)
        self._renew(steps)
        return Pending(Constants(batch.advantages, None, None, None), [None] * len(batch))


class RestEM(Agent):
    """The agent; all that is its own is which answers are imitated, and from what start."""

    name = "restem"
    needs_states = False
    config: RestEMConfig

    def make_updater(self, reference: Policy | None) -> Updater:
        """Returns what fine-tunes the start."""
        return FineTuner(self.policy, self.config, getattr(self.env, "max_new_tokens", None))

    def advantages(
        self,
        trajectories: Sequence[Trajectory],
        iteration: int,
        progress: Callable[[int, int], None],
    ) -> Advantages:
        """Returns 1 for the answers that are kept, and 0 for the others."""
        kept = kept_answers(
            [trajectory.reward for trajectory in trajectories],
            [trajectory.response for trajectory in trajectories],
            self.config.num_generations,
            self.config.max_kept,
        )
        groups = np.array(kept).reshape(-1, self.config.num_generations)
        metrics = {
            "restem/kept": float(groups.sum()),
            "restem/solved_problems": float(groups.any(axis=1).mean()),
        }
        return Advantages.of_answers(np.array(kept, dtype=np.float64), trajectories, metrics)

    def update(
        self,
        batch: Batch,
        iteration: int,
        progress: Callable[[int, int], None],
        stop: Callable[[], bool],
    ) -> dict[str, float]:
        """Fine-tunes the start on the answers that are kept."""
        keep = [bool(advantages[0] > 0) for advantages in batch.advantages]
        metrics = super().update(replace(batch, in_policy_loss=keep), iteration, progress, stop)
        pending = self.updater.pending
        seen = [] if pending is None else [row for row in pending.seen if row is not None]
        if seen:
            metrics["loss"] = float(np.mean([-row.mean() for row in seen]))
        gap = "sampling/"  # to a policy that is gone
        return {key: value for key, value in metrics.items() if not key.startswith(gap)}


def kept_answers(
    rewards: Sequence[float], responses: Sequence[Sequence[int]], group: int, most: int
) -> list[bool]:
    """Returns which answers are imitated: right ones, each text once, the first of each problem.

    Args:
        rewards: Of each answer; right ones have more than 0.
        responses: Their tokens.
        group: Answers a problem, which stand together.
        most: Answers a problem that are kept.

    >>> kept_answers([1, 1, 0, 1], [[5], [5], [6], [7]], group=4, most=2)
    [True, False, False, True]
    >>> kept_answers([1, 1, 0, 1], [[5], [8], [6], [7]], group=4, most=2)
    [True, True, False, False]
    """
    kept = []
    for start in range(0, len(rewards), group):
        seen: set[tuple[int, ...]] = set()
        for place in range(start, start + group):
            text = tuple(responses[place])
            keep = rewards[place] > 0 and text not in seen and len(seen) < most
            kept.append(keep)
            if keep:
                seen.add(text)
    return kept


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    about = str(__doc__).split("\n")[0]
    return run_training(RestEM, RestEMConfig, tiny="tiny_restem", description=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
