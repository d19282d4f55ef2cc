"""DPO-Positive: right answers beside wrong ones, without letting right ones become less likely.

    python -m agents.dpo_positive
    python -m agents.dpo_positive --env GSM8K-v0 --data FOLDER --model MODEL --num_prompts 7100

Source: Pal et al., "Smaug: Fixing Failure Modes of Preference Optimisation with DPO-Positive", 2024
(arXiv 2402.13228), eq. 3, as the VinePPO paper uses it: answers of the policy are paired, right
with wrong, and the loss is that of DPO with a penalty where the right answer is less likely than
under the reference. One iteration is the paper's offline training; more sample anew with the policy
of then, against the same reference.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from agents.core.advantages import FloatArray
from agents.core.agent import Advantages, Agent
from agents.core.command import run_training
from agents.core.config import BaseConfig
from agents.core.distributed import all_sum, minibatches, own_share, sum_gradients
from agents.core.losses import masked_sum
from agents.core.objective import Batch, Constants
from agents.core.options import option
from agents.core.policy import Policy
from agents.core.rollout import Trajectory
from agents.core.streams import generator
from agents.core.update import Progress, Updater
from agents.core.update_log import Pending

Pair = tuple[int, int]
"""Places of a right and of a wrong answer to one problem."""


@dataclass(frozen=True)
class DPOPositiveConfig(BaseConfig):
    """What DPO-Positive adds to the options of every agent, and its own defaults."""

    dpop_lambda: float = option(
        50.0, "Weight of the penalty on right answers that become less likely.", low=0, paper="50"
    )
    max_pairs: int = option(64, "Pairs of a problem that are trained on.", low=1, paper="64")
    beta: float = option(
        0.3, "Scale of the log-ratios.", above=0, paper="0.3 on GSM8K, 0.1 on MATH"
    )
    iterations: int = option(1, "Rounds of sampling and training.", low=1, paper="1")
    num_generations: int = option(64, "Answers per problem.", low=2, paper="64")
    updates_per_batch: int = option(3, "Passes over the pairs.", low=1, paper="3")
    minibatch_size: int = option(64, "Pairs per optimiser step.", low=1, paper="64")
    whiten: Literal["none", "std", "mean_std"] = option("none", "Nothing to whiten: set none.")
    max_ratio: float | None = option(None, "Without meaning here: set none.", above=1)

    def __post_init__(self) -> None:
        """Checks every field, and that no switch asks for what pairs have not."""
        super().__post_init__()
        needed: dict[str, object] = {
            "whiten": "none",
            "max_ratio": None,
            "kl_in": "loss",
            "zero_spread": "keep",
        }
        needed |= {"zero_spread": "keep", "target_kl": None, "importance_sampling_cap": None}
        needed["entropy_coef"] = 0.0
        for name, value in needed.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name}={getattr(self, name)} does not go with dpo_positive, whose loss is of "
                    f"pairs. Set {name} to {'none' if value is None else value}."
                )


def dpo_positive_loss(
    right: Tensor, wrong: Tensor, right_reference: Tensor, wrong_reference: Tensor,
    beta: float, weight: float,
) -> Tensor:  # fmt: skip
    """Returns the loss of each pair, [P].

    -log sigmoid(beta * (D - weight * max(0, log pi_ref(right) - log pi(right)))), where D is the
    log-ratio of the right answer less that of the wrong one; ``weight`` 0 is DPO.

    Args:
        right: Log-probability of each right answer, summed over its tokens, [P].
        wrong: Of each wrong one, [P].
        right_reference: Of the right ones under the reference, [P].
        wrong_reference: Of the wrong ones, [P].
        beta: Scale.
        weight: Of the penalty (lambda).

    >>> pair = [torch.tensor([x]) for x in (-2.0, -3.0, -1.0, -3.0)]
    >>> round(float(dpo_positive_loss(*pair, beta=0.5, weight=2.0)), 4)  # softplus(0.5 * 3)
    1.7014
    """
    drop = right_reference - right
    margin = -drop - (wrong - wrong_reference)
    return -logsigmoid(beta * (margin - weight * drop.clamp(min=0)))


def pairs_of(
    rewards: Sequence[float], group: int, most: int, rng: np.random.Generator
) -> list[Pair]:
    """Returns right answers beside wrong ones, every pair of a problem or ``most`` drawn ones.

    Args:
        rewards: Of each answer; right ones have more than 0.
        group: Answers a problem, which stand together.
        most: Pairs a problem.
        rng: Draws where there are more.

    >>> pairs_of([1, 0, 0, 1, 1, 1], 3, 8, np.random.default_rng(0))
    [(0, 1), (0, 2)]
    """
    found: list[Pair] = []
    for start in range(0, len(rewards), group):
        places = range(start, start + group)
        right = [place for place in places if rewards[place] > 0]
        pairs = [(r, w) for r in right for w in places if rewards[w] <= 0]
        chosen = sorted(rng.permutation(len(pairs))[:most].tolist())
        found += [pairs[place] for place in chosen]
    return found


class PairUpdater(Updater):
    """Trains on pairs of the answers of a batch."""

    config: DPOPositiveConfig

    def train_on(
        self,
        batch: Batch,
        pairs: Sequence[Pair],
        rng: np.random.Generator,
        progress: Progress,
        stop: Callable[[], bool],
    ) -> dict[str, float]:
        """Takes the passes over the pairs; goes on where a checkpoint left off.

        Raises:
            Diverged: ``max_bad_gradients`` minibatches in a row had a gradient that is not finite.
        """
        plan = minibatches(range(len(pairs)), rng, self.config)
        pending, self._loaded = self._loaded, None
        if pending is None:
            assert self.reference is not None
            reference = self.log_probs(self.reference, batch)
            pending = Pending(Constants([], None, None, reference), [])
        self.pending = pending
        for minibatch in plan[pending.done :]:
            if all_sum(stop()) > 0:
                break
            chosen = [pairs[number] for number in minibatch]
            sums = self._accumulate_pairs(batch, chosen, pending.constants)
            rows = [row for pair in chosen for row in pair]
            _, norm = self._step(rows)
            for name, value in sums.items():
                pending.log.sums[name] = pending.log.sums.get(name, 0.0) + value
            pending.log.norms.append(norm)
            pending.done += 1
            progress(len(chosen), sum(len(batch.responses[row]) for row in rows))
        count = max(1.0, pending.log.sums.get("pairs", 0.0))
        means = {name: value / count for name, value in pending.log.sums.items() if name != "pairs"}
        finite = [norm for norm in pending.log.norms if np.isfinite(norm)]
        return means | {
            "grad_norm": float(np.mean(finite)) if finite else float("nan"),
            "updates": float(len(finite)),
            "skipped_updates": float(len(pending.log.norms) - len(finite)),
        }

    def _accumulate_pairs(
        self, batch: Batch, pairs: Sequence[Pair], constants: Constants
    ) -> dict[str, float]:
        """Adds the gradient of a minibatch's mean loss to the parameters; returns sums to log."""
        assert constants.reference is not None
        known: list[FloatArray] = constants.reference
        config, own, sums = self.config, own_share(pairs), np.zeros(4)

        def backward() -> None:
            sums[:] = 0.0
            step = max(1, self.micro_batch_size.value // 2)
            for start in range(0, len(own), step):
                part = own[start : start + step]
                rows = [right for right, _ in part] + [wrong for _, wrong in part]
                sequences = self._sequences(batch, rows)
                stats = self.policy(sequences, config.temperature)
                found = torch.stack([
                    masked_sum(row, mask)
                    for row, mask in zip(stats.log_probs, sequences.mask, strict=True)
                ])  # fmt: skip
                reference = found.new_tensor([float(known[row].sum()) for row in rows])
                right, wrong = found.chunk(2)
                right_reference, wrong_reference = reference.chunk(2)
                losses = dpo_positive_loss(
                    right, wrong, right_reference, wrong_reference, config.beta, config.dpop_lambda
                )
                (losses.sum() / len(pairs)).backward()  # type: ignore[no-untyped-call]
                with torch.no_grad():
                    gains, falls = right - right_reference, wrong - wrong_reference
                    sums[:] += [
                        float(losses.sum()), len(part), float((gains > falls).sum()),
                        float(config.beta * (gains - falls).sum()),
                    ]  # fmt: skip

        def undo() -> None:
            self.optimizer.zero_grad(set_to_none=True)

        self.micro_batch_size.fitting(backward, undo)
        sum_gradients(self.parameters)
        names = ("loss", "pairs", "rewards/accuracies", "rewards/margins")
        return dict(zip(names, all_sum(sums).tolist(), strict=True))


class DPOPositive(Agent):
    """The agent; all that is its own is what is paired, and the loss of a pair."""

    name = "dpo_positive"
    needs_states = False
    config: DPOPositiveConfig
    updater: PairUpdater

    def make_updater(self, reference: Policy | None) -> PairUpdater:
        """Returns what trains on pairs."""
        return PairUpdater(self.policy, reference, self.config)

    def advantages(
        self,
        trajectories: Sequence[Trajectory],
        iteration: int,
        progress: Callable[[int, int], None],
    ) -> Advantages:
        """Returns the reward of each answer: it says what is right."""
        rewards = np.array([trajectory.reward for trajectory in trajectories])
        pairs = self._pairs(rewards.tolist(), iteration)
        paired = {trajectories[right].start.slot for right, _ in pairs}
        share = len(paired) / self.config.num_prompts
        metrics = {"dpo/pairs": float(len(pairs)), "dpo/paired_problems": share}
        return Advantages.of_answers(rewards, trajectories, metrics)

    def update(
        self,
        batch: Batch,
        iteration: int,
        progress: Callable[[int, int], None],
        stop: Callable[[], bool],
    ) -> dict[str, float]:
        """Trains on the pairs."""
        pairs = self._pairs([float(row[0]) for row in batch.advantages], iteration)
        rng = generator(self.config.seed, iteration, "shuffle")
        return self.updater.train_on(batch, pairs, rng, progress, stop)

    def _pairs(self, rewards: Sequence[float], iteration: int) -> list[Pair]:
        rng = generator(self.config.seed, iteration, "pairs")
        return pairs_of(rewards, self.config.num_generations, self.config.max_pairs, rng)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    about = str(__doc__).split("\n")[0]
    return run_training(
        DPOPositive, DPOPositiveConfig, tiny="tiny_dpo_positive", description=about, argv=argv
    )


if __name__ == "__main__":
    sys.exit(main())
