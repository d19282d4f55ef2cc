"""The critic of PPO: a value head on a trunk of its own, or on the policy's; its training."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from agents.core.advantages import FloatArray
from agents.core.config import BaseConfig
from agents.core.distributed import all_gathered, all_sum, minibatches, own_share, sum_gradients
from agents.core.losses import masked_sum, value_losses
from agents.core.micro import MicroBatchSize, micro_batches
from agents.core.objective import Batch, padded
from agents.core.optimizer import make_optimizer
from agents.core.options import Options, option
from agents.core.policy import Policy, Sequences, selected_hidden
from agents.core.update_log import Diverged, load_optimizer_state, optimizer_state

CRITIC = "critic"
"""Name of the file, without its suffix, that holds the critic of a checkpoint."""


@dataclass(frozen=True)
class CriticConfig(Options):
    """What a critic adds to the options of every agent."""

    critic: Literal["separate", "shared", "constant"] = option(
        "separate",
        "A network of its own, a head on the policy's trunk, or a constant (an ablation).",
        paper="separate",
    )
    critic_constant: float = option(0.5, "What the constant critic says.", paper="0.5")
    critic_learning_rate: float | None = option(
        None, "Peak learning rate of the critic; none: that of the policy.", above=0, paper="1e-6"
    )
    critic_warmup: int = option(
        0,
        "First iterations that train the critic alone (a shared one: its head); none if constant.",
        low=0,
        paper="0",
    )
    cliprange_value: float | None = option(
        0.2, "How far a value counts from the old one; none: no clip.", above=0, paper="0.2"
    )
    vf_coef: float = option(1.0, "Weight of a shared critic's loss.", above=0)
    gamma: float = option(1.0, "Discount a token.", above=0, high=1, paper="1")
    gae_lambda: float = option(
        1.0, "Lambda of the advantage estimate.", low=0, high=1, paper="1", aliases=("lam",)
    )

    def __post_init__(self) -> None:
        """Checks every field and those that do not go together; raises ValueError."""
        super().__post_init__()
        if self.critic == "constant" and getattr(self, "truncated_answers", "") == "bootstrap":
            raise ValueError(
                "truncated_answers=bootstrap and critic=constant do not go together: every answer "
                "over budget would earn the constant. Set truncated_answers to keep or mask."
            )


class ValueHead(nn.Module):
    """A linear map from hidden states to values, of full precision."""

    def __init__(self, like: Any, seed: int) -> None:
        """Makes weights from N(0, 1 / sqrt(H + 1)) and a bias of 0, as the paper's code does.

        Args:
            like: A transformers model: its hidden size, type and device are used.
            seed: Of the weights; the global random state is left as it was.
        """
        super().__init__()
        size = int(like.config.hidden_size)
        dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
        with torch.random.fork_rng(devices=[]):
            self.linear = nn.Linear(size, 1, dtype=dtype)
        weights = np.random.default_rng(seed).normal(0.0, 1 / math.sqrt(size + 1), (1, size))
        with torch.no_grad():
            self.linear.weight.copy_(torch.from_numpy(weights))
            self.linear.bias.zero_()
        self.to(like.device)

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns values [M, 1] of hidden states [M, H]."""
        values: Tensor = self.linear(hidden.to(self.linear.weight.dtype))
        return values


