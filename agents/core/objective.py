"""The objective of one minibatch: its weights, its loss a micro-batch, its sums for the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agents.core.advantages import FloatArray
from agents.core.config import BaseConfig
from agents.core.distributed import all_max, all_sum
from agents.core.losses import (
    answer_weights,
    clamped,
    clip_fractions,
    clipped_policy_loss,
    importance_weights,
    kl_estimate,
    log_ratios,
    masked_sum,
    value_losses,
)
from agents.core.policy import TokenStats

_SUMS = ("policy_tokens", "ratio", "moved", "low", "high", "tokens", "entropy", "loss")
_KL_SUMS = ("kl", "kl_tokens")


@dataclass(slots=True)
class Batch:
    """The answers of one iteration; lists of length N, one entry an answer.

    Attributes:
        prompts: Token ids before the answer.
        responses: Token ids of the answer, T_i >= 1 of them.
        advantages: Raw advantages, float64, [T_i].
        engine_log_probs: The engine's log-probabilities, float64, [T_i].
        in_policy_loss: Whether the answer counts in the policy loss; empty: all do.
        in_kl: Whether it counts in the KL of the loss; empty: all do.
        returns: What a critic should say before each token, float64, [T_i]; empty without critic.
        values: What it said before the update, float64, [T_i].
    """

    prompts: list[list[int]]
    responses: list[list[int]]
    advantages: list[FloatArray]
    engine_log_probs: list[FloatArray]
    in_policy_loss: list[bool] = field(default_factory=list)
    in_kl: list[bool] = field(default_factory=list)
    returns: list[FloatArray] = field(default_factory=list)
    values: list[FloatArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Fills what was left empty."""
        self.in_policy_loss = self.in_policy_loss or [True] * len(self)
        self.in_kl = self.in_kl or [True] * len(self)

    def __len__(self) -> int:
        """Returns the number of answers."""
        return len(self.responses)


@dataclass(slots=True)
class Constants:
    """What the update holds fixed of each answer, by its place in the batch.

    Attributes:
        advantages: Whitened, [T_i].
        old: Log-probabilities of the sampling policy under ``top_p_correction``, [T_i]; None where
            the weights do not change before they are used.
        old_plain: The same over all ids, as the engine reports them.
        reference: Those of the reference; None where the loss needs none.
    """

    advantages: list[FloatArray]
    old: list[FloatArray] | None
    old_plain: list[FloatArray] | None
    reference: list[FloatArray] | None


@dataclass(frozen=True, slots=True)
class ValueTerm:
    """A value head that shares the policy's trunk, and its part of the loss.

    Attributes:
        head: A module [M, H] -> [M, 1].
        coefficient: Weight of its loss.
        clip: See ``value_losses``.
    """

    head: torch.nn.Module
    coefficient: float
    clip: float | None


def padded(rows: Sequence[FloatArray], like: Tensor) -> Tensor:
    """Returns arrays of lengths T_i as one tensor of the shape and type of ``like``, 0 beyond.

    >>> padded([np.array([1.0]), np.array([2.0, 3.0])], torch.zeros(2, 2)).tolist()
    [[1.0, 0.0], [2.0, 3.0]]
    """
    result = np.zeros(like.shape)
    for place, row in enumerate(rows):
        result[place, : len(row)] = row
    return torch.as_tensor(result, dtype=like.dtype, device=like.device)


