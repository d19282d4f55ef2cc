"""From trajectories to rows to train on: group returns, and which answers count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from agents.core.advantages import FloatArray
from agents.core.config import BaseConfig
from agents.core.curriculum import curriculum_metrics, record_successes
from agents.core.envs import ProblemCursor
from agents.core.objective import Batch
from agents.core.rollout import Sampler, Start, Trajectory

_WAVES = 4
"""How often groups without spread are replaced before what is left of them is skipped."""


@dataclass(frozen=True, slots=True)
class Advantages:
    """What an algorithm says about one iteration's answers; lists have one entry an answer.

    Attributes:
        tokens: The raw advantage of each token, float64, each of shape [T_i].
        metrics: Numbers to log.
        values: V of the state at each border, if the algorithm estimates it; else empty lists.
        returns: What a critic should say before each token, each [T_i]; empty without a critic.
        token_values: What it says now, each [T_i]; empty without a critic. Shown in samples
            if ``values`` is empty.
        rollouts: Further rows to train on, beside the answers; most algorithms have none.
        rollout_tokens: The raw advantage of each of their tokens, each [T_i].
    """

    tokens: list[FloatArray]
    metrics: dict[str, float]
    values: list[list[float]]
    returns: list[FloatArray] = field(default_factory=list)
    token_values: list[FloatArray] = field(default_factory=list)
    rollouts: list[Trajectory] = field(default_factory=list)
    rollout_tokens: list[FloatArray] = field(default_factory=list)

    @staticmethod
    def of_answers(
        advantages: FloatArray, trajectories: Sequence[Trajectory], metrics: dict[str, float]
    ) -> Advantages:
        """Gives every token of an answer the answer's advantage.

        Args:
            advantages: One number an answer, [N] or [prompts, answers].
            trajectories: The N answers, in the same order.
            metrics: Numbers to log.
        """
        pairs = zip(advantages.ravel(), trajectories, strict=True)
        tokens = [np.full(len(trajectory.response), number) for number, trajectory in pairs]
        return Advantages(tokens, metrics, [[] for _ in tokens])


def group_returns(rewards: Sequence[FloatArray], num_generations: int) -> FloatArray:
    """Returns the sum of each answer's token rewards, [prompts, num_generations].

    Args:
        rewards: r_t of each answer, each [T_i]; the answers of a prompt stand together.
        num_generations: Answers a prompt.

    >>> group_returns([np.array([0.0, 1.0]), np.array([-0.5])], 2).tolist()
    [[1.0, -0.5]]
    """
    return np.array([row.sum() for row in rewards]).reshape(-1, num_generations)


def zero_spread_groups(trajectories: Sequence[Trajectory], num_generations: int) -> list[bool]:
    """Returns whether each group of answers got the same reward throughout, [prompts]."""
    starts = range(0, len(trajectories), num_generations)
    return [_flat(trajectories[start : start + num_generations]) for start in starts]


def sample_groups(
    sampler: Sampler,
    cursor: ProblemCursor,
    config: BaseConfig,
    iteration: int,
    progress: Callable[[int, int], None],
) -> tuple[list[list[Trajectory]], dict[str, float]]:
    """Samples an iteration's answers, a group for each prompt, and returns numbers to log.

    With ``zero_spread=resample`` a group whose answers all have the same reward is replaced by the
    answers to another problem, up to four times (DAPO's dynamic sampling, arXiv 2503.14476).
    Biased: which problems are trained on depends on how their answers turned out.

    The environment's curriculum, if it has one, gets one outcome a problem.

    Args:
        sampler: Engine and environment.
        cursor: Gives the problems.
        config: ``num_generations`` and ``zero_spread`` are read.
        iteration: From 1.
        progress: Called with (answers, tokens).
    """

    def sampled(starts: list[Start]) -> list[list[Trajectory]]:
        groups = sampler.sample(
            starts,
            config.num_generations,
            iteration=iteration,
            purpose="rollout",
            progress=progress,
        )
        record_successes(sampler.env, groups)  # of all groups, also those that are replaced
        return groups

    metrics = curriculum_metrics(sampler.env)
    groups = sampled(list(cursor.starts(iteration)))
    if config.zero_spread != "resample":
        return groups, metrics
    seen = {group[0].start.problem_id for group in groups}
    more = cursor.more(iteration, seen, len(groups))
    replaced = tokens = 0
    for _ in range(_WAVES):
        flat = [place for place, group in enumerate(groups) if _flat(group)]
        fresh = sampled(starts) if (starts := list(islice(more, len(flat)))) else []
        for place, group in zip(flat, fresh, strict=False):
            tokens += sum(len(trajectory.response) for trajectory in groups[place])
            groups[place] = group
        replaced += len(fresh)
    resampled = {"resampled/groups": float(replaced), "resampled/tokens": float(tokens)}
    return groups, metrics | resampled


def _flat(group: Sequence[Trajectory]) -> bool:
    return len({trajectory.reward for trajectory in group}) == 1


def batch_of(
    trajectories: Sequence[Trajectory], advantages: list[FloatArray], config: BaseConfig
) -> Batch:
    """Returns the rows to train on; ``zero_spread`` and ``truncated_answers`` say which count.

    Args:
        trajectories: ``num_generations`` answers of each prompt in turn, ``num_prompts`` prompts,
            and after them rows that belong to no group.
        advantages: Of each token, each [T_i].
        config: The switches.
    """
    answers = trajectories[: config.num_prompts * config.num_generations]
    masked = [t.truncated and config.truncated_answers == "mask" for t in trajectories]
    skipped = [
        flat and config.zero_spread != "keep"
        for flat in zero_spread_groups(answers, config.num_generations)
        for _ in range(config.num_generations)
    ]
    skipped += [False] * (len(trajectories) - len(answers))
    pairs = list(zip(masked, skipped, strict=True))
    return Batch(
        [trajectory.start.tokens for trajectory in trajectories],
        [trajectory.response for trajectory in trajectories],
        advantages,
        [trajectory.log_probs for trajectory in trajectories],
        in_policy_loss=[not (mask or skip) for mask, skip in pairs],
        in_kl=[not (mask or (skip and not config.zero_spread_kl)) for mask, skip in pairs],
    )
