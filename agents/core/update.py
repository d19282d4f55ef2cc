"""One iteration's gradient steps: minibatches, micro-batches, clipped loss, KL, AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agents.core.advantages import FloatArray, whiten
from agents.core.config import BaseConfig
from agents.core.losses import clip_fractions, clipped_policy_loss, kl_k3, masked_sum
from agents.core.optimizer import make_optimizer
from agents.core.policy import Policy, Sequences

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Batch:
    """The answers of one iteration; lists of length N, one entry a answer.

    Attributes:
        prompts: Token ids before the answer.
        responses: Token ids of the answer, T_i >= 1 of them.
        advantages: Raw advantages, float64, [T_i].
        engine_log_probs: The engine's log-probabilities, float64, [T_i].
    """

    prompts: list[list[int]]
    responses: list[list[int]]
    advantages: list[FloatArray]
    engine_log_probs: list[FloatArray]

    def __len__(self) -> int:
        """Returns the number of answers."""
        return len(self.responses)


def micro_batches(lengths: Sequence[int], rows: Sequence[int], size: int) -> Iterator[list[int]]:
    """Cuts rows into micro-batches of like length, to spare padding.

    >>> list(micro_batches([5, 1, 4, 2], [0, 1, 2, 3], 2))
    [[1, 3], [2, 0]]
    """
    order = sorted(rows, key=lambda row: (lengths[row], row))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def _padded(rows: Sequence[FloatArray], like: Tensor) -> Tensor:
    result = np.zeros(like.shape)
    for place, row in enumerate(rows):
        result[place, : len(row)] = row
    return torch.as_tensor(result, dtype=like.dtype, device=like.device)


class Updater:
    """Owns the optimizer and its schedule; the update does not depend on ``micro_batch_size``."""

    def __init__(self, policy: Policy, reference: Policy | None, config: BaseConfig) -> None:
        """Makes the optimizer.

        Args:
            policy: What is trained.
            reference: The frozen start, or None where ``beta`` is 0.
            config: See ``BaseConfig``.
        """
        self.policy, self.reference, self.config = policy, reference, config
        answers = config.num_prompts * config.num_generations
        per_iteration = config.updates_per_batch * math.ceil(answers / config.minibatch_size)
        total = config.iterations * per_iteration
        self.optimizer, self.scheduler = make_optimizer(policy, config, total)

    def log_probs(self, policy: Policy, batch: Batch) -> list[FloatArray]:
        """Returns the log-probabilities of every answer without gradient, each [T_i]."""
        result: list[FloatArray] = [np.zeros(0)] * len(batch)
        with torch.no_grad():
            for rows in self._micro_batches(batch, range(len(batch))):
                sequences = self._sequences(batch, rows)
                stats = policy(sequences, self.config.temperature).log_probs.double().cpu().numpy()
                for place, row in enumerate(rows):
                    result[row] = stats[place, : len(batch.responses[row])]
        return result

    def update(
        self,
        batch: Batch,
        rng: np.random.Generator,
        *,
        progress: Progress | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> dict[str, float]:
        """Trains on one iteration's answers.

        Args:
            batch: The answers.
            rng: Shuffles them before each pass.
            progress: Called with (answers, tokens) after each minibatch.
            stop: Asked before each minibatch; True ends the update there.

        Returns:
            Metrics under TRL's names.
        """
        old = self.log_probs(self.policy, batch)
        reference = None if self.reference is None else self.log_probs(self.reference, batch)
        totals: dict[str, float] = {}
        norms, skipped = [], 0
        for _ in range(self.config.updates_per_batch):
            order = rng.permutation(len(batch)).tolist()
            for start in range(0, len(order), self.config.minibatch_size):
                if stop():
                    break
                rows = order[start : start + self.config.minibatch_size]
                self._accumulate(batch, rows, old, reference, totals)
                norm = float(
                    torch.nn.utils.clip_grad_norm_(
                        self.policy.parameters(), self.config.max_grad_norm
                    )
                )
                if math.isfinite(norm):
                    self.optimizer.step()
                    self.scheduler.step()
                    norms.append(norm)
                else:
                    skipped += 1
                self.optimizer.zero_grad(set_to_none=True)
                if progress is not None:
                    progress(len(rows), sum(len(batch.responses[row]) for row in rows))
        return _metrics(totals, norms, skipped) | _gap(batch.engine_log_probs, old)

    def _micro_batches(self, batch: Batch, rows: Sequence[int]) -> Iterator[list[int]]:
        lengths = [len(p) + len(r) for p, r in zip(batch.prompts, batch.responses, strict=True)]
        return micro_batches(lengths, rows, self.config.micro_batch_size)

    def _sequences(self, batch: Batch, rows: Sequence[int]) -> Sequences:
        return Sequences.of(
            [batch.prompts[row] for row in rows],
            [batch.responses[row] for row in rows],
            self.policy.device,
        )

    def _accumulate(
        self,
        batch: Batch,
        rows: Sequence[int],
        old: list[FloatArray],
        reference: list[FloatArray] | None,
        totals: dict[str, float],
    ) -> None:
        """Adds the gradient of one minibatch to the parameters, and its sums to ``totals``."""
        config = self.config
        shaped = [batch.advantages[row] for row in rows]
        shaped = whiten(shaped) if config.whiten == "mean_std" else shaped
        advantages = dict(zip(rows, shaped, strict=True))
        num_tokens = sum(len(batch.responses[row]) for row in rows)
        kl_count = len(rows) if config.kl_aggregation == "sum" else num_tokens
        for micro in self._micro_batches(batch, rows):
            sequences = self._sequences(batch, micro)
            stats, mask = self.policy(sequences, config.temperature), sequences.mask
            log_probs = stats.log_probs
            old_log_probs = _padded([old[row] for row in micro], log_probs)
            weights = _padded([advantages[row] for row in micro], log_probs)
            losses = clipped_policy_loss(log_probs, old_log_probs, weights, config.epsilon)
            loss = masked_sum(losses, mask) / num_tokens
            sums = {"tokens": mask.sum(), "entropy": masked_sum(stats.entropy, mask)}
            if reference is not None:
                kl = kl_k3(log_probs, _padded([reference[row] for row in micro], log_probs))
                sums["kl"] = masked_sum(kl, mask)
                loss = loss + config.beta * sums["kl"] / kl_count
            loss.backward()  # type: ignore[no-untyped-call]
            with torch.no_grad():
                low, high = clip_fractions(log_probs, old_log_probs, weights, mask, config.epsilon)
                sums |= {"low": low, "high": high, "loss": loss * num_tokens}
            for name, value in sums.items():
                totals[name] = totals.get(name, 0.0) + float(value.detach())


def _metrics(totals: dict[str, float], norms: list[float], skipped: int) -> dict[str, float]:
    tokens = max(1.0, totals.get("tokens", 0.0))
    mean = {name: total / tokens for name, total in totals.items()}
    low, high = mean.get("low", 0.0), mean.get("high", 0.0)
    return {
        "loss": mean.get("loss", 0.0),
        "kl": mean.get("kl", 0.0),
        "entropy": mean.get("entropy", 0.0),
        "clip_ratio/low_mean": low,
        "clip_ratio/high_mean": high,
        "clip_ratio/region_mean": low + high,
        "grad_norm": float(np.mean(norms)) if norms else math.nan,
        "skipped_updates": float(skipped),
    }


def _gap(engine: list[FloatArray], trainer: list[FloatArray]) -> dict[str, float]:
    """How far the engine's log-probabilities are from the trainer's."""
    gap = np.abs(np.concatenate(engine) - np.concatenate(trainer))
    return {
        "sampling/sampling_logp_difference/mean": float(gap.mean()),
        "sampling/sampling_logp_difference/max": float(gap.max()),
    }