class Objective:
    """The loss of one minibatch; micro-batches of it add up to the same gradient however cut."""

    def __init__(
        self,
        batch: Batch,
        rows: Sequence[int],
        constants: Constants,
        config: BaseConfig,
        *,
        has_kl: bool,
        budget: int | None,
        value: ValueTerm | None,
    ) -> None:
        """Counts the minibatch, over all processes.

        Args:
            batch: The iteration's answers, or this process's share of them.
            rows: Which of them are the minibatch; may be empty if another process has some.
            constants: What is fixed of them.
            config: The switches.
            has_kl: Whether the KL to a reference is part of the loss.
            budget: Tokens an answer may have, for ``aggregation=sum_constant``.
            value: The value head, if it shares the policy's trunk.
        """
        self.batch, self.constants, self.config, self.value = batch, constants, config, value
        policy_rows = [row for row in rows if batch.in_policy_loss[row]]
        self.policy_weights = self._weights(policy_rows, config.aggregation, budget)
        # The bonus is a mean over tokens whatever the policy loss is, as in TRL.
        self.entropy_weights = self._weights(policy_rows, "token_mean", None)
        self.has_kl = has_kl
        kl_rows = [row for row in rows if batch.in_kl[row]] if has_kl else []
        self.kl_weights = self._weights(kl_rows, config.kl_aggregation, None)
        self.value_weights = self._weights(rows if value else [], "token_mean", None)
        names = [*_SUMS, *(_KL_SUMS if has_kl else ()), *(("value_loss",) if value else ())]
        self.sums = dict.fromkeys(names, 0.0)
        self.largest_ratio = 0.0

    def _weights(self, rows: Sequence[int], how: Any, budget: int | None) -> dict[int, float]:
        lengths = [len(self.batch.responses[row]) for row in rows]
        return dict(zip(rows, answer_weights(lengths, how, budget, all_sum), strict=True))

    def loss(self, rows: Sequence[int], stats: TokenStats, mask: Tensor) -> Tensor:
        """Returns the loss of a micro-batch, to be added to those of the others.

        Args:
            rows: Its places in the batch, in the order of the tensors.
            stats: The policy's pass, [B, T] each.
            mask: Real tokens, [B, T].
        """
        config, fixed, plain = self.config, self.constants, stats.log_probs
        log_probs = plain - stats.log_mass
        old = log_probs.detach() if fixed.old is None else _pick(fixed.old, rows, plain)
        advantages = _pick(fixed.advantages, rows, plain)
        weights, counted = self._tensors(self.policy_weights, rows, mask, plain)
        ratio = log_ratios(log_probs, old, mask, config.ratio_level)
        clip = (config.epsilon, config.epsilon_high)
        losses = clipped_policy_loss(ratio, advantages, *clip)
        if config.importance_sampling_cap is not None:
            old_plain = plain.detach() if fixed.old is None else _pick(fixed.old_plain, rows, plain)
            engine = _pick(self.batch.engine_log_probs, rows, plain)
            losses = losses * importance_weights(old_plain, engine, config.importance_sampling_cap)
        loss = masked_sum(losses * weights, counted)
        if config.entropy_coef > 0:
            weights, _ = self._tensors(self.entropy_weights, rows, mask, plain)
            loss = loss - config.entropy_coef * masked_sum(stats.entropy * weights, counted)
        with torch.no_grad():
            low, high = clip_fractions(ratio, advantages, counted, *clip)
            # KL(old || new) on tokens of the old policy: exp(r) - 1 - r with r = log(new / old).
            moved = log_ratios(log_probs, old, mask)
            ratios = torch.where(counted, ratio.exp(), 0.0)
            self.largest_ratio = max(self.largest_ratio, float(ratios.max()))
            self._add("policy_tokens", counted.sum())
            self._add("ratio", ratios.sum())
            self._add("moved", masked_sum(moved.exp() - 1 - moved, counted))
            self._add("low", low)
            self._add("high", high)
            self._add("tokens", mask.sum())
            self._add("entropy", masked_sum(stats.entropy, mask))
        loss = loss + self._kl_loss(rows, stats, mask) + self._value_loss(rows, stats, mask)
        self._add("loss", loss)
        return loss

    def _kl_loss(self, rows: Sequence[int], stats: TokenStats, mask: Tensor) -> Tensor:
        config = self.config
        if not self.has_kl:
            return stats.log_probs.new_zeros(())
        weights, counted = self._tensors(self.kl_weights, rows, mask, stats.log_probs)
        if config.kl_estimator == "full":
            kl = clamped(stats.kl, config.kl_clamp)
        else:
            reference = _pick(self.constants.reference, rows, stats.log_probs)
            kl = kl_estimate(stats.log_probs, reference, config.kl_estimator, config.kl_clamp)
        self._add("kl", masked_sum(kl, counted))
        self._add("kl_tokens", counted.sum())
        return config.beta * masked_sum(kl * weights, counted)

    def _value_loss(self, rows: Sequence[int], stats: TokenStats, mask: Tensor) -> Tensor:
        if self.value is None:
            return stats.log_probs.new_zeros(())
        weights, counted = self._tensors(self.value_weights, rows, mask, stats.values)
        old, returns = (
            _pick(x, rows, stats.values) for x in (self.batch.values, self.batch.returns)
        )
        losses = value_losses(stats.values, old, returns, self.value.clip)
        self._add("value_loss", masked_sum(losses * weights, counted))
        return self.value.coefficient * masked_sum(losses * weights, counted)

    def _tensors(
        self, weights: dict[int, float], rows: Sequence[int], mask: Tensor, like: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns the weight of each row [B, 1] and where it counts [B, T]."""
        column = [[weights.get(row, 0.0)] for row in rows]
        tensor = torch.tensor(column, dtype=like.dtype, device=like.device)
        return tensor, mask & (tensor > 0)

    def _add(self, name: str, value: Tensor) -> None:
        self.sums[name] += float(value.detach())

    def reset(self) -> None:
        """Forgets the micro-batches so far."""
        self.sums = dict.fromkeys(self.sums, 0.0)
        self.largest_ratio = 0.0

    def gather(self) -> None:
        """Adds what the other processes saw of the minibatch to what is logged and decided on."""
        self.sums = dict(zip(self.sums, all_sum(list(self.sums.values())).tolist(), strict=True))
        self.largest_ratio = all_max(self.largest_ratio)

    @property
    def mean_ratio(self) -> float:
        """Mean probability ratio over the tokens of the policy loss so far; 1 if there are none."""
        tokens = self.sums["policy_tokens"]
        return self.sums["ratio"] / tokens if tokens else 1.0

    @property
    def moved(self) -> float:
        """KL from the sampling policy over the same tokens, nats a token."""
        return self.sums["moved"] / max(1.0, self.sums["policy_tokens"])


def _pick(arrays: list[FloatArray] | None, rows: Sequence[int], like: Tensor) -> Tensor:
    assert arrays is not None
    return padded([arrays[row] for row in rows], like)