class Critic(nn.Module):
    """A value head on a trunk."""

    def __init__(self, trunk: Any, head: nn.Module, *, frozen_trunk: bool = False) -> None:
        """Joins them.

        Args:
            trunk: A transformers model without its own head.
            head: Values of its last hidden states.
            frozen_trunk: Whether the trunk gets no gradient: it belongs to the policy.
        """
        super().__init__()
        self.trunk, self.head, self.frozen_trunk = trunk, head, frozen_trunk

    @staticmethod
    def apart(policy: Policy, seed: int) -> Critic:
        """Returns a critic of its own: a copy of the policy's trunk; ``seed`` makes the head."""
        return Critic(copy.deepcopy(policy.model.base_model), ValueHead(policy.model, seed))

    @staticmethod
    def loaded(folder: Path, policy: Policy) -> Critic:
        """Returns the critic that a checkpoint holds.

        Args:
            folder: A checkpoint of PPO.
            policy: The policy of the same checkpoint: what a shared critic has its head on.

        Raises:
            ValueError: There is none, or it does not fit the policy.
        """
        path = folder / f"{CRITIC}.safetensors"
        if not path.is_file():
            raise ValueError(
                f"{folder} holds no critic: there is no {path.name} in it. PPO writes one, "
                "unless its critic is constant."
            )
        try:
            weights = load_file(path)
            if any(name.startswith("trunk.") for name in weights):
                critic = Critic.apart(policy, seed=0)
            else:
                head = ValueHead(policy.model, seed=0)
                critic = Critic(policy.model.base_model, head, frozen_trunk=True)
            critic.trained().load_state_dict(weights)
        except (OSError, SafetensorError, RuntimeError) as error:
            raise ValueError(
                f"the critic in {folder} does not fit its policy: {str(error).splitlines()[0]}"
            ) from error
        return critic

    def forward(self, batch: Sequences) -> Tensor:
        """Returns V of the state before each response token, [B, T]; 0 on padding."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen_trunk):
            hidden = selected_hidden(self.trunk, batch)
        values: Tensor = self.head(hidden).squeeze(-1)
        return values.new_zeros(batch.mask.shape).masked_scatter(batch.mask, values)

    def trained(self) -> nn.Module:
        """Returns the part whose weights change."""
        return self.head if self.frozen_trunk else self


@dataclass(slots=True)
class CriticUpdate:
    """An update of a critic that has begun.

    Attributes:
        losses: Of the minibatches so far.
        norms: Their gradient norms.
    """

    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)


class CriticTrainer:
    """Trains a critic on the answers of each iteration, apart from the policy."""

    def __init__(self, critic: Critic, config: BaseConfig, options: CriticConfig) -> None:
        """Makes the optimizer.

        Args:
            critic: What is trained.
            config: Sizes of minibatches and micro-batches, passes, AdamW.
            options: Learning rate and clip.
        """
        self.critic, self.config, self.options = critic, config, options
        answers = config.num_prompts * config.num_generations
        per_iteration = config.updates_per_batch * math.ceil(answers / config.minibatch_size)
        self.optimizer, self.scheduler = make_optimizer(
            critic.trained(),
            config,
            config.iterations * per_iteration,
            learning_rate=options.critic_learning_rate,
        )
        self.micro_batch_size = MicroBatchSize(config.micro_batch_size)
        self.pending: CriticUpdate | None = None
        self._loaded: CriticUpdate | None = None
        self._not_finite = 0

    def values(self, batch: Batch) -> list[FloatArray]:
        """Returns V before each token of every answer, each [T_i]."""
        own = own_share(range(len(batch)))
        result: dict[int, FloatArray] = {}

        def passes() -> None:
            for rows in self._micro_batches(batch, own):
                values = self.critic(self._sequences(batch, rows)).double().cpu().numpy()
                for place, row in enumerate(rows):
                    result[row] = values[place, : len(batch.responses[row])]

        with torch.no_grad():
            self.micro_batch_size.fitting(passes, lambda: None)
        return all_gathered([result[row] for row in own])

    def update(
        self,
        batch: Batch,
        rng: np.random.Generator,
        stop: Callable[[], bool] = lambda: False,
    ) -> dict[str, float]:
        """Fits the returns, in as many passes as the policy takes; goes on from a checkpoint.

        Args:
            batch: With ``returns``, and ``values`` from before the update.
            rng: Shuffles the answers before each pass.
            stop: Asked before each minibatch; True on any process ends the update there.

        Raises:
            Diverged: ``max_bad_gradients`` minibatches in a row had a gradient that is not finite.
        """
        pending, self._loaded = self._loaded or CriticUpdate(), None
        self.pending = pending
        for minibatch in minibatches(range(len(batch)), rng, self.config)[len(pending.losses) :]:
            if all_sum(stop()) > 0:
                break
            pending.losses.append(self._accumulate(batch, minibatch))
            pending.norms.append(self._step(minibatch))
        return {
            "critic/vf_loss": float(np.mean(pending.losses)) if pending.losses else math.nan,
            "critic/grad_norm": float(np.mean(pending.norms)) if pending.norms else math.nan,
        }

    def forget(self) -> None:
        """Ends an update for good: it is no part of the state any more."""
        self.pending = None

    def state(self) -> dict[str, Any]:
        """Returns optimizer, schedule and an update under way, for a checkpoint."""
        return {
            **optimizer_state(self.optimizer, self.scheduler),
            "pending": None if self.pending is None else asdict(self.pending),
            "not_finite": self._not_finite,
            "micro_batch_size": self.micro_batch_size.value,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``state`` returned; the next ``update`` finishes the one under way.

        The weights are apart, see ``agents/core/checkpoint.py``.
        """
        load_optimizer_state(self.optimizer, self.scheduler, state)
        self._loaded = None if state["pending"] is None else CriticUpdate(**state["pending"])
        self._not_finite = state["not_finite"]
        size = min(self.micro_batch_size.value, state["micro_batch_size"])
        self.micro_batch_size = MicroBatchSize(size)

    def _accumulate(self, batch: Batch, rows: list[int]) -> float:
        """Adds the gradient of the mean loss over a minibatch's tokens; returns that loss."""
        weight = 1 / sum(len(batch.responses[row]) for row in rows)
        own = own_share(rows)

        def backward() -> float:
            total = 0.0
            for micro in self._micro_batches(batch, own):
                sequences = self._sequences(batch, micro)
                values = self.critic(sequences)
                old, returns = (
                    padded([arrays[row] for row in micro], values)
                    for arrays in (batch.values, batch.returns)
                )
                losses = value_losses(values, old, returns, self.options.cliprange_value)
                loss = masked_sum(losses, sequences.mask) * weight
                loss.backward()  # type: ignore[no-untyped-call]
                total += float(loss.detach())
            return total

        def undo() -> None:
            self.optimizer.zero_grad(set_to_none=True)

        total = self.micro_batch_size.fitting(backward, undo)
        sum_gradients(list(self.critic.trained().parameters()))
        return float(all_sum(total))

    def _step(self, rows: list[int]) -> float:
        """Steps unless the gradient is not finite; returns its norm."""
        norm = float(
            torch.nn.utils.clip_grad_norm_(
                self.critic.trained().parameters(), self.config.max_grad_norm
            )
        )
        if math.isfinite(norm):
            self.optimizer.step()
            self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._not_finite = 0 if math.isfinite(norm) else self._not_finite + 1
        if self._not_finite >= self.config.max_bad_gradients:
            raise Diverged(
                f"the critic diverged: the gradients of {self._not_finite} minibatches in a row "
                "are not finite. Lower --critic_learning_rate.",
                rows,
            )
        return norm

    def _micro_batches(self, batch: Batch, rows: Sequence[int]) -> Any:
        lengths = [len(p) + len(r) for p, r in zip(batch.prompts, batch.responses, strict=True)]
        return micro_batches(lengths, rows, self.micro_batch_size.value)

    def _sequences(self, batch: Batch, rows: Sequence[int]) -> Sequences:
        device = next(self.critic.parameters()).device
        return Sequences.of(
            [batch.prompts[row] for row in rows], [batch.responses[row] for row in rows], device
        )


def explained_variance(values: Sequence[FloatArray], returns: Sequence[FloatArray]) -> float:
    """Returns 1 - Var(returns - values) / Var(returns) over all tokens; NaN if returns are equal.

    1: the critic is right; 0: no better than a constant; below: worse.

    >>> explained_variance([np.array([0.5, 0.5])], [np.array([0.0, 1.0])])
    0.0
    >>> explained_variance([np.array([0.0, 1.0])], [np.array([0.0, 1.0])])
    1.0
    """
    said, right = np.concatenate([*values]), np.concatenate([*returns])
    variance = float(right.var())
    return 1.0 - float((right - said).var()) / variance if variance > 0 else math.nan
