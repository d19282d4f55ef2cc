"""Groups of answers that start in the middle: each from a state inside an earlier answer.

One answer to each problem is sampled first, and one of its step borders drawn, uniformly and by a
random stream of its own. The environment is restored there, and the group's answers go on from that
state. They are trained on from there on; the first answer is not. So the policy gradient is that of
the mean value of such states, with the chance to come to them held fixed: where an answer goes
wrong late, the answers that are compared share all that came before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from agents.core.config import BaseConfig
from agents.core.curriculum import curriculum_metrics, record_successes
from agents.core.envs import ProblemCursor
from agents.core.rollout import Sampler, Start, Trajectory, mark_states, start_at
from agents.core.streams import generator
from agents.engines.base import Progress

Pick = Callable[[int, int], int]
"""(prompt slot, number of borders) -> which border."""


def inner_starts(
    sampler: Sampler, starts: Sequence[Start], iteration: int, pick: Pick
) -> tuple[list[Start], list[Trajectory]]:
    """Returns a state inside an answer from each start, and those answers.

    Args:
        sampler: Engine and environment.
        starts: The prompts.
        iteration: Part of the random streams.
        pick: Chooses the border; the first is the prompt itself.
    """
    groups = sampler.sample(starts, 1, iteration=iteration, purpose="restart")
    answers = [group[0] for group in groups]
    inner = []
    for answer in answers:
        mark_states(sampler.env, answer)
        inner.append(start_at(answer, pick(answer.start.slot, len(answer.borders))))
    return inner, answers


def restarted_groups(
    sampler: Sampler,
    cursor: ProblemCursor,
    config: BaseConfig,
    iteration: int,
    progress: Progress,
) -> tuple[list[list[Trajectory]], dict[str, float]]:
    """Samples an iteration's answers from inner states, and returns numbers to log.

    The environment's curriculum, if it has one, gets the outcomes of the first answers, which alone
    start at the prompt.

    Args:
        sampler: Engine and environment.
        cursor: Gives the problems.
        config: ``num_generations`` and ``seed`` are read.
        iteration: From 1.
        progress: Called with (answers, tokens).
    """

    def pick(slot: int, borders: int) -> int:
        return int(generator(config.seed, iteration, "restart", slot).integers(borders))

    metrics = curriculum_metrics(sampler.env)
    starts, answers = inner_starts(sampler, list(cursor.starts(iteration)), iteration, pick)
    record_successes(sampler.env, [[answer] for answer in answers])
    groups = sampler.sample(
        starts, config.num_generations, iteration=iteration, purpose="rollout", progress=progress
    )
    lengths = [len(answer.response) for answer in answers]
    shares = [start.written / length for start, length in zip(starts, lengths, strict=True)]
    return groups, metrics | {
        "restart/depth": float(np.mean(shares)),
        "restart/tokens": float(sum(lengths)),
    }
