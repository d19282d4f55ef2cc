"""Measures the policy gradients of several estimators on the same answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from agents.analysis.estimators import Credit, Estimator
from agents.analysis.moments import Moments, Signal
from agents.core.advantages import FloatArray
from agents.core.config import BaseConfig
from agents.core.micro import micro_batches
from agents.core.objective import Batch, Constants, Objective
from agents.core.policy import Extras, Policy, Sequences
from agents.core.rollout import Trajectory

GradientOf = Callable[[Sequence[Trajectory], Sequence[Sequence[FloatArray]]], list[Any]]
"""Called with answers and, for each estimator, their advantages; returns a gradient for each."""


def first_step(temperature: float, top_p: float = 1.0, micro_batch_size: int = 64) -> BaseConfig:
    """Returns the settings of the plain policy gradient: the first, on-policy step, no whitening.

    Token sums, mean over answers (an unbiased gradient), no KL and no entropy bonus. With top-p the
    loss divides by the nucleus' mass, as sampling does.

    Args:
        temperature: Of sampling.
        top_p: Nucleus mass sampled from.
        micro_batch_size: Answers a pass.
    """
    return BaseConfig(
        micro_batch_size=micro_batch_size,
        temperature=temperature,
        top_p=top_p,
        top_p_correction="renormalise" if top_p < 1 else "none",
        aggregation="sum_constant",
        updates_per_batch=1,
        whiten="none",
        beta=0.0,
    )


def policy_gradients(
    policy: Policy,
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[FloatArray]],
    config: BaseConfig,
) -> list[Tensor]:
    """Returns the gradient of the agents' loss on the same answers for several advantages.

    The policy runs once; each estimator has its own backward pass.

    Args:
        policy: At the weights that sampled the answers.
        trajectories: The N answers.
        advantages: For each of E estimators those of each token, N arrays [T_i].
        config: See ``first_step``.

    Returns:
        E flat gradients, each [P], of all weights that are trained.
    """
    rows = range(len(trajectories))
    prompts = [trajectory.start.tokens for trajectory in trajectories]
    responses = [trajectory.response for trajectory in trajectories]
    batch = Batch(prompts, responses, [], [trajectory.log_probs for trajectory in trajectories])
    objectives = [
        Objective(
            batch,
            rows,
            Constants(list(arrays), None, None, None),
            config,
            has_kl=False,
            budget=1,  # the constant that the sums are divided by
            value=None,
        )
        for arrays in advantages
    ]
    weights = [weight for weight in policy.parameters() if weight.requires_grad]
    size = sum(weight.numel() for weight in weights)
    totals = [weights[0].new_zeros(size) for _ in objectives]
    lengths = [len(p) + len(r) for p, r in zip(prompts, responses, strict=True)]
    extras = Extras(top_p=config.top_p)
    for micro in micro_batches(lengths, rows, config.micro_batch_size):
        sequences = Sequences.of(
            [prompts[row] for row in micro], [responses[row] for row in micro], policy.device
        )
        stats = policy(sequences, config.temperature, extras)
        for place, (objective, total) in enumerate(zip(objectives, totals, strict=True)):
            parts = torch.autograd.grad(
                objective.loss(micro, stats, sequences.mask),
                weights,
                retain_graph=place + 1 < len(objectives),
                materialize_grads=True,
            )
            total += torch.cat([part.flatten() for part in parts])
    return totals


@dataclass
class Measurement:
    """What was measured of one estimator.

    Attributes:
        estimator: Which.
        moments: Of its gradients, one vector a group.
        tokens: Generated in all, the answers included.
        seconds: CPU seconds in all: answers, values and one training pass.
    """

    estimator: Estimator
    moments: Moments = field(default_factory=Moments)
    tokens: int = 0
    seconds: float = 0.0


def measure(
    estimators: Sequence[Estimator],
    collect: Callable[[int], list[Trajectory]],
    mark: Callable[[Trajectory], None],
    sampler: Any,
    gradient_of: GradientOf,
    *,
    group: int,
    baseline: Estimator,
    reference: Sequence[int],
    iterations: Sequence[int],
    progress: Callable[[], None] = lambda: None,
) -> tuple[Signal, list[Measurement]]:
    """Measures estimators against a large-batch gradient of other answers.

    Args:
        estimators: What is compared.
        collect: Returns the answers of an iteration, ``group`` of each prompt in turn.
        mark: Cuts an answer into steps, for the estimators that value states.
        sampler: Given to the estimators.
        gradient_of: See ``GradientOf``; for all groups of a batch at once it is timed only.
        group: Answers a prompt.
        baseline: Whose gradient on the answers of ``reference`` is the large-batch one; unbiased.
        reference: Iterations of the large batch.
        iterations: Those that are measured; no iteration may be in both.
        progress: Called after every iteration.

    Raises:
        ValueError: An iteration is in both.
    """
    if set(reference) & set(iterations):
        raise ValueError("the large batch and the measured ones must not share iterations")
    signal = Signal()
    for iteration in reference:
        answers = collect(iteration)
        credit = baseline.credit(sampler, answers, group, iteration)
        for part, arrays in _groups(answers, [credit], group):
            signal.add(gradient_of(part, arrays)[0])
        progress()
    direction = signal.mean()
    for answer in answers:
        mark(answer)
    for estimator in estimators:  # first calls import and compile: not what an iteration costs
        estimator.credit(sampler, answers, group, reference[-1])
    results = [Measurement(estimator) for estimator in estimators]
    for iteration in iterations:
        clock = _Clock()
        with clock.run("answers"):
            answers = collect(iteration)
        with clock.run("borders"):
            for answer in answers:
                mark(answer)
        credits = []
        for result in results:
            with clock.run(result.estimator.name):
                credits.append(result.estimator.credit(sampler, answers, group, iteration))
        with clock.run("training"):
            gradient_of(answers, [credits[0].advantages])
        for result, credit in zip(results, credits, strict=True):
            result.tokens += credit.tokens + sum(len(answer.response) for answer in answers)
            result.seconds += clock.cost(result.estimator)
        for part, arrays in _groups(answers, credits, group):
            for result, gradient in zip(results, gradient_of(part, arrays), strict=True):
                result.moments.add(gradient, direction)
        progress()
    return signal, results


def _groups(
    answers: Sequence[Trajectory], credits: Sequence[Credit], group: int
) -> Iterator[tuple[list[Trajectory], list[list[FloatArray]]]]:
    """Yields each prompt's answers with their advantages by each estimator."""
    for start in range(0, len(answers), group):
        rows = range(start, start + group)
        arrays = [[credit.advantages[row] for row in rows] for credit in credits]
        yield [answers[row] for row in rows], arrays


class _Clock:
    """CPU seconds of the phases of one iteration, all threads of this process together."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def run(self, name: str) -> Iterator[None]:
        started = time.process_time()
        yield
        self.seconds[name] = time.process_time() - started

    def cost(self, estimator: Estimator) -> float:
        """Returns what an iteration of an estimator costs."""
        cost = self.seconds["answers"] + self.seconds[estimator.name]
        cost += self.seconds["training"] * estimator.training_passes
        return cost + (self.seconds["borders"] if estimator.values_states else 0.0)
