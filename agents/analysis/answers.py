"""Answers of a policy to a subject's problems, and what another pass says of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from agents.analysis.subject import Subject
from agents.core.advantages import FloatArray
from agents.core.evaluation import success_of
from agents.core.micro import micro_batches
from agents.core.policy import Extras, Policy, Sequences, TokenStats
from agents.core.records import Interval, accuracy_interval
from agents.core.rollout import Sampler, Start, Trajectory

_ANSWERS_A_PASS = 64


def sampled(sampler: Sampler, starts: Sequence[Start], answers: int) -> list[list[Trajectory]]:
    """Returns ``answers`` of each start; the random streams are the same for every policy."""
    return sampler.sample(starts, answers, iteration=0, purpose="analysis")


def accuracy_of(groups: Sequence[Sequence[Trajectory]]) -> Interval:
    """Returns the share of right answers with its interval over problems."""
    return accuracy_interval([[success_of(answer) for answer in group] for group in groups])


def interval_json(interval: Interval) -> dict[str, float | int]:
    """Returns an interval as JSON holds it.

    >>> interval_json(Interval(0.5, 0.4, 0.6, 10))
    {'mean': 0.5, 'low': 0.4, 'high': 0.6, 'n': 10}
    """
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}


def token_pass(
    policy: Policy,
    answers: Sequence[Trajectory],
    subject: Subject,
    pick: Callable[[TokenStats], Sequence[Tensor]],
    extras: Extras | None = None,
) -> list[list[FloatArray]]:
    """Returns quantities of each answer's tokens in a pass of ``policy``, without gradient.

    Args:
        policy: Which reads the answers; not always the one that sampled them.
        answers: N of them.
        subject: Its temperature is that of the distributions.
        pick: Which quantities of the pass, Q of them, each [B, T].
        extras: What else the pass computes.

    Returns:
        Q lists of N arrays [T_i].
    """
    prompts = [answer.start.tokens for answer in answers]
    responses = [answer.response for answer in answers]
    lengths = [len(p) + len(r) for p, r in zip(prompts, responses, strict=True)]
    found: dict[int, list[FloatArray]] = {}
    with torch.no_grad():
        for rows in micro_batches(lengths, range(len(answers)), _ANSWERS_A_PASS):
            sequences = Sequences.of(
                [prompts[row] for row in rows], [responses[row] for row in rows], policy.device
            )
            stats = policy(sequences, subject.config.temperature, extras or Extras())
            arrays = [np.asarray(tensor.double().cpu()) for tensor in pick(stats)]
            for place, row in enumerate(rows):
                found[row] = [array[place, : len(responses[row])] for array in arrays]
    return [list(column) for column in zip(*(found[row] for row in sorted(found)), strict=True)]
