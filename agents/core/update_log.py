"""How far an update has got, and what its minibatches report; both go into a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Protocol

import numpy as np
import torch

from agents.core.advantages import FloatArray
from agents.core.distributed import all_max, all_sum
from agents.core.objective import Constants, Objective

Outcome = Literal["stepped", "not_finite", "ratio_exploded", "kl_target"]


class Diverged(RuntimeError):
    """Training cannot go on: too many gradients in a row were not finite.

    Attributes:
        rows: The answers of the last minibatch, as places in the batch.
    """

    def __init__(self, message: str, rows: Sequence[int]) -> None:
        """Stores both."""
        super().__init__(message)
        self.rows = list(rows)


@dataclass(slots=True)
class UpdateLog:
    """Adds up what the minibatches of an update report.

    Attributes:
        sums: Of each quantity of ``Objective.sums``.
        norms: Gradient norms of the steps that were taken.
        outcomes: Of each minibatch.
        largest_ratio: Largest probability ratio of a token.
    """

    sums: dict[str, float] = field(default_factory=dict)
    norms: list[float] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    largest_ratio: float = 0.0

    def add(self, objective: Objective, outcome: Outcome, norm: float) -> None:
        """Counts one minibatch."""
        for name, value in objective.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.outcomes.append(outcome)
        self.largest_ratio = max(self.largest_ratio, objective.largest_ratio)
        if outcome == "stepped":
            self.norms.append(norm)

    def metrics(self) -> dict[str, float]:
        """Returns the update's metrics under TRL's names."""

        def mean(name: str, count: str = "policy_tokens") -> float:
            return self.sums.get(name, 0.0) / max(1.0, self.sums.get(count, 0.0))

        steps = max(1, len(self.outcomes))
        exploded = self.outcomes.count("ratio_exploded")
        result = {
            "loss": self.sums.get("loss", 0.0) / steps,
            "kl": mean("kl", "kl_tokens"),
            "entropy": mean("entropy", "tokens"),
            "clip_ratio/low_mean": mean("low"),
            "clip_ratio/high_mean": mean("high"),
            "clip_ratio/region_mean": mean("low") + mean("high"),
            "ratio/mean": mean("ratio"),
            "ratio/max": self.largest_ratio,
            "ratio/exploded": float(exploded),
            "policy_kl": mean("moved"),
            "grad_norm": float(np.mean(self.norms)) if self.norms else math.nan,
            "updates": float(self.outcomes.count("stepped")),
            "skipped_updates": float(exploded + self.outcomes.count("not_finite")),
            "stopped_at_kl_target": float("kl_target" in self.outcomes),
        }
        if "value_loss" in self.sums:
            result["critic/vf_loss"] = self.sums["value_loss"] / steps
        return result


@dataclass(slots=True)
class Pending:
    """An update that has begun.

    Attributes:
        constants: What it holds fixed.
        seen: The trainer's log-probabilities of each answer from the only pass, if there is one.
        log: What the minibatches reported.
        done: Minibatches behind it.
    """

    constants: Constants
    seen: list[FloatArray | None]
    log: UpdateLog = field(default_factory=UpdateLog)
    done: int = 0

    def state(self) -> dict[str, Any]:
        """Returns it as a tree that a checkpoint can hold."""
        constants = {item.name: getattr(self.constants, item.name) for item in fields(Constants)}
        return {
            "constants": constants,
            "seen": self.seen,
            "log": asdict(self.log),
            "done": self.done,
        }

    @staticmethod
    def of(state: Mapping[str, Any]) -> Pending:
        """Returns what ``state`` described."""
        log = UpdateLog(**state["log"])
        return Pending(Constants(**state["constants"]), state["seen"], log, state["done"])


class TrainerState(Protocol):
    """What an optimizer belongs to, as a checkpoint sees it."""

    def state(self) -> dict[str, Any]:
        """Returns all of its state but the weights."""
        ...

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        ...

    def forget(self) -> None:
        """Drops what an update under way had kept."""
        ...


def optimizer_state(
    optimizer: torch.optim.Optimizer, scheduler: torch.optim.lr_scheduler.LRScheduler
) -> dict[str, Any]:
    """Returns both as a tree that a checkpoint can hold."""
    return {"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}


def load_optimizer_state(
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    state: Mapping[str, Any],
) -> None:
    """Gives both what ``optimizer_state`` returned."""
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(dict(state["scheduler"]))


def engine_gap(
    engine: Sequence[FloatArray], trainer: Sequence[FloatArray | None]
) -> dict[str, float]:
    """Returns how far the engine's log-probabilities are from the trainer's, where both are known.

    Args:
        engine: Of each answer, each [T_i].
        trainer: The same; None where it was not computed.

    Tokens whose log-probability is NaN are left out and counted, as their share
    ``sampling/nan_logps``.
    """
    pairs = [(a, b) for a, b in zip(engine, trainer, strict=True) if b is not None]
    every = np.abs(np.concatenate([np.zeros(0), *(a - b for a, b in pairs)]))
    gap = every[~np.isnan(every)]
    count, added, unknown = all_sum([gap.size, gap.sum(), every.size - gap.size])
    largest = all_max(gap.max(initial=0.0))
    return {
        "sampling/sampling_logp_difference/mean": float(added / count) if count else math.nan,
        "sampling/sampling_logp_difference/max": largest if count else math.nan,
        "sampling/nan_logps": float(unknown / max(1.0, count + unknown)),
    }


def check_gap(metrics: Mapping[str, float], limit: float | None) -> None:
    """Stops a run whose engine samples from another policy than the one that is trained.

    Args:
        metrics: With what ``engine_gap`` returned.
        limit: Largest mean difference, nats a token; None: none.

    Raises:
        Diverged: It is larger.
    """
    gap = metrics["sampling/sampling_logp_difference/mean"]
    if limit is not None and gap > limit:
        raise Diverged(
            f"engine and trainer disagree: log-probabilities differ by {gap:.3g} nats a token, "
            f"more than max_logprob_gap={limit:g}. The engine may hold old weights, or compute in "
            "too few bits; sampling/sampling_logp_difference in metrics.jsonl shows since when. "
            'Set --engine_kwargs \'{"dtype": "float32"}\', --engine hf, or --max_logprob_gap '
            "none.",
            [],
        )
