"""One iteration's gradient steps: minibatches, micro-batches, AdamW.

Where ``torch.distributed`` is initialised, every process calls ``Updater.update`` with all the
answers and equal weights, and passes its share of each minibatch through the model. Counts,
gradients and metrics are summed over the processes, so that the update is that of one process;
``CriticTrainer`` does the same. The model is not wrapped in DistributedDataParallel, which would
average the gradients once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from agents.core.advantages import FloatArray, whiten
from agents.core.config import BaseConfig
from agents.core.distributed import (
    all_gathered,
    all_sum,
    minibatches,
    own_share,
    sum_gradients,
    world_size,
)
from agents.core.losses import clamped, kl_estimate
from agents.core.micro import MicroBatchSize, micro_batches
from agents.core.objective import Batch, Constants, Objective, ValueTerm
from agents.core.optimizer import make_optimizer
from agents.core.policy import Extras, Policy, Sequences, TokenStats
from agents.core.update_log import (
    Diverged,
    Outcome,
    Pending,
    check_gap,
    engine_gap,
    load_optimizer_state,
    optimizer_state,
)

__all__ = ["Batch", "Updater"]

Progress = Callable[[int, int], None]


class Updater:
    """Owns the optimizer and its schedule.

    The update depends neither on ``micro_batch_size`` nor on the number of processes.
    """

    def __init__(
        self,
        policy: Policy,
        reference: Policy | None,
        config: BaseConfig,
        *,
        budget: int | None = None,
        value: ValueTerm | None = None,
        value_learning_rate: float | None = None,
    ) -> None:
        """Makes the optimizer.

        Args:
            policy: What is trained.
            reference: The frozen start, or None where ``beta`` is 0.
            config: See ``BaseConfig``.
            budget: Tokens an answer may have; needed for ``aggregation=sum_constant``.
            value: A value head on the policy's trunk, trained in the same steps.
            value_learning_rate: Of that head; None: the policy's.

        Raises:
            ValueError: ``aggregation=sum_constant`` without a budget.
        """
        if config.aggregation == "sum_constant" and not budget:
            raise ValueError(
                "aggregation=sum_constant needs a token budget, and the environment has no "
                "max_new_tokens. Set aggregation to token_mean, or give the environment a budget."
            )
        self.policy, self.reference, self.config = policy, reference, config
        self.budget, self.value = budget, value
        self.pending: Pending | None = None
        self._loaded: Pending | None = None
        self._not_finite = 0
        self.micro_batch_size = MicroBatchSize(config.micro_batch_size)
        self.has_kl = reference is not None and config.beta > 0 and config.kl_in == "loss"
        full = self.has_kl and config.kl_estimator == "full"
        self._extras = Extras(
            top_p=config.top_p if config.top_p_correction == "renormalise" else 1.0,
            entropy_gradient=config.entropy_coef > 0,
            reference=reference if full else None,
            value_head=None if value is None else value.head,
        )
        self._reference_in_loss = reference if self.has_kl and not full else None
        answers = config.num_prompts * config.num_generations
        per_iteration = config.updates_per_batch * math.ceil(answers / config.minibatch_size)
        self.parameters = list(policy.parameters())
        self.optimizer, self.scheduler = make_optimizer(
            policy,
            config,
            config.iterations * per_iteration,
            head=None if value is None else value.head,
            head_learning_rate=value_learning_rate,
        )
        if value is not None:
            self.parameters += list(value.head.parameters())

    def log_probs(self, policy: Policy, batch: Batch) -> list[FloatArray]:
        """Returns the log-probabilities over all ids of every answer, without gradient, [T_i]."""
        return self._pass(policy, batch, Extras(), lambda stats: stats.log_probs)

    def kl_penalties(self, batch: Batch) -> list[FloatArray]:
        """Returns the KL to the reference at each token, for ``kl_in=reward``, [T_i]."""
        config, reference = self.config, self.reference
        assert reference is not None
        if config.kl_estimator == "full":
            extras = Extras(reference=reference)
            rows = self._pass(self.policy, batch, extras, lambda stats: stats.kl)
            return [clamped(torch.as_tensor(row), config.kl_clamp).numpy() for row in rows]
        pairs = zip(
            self.log_probs(self.policy, batch), self.log_probs(reference, batch), strict=True
        )
        return [
            kl_estimate(
                torch.as_tensor(new), torch.as_tensor(old), config.kl_estimator, config.kl_clamp
            ).numpy()
            for new, old in pairs
        ]

    def update(
        self,
        batch: Batch,
        rng: np.random.Generator,
        *,
        progress: Progress | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> dict[str, float]:
        """Trains on one iteration's answers; goes on where a checkpoint left off.

        Args:
            batch: The answers, the same on every process.
            rng: Shuffles them before each pass, alike on every process.
            progress: Called with (answers, tokens) after each minibatch.
            stop: Asked before each minibatch; True on any process ends the update there.

        Returns:
            Metrics under TRL's names.

        Raises:
            Diverged: ``max_bad_gradients`` minibatches in a row had a gradient that is not finite.
        """
        rows = self._rows_that_count(batch)
        plan = minibatches(rows, rng, self.config)
        pending, self._loaded = self._loaded or self._begin(batch, rows, len(plan)), None
        self.pending = pending
        for minibatch in plan[pending.done :]:
            if all_sum(stop()) > 0:
                break
            objective = self._accumulate(batch, minibatch, pending)
            outcome, norm = self._step(minibatch, objective.mean_ratio, objective.moved)
            pending.log.add(objective, outcome, norm)
            pending.done += 1
            if outcome == "kl_target":
                pending.done = len(plan)
                break
            if progress is not None:
                progress(len(minibatch), sum(len(batch.responses[row]) for row in minibatch))
        pending.seen = _from_all(pending.seen)
        trainer = pending.constants.old_plain or pending.seen
        metrics = pending.log.metrics() | engine_gap(batch.engine_log_probs, trainer)
        check_gap(metrics, self.config.max_logprob_gap)
        if self.micro_batch_size.value < self.config.micro_batch_size:
            metrics["micro_batch_size"] = float(self.micro_batch_size.value)
        return metrics

    def forget(self) -> None:
        """Ends an update for good: it is no part of the state any more."""
        self.pending = None

    def state(self) -> dict[str, Any]:
        """Returns optimizer, schedule and an update under way, for a checkpoint."""
        return {
            **optimizer_state(self.optimizer, self.scheduler),
            "pending": None if self.pending is None else self.pending.state(),
            "not_finite": self._not_finite,
            "micro_batch_size": self.micro_batch_size.value,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``state`` returned; the next ``update`` finishes the one under way.

        The weights are apart, see ``agents/core/checkpoint.py``.
        """
        load_optimizer_state(self.optimizer, self.scheduler, state)
        self._loaded = None if state["pending"] is None else Pending.of(state["pending"])
        self._not_finite = state["not_finite"]
        size = min(self.micro_batch_size.value, state["micro_batch_size"])
        self.micro_batch_size = MicroBatchSize(size)

    def _rows_that_count(self, batch: Batch) -> list[int]:
        return [
            row
            for row in range(len(batch))
            if batch.in_policy_loss[row]
            or (self.has_kl and batch.in_kl[row])
            or self.value is not None
        ]

    def _begin(self, batch: Batch, rows: list[int], steps: int) -> Pending:
        """Returns what stays fixed; the sampling policy's pass is spared where it is the loss's."""
        config = self.config
        advantages = batch.advantages
        if config.whiten_scope == "batch":
            advantages = self._whitened(batch, rows, advantages)
        old = old_plain = reference = None
        if steps > 1:
            plain_extras = replace(self._extras, reference=None, value_head=None)
            pairs = self._pass(self.policy, batch, plain_extras, _log_probs_and_mass)
            old_plain = [pair[0] for pair in pairs]
            old = [pair[0] - pair[1] for pair in pairs]
        if self._reference_in_loss is not None:
            reference = self.log_probs(self._reference_in_loss, batch)
        return Pending(Constants(advantages, old, old_plain, reference), [None] * len(batch))

    def _whitened(
        self, batch: Batch, rows: list[int], advantages: list[FloatArray]
    ) -> list[FloatArray]:
        """Returns the advantages with those of ``rows`` whitened, of what counts in the loss."""
        result = list(advantages)
        counted = [row for row in rows if batch.in_policy_loss[row]]
        arrays = whiten([advantages[row] for row in counted], self.config.whiten)
        for row, array in zip(counted, arrays, strict=True):
            result[row] = array
        return result

    def _accumulate(self, batch: Batch, rows: list[int], pending: Pending) -> Objective:
        """Adds the gradient of one minibatch to the parameters."""
        config, constants = self.config, pending.constants
        if config.whiten_scope == "minibatch":
            whitened = self._whitened(batch, rows, constants.advantages)
            constants = replace(constants, advantages=whitened)
        own = own_share(rows)
        objective = Objective(
            batch, own, constants, config, has_kl=self.has_kl, budget=self.budget, value=self.value
        )

        def backward() -> None:
            for micro in self._micro_batches(batch, own):
                sequences = self._sequences(batch, micro)
                stats = self.policy(sequences, config.temperature, self._extras)
                loss = objective.loss(micro, stats, sequences.mask)
                loss.backward()  # type: ignore[no-untyped-call]
                if constants.old is None:
                    self._see(pending, batch, micro, stats)

        def undo() -> None:
            self.optimizer.zero_grad(set_to_none=True)
            objective.reset()

        self.micro_batch_size.fitting(backward, undo)
        objective.gather()
        sum_gradients(self.parameters)
        return objective

    def _step(
        self, rows: Sequence[int], mean_ratio: float = 1.0, moved: float = 0.0
    ) -> tuple[Outcome, float]:
        """Steps with the gradient that was accumulated, unless the minibatch is to be skipped."""
        config = self.config
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, config.max_grad_norm))
        outcome: Outcome = "stepped"
        if config.max_ratio is not None and mean_ratio > config.max_ratio:
            outcome = "ratio_exploded"
        elif not math.isfinite(norm):
            outcome = "not_finite"
        elif config.target_kl is not None and moved > config.target_kl:
            outcome = "kl_target"
        else:
            self.optimizer.step()
            self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._not_finite = self._not_finite + 1 if outcome == "not_finite" else 0
        if self._not_finite >= config.max_bad_gradients:
            raise Diverged(
                f"training diverged: the gradients of {self._not_finite} minibatches in a row are "
                "not finite. Lower --learning_rate or --max_grad_norm.",
                rows,
            )
        return outcome, norm

    def _pass(
        self,
        policy: Policy,
        batch: Batch,
        extras: Extras,
        pick: Callable[[TokenStats], torch.Tensor],
    ) -> list[FloatArray]:
        """Returns a quantity of every answer without gradient, each [..., T_i]."""
        own = own_share(range(len(batch)))
        result: dict[int, FloatArray] = {}

        def passes() -> None:
            for rows in self._micro_batches(batch, own):
                stats = policy(self._sequences(batch, rows), self.config.temperature, extras)
                array = pick(stats).double().cpu().numpy()
                for place, row in enumerate(rows):
                    result[row] = array[..., place, : len(batch.responses[row])]

        with torch.no_grad():
            self.micro_batch_size.fitting(passes, lambda: None)
        return all_gathered([result[row] for row in own])

    def _see(self, pending: Pending, batch: Batch, rows: Sequence[int], stats: TokenStats) -> None:
        """Keeps the log-probabilities of the only pass, to compare them with the engine's."""
        array = stats.log_probs.detach().double().cpu().numpy()
        for place, row in enumerate(rows):
            pending.seen[row] = array[place, : len(batch.responses[row])]

    def _micro_batches(self, batch: Batch, rows: Sequence[int]) -> Iterator[list[int]]:
        lengths = [len(p) + len(r) for p, r in zip(batch.prompts, batch.responses, strict=True)]
        return micro_batches(lengths, rows, self.micro_batch_size.value)

    def _sequences(self, batch: Batch, rows: Sequence[int]) -> Sequences:
        return Sequences.of(
            [batch.prompts[row] for row in rows],
            [batch.responses[row] for row in rows],
            self.policy.device,
        )


def _from_all(rows: list[FloatArray | None]) -> list[FloatArray | None]:
    """Returns rows of which each process knows some, with what the others know."""
    if world_size() > 1:
        known = [(place, row) for place, row in enumerate(rows) if row is not None]
        found = dict(all_gathered(known))
        return [found.get(place) for place in range(len(rows))]
    return rows


def _log_probs_and_mass(stats: TokenStats) -> torch.Tensor:
    return torch.stack([stats.log_probs, stats.log_mass])
