"""Sampled answers as tianshou's ``Batch``: a row an episode, or a row a step (a token).

``episodes`` suits whoever works on whole answers: ``episodes(rows).split(16)`` cuts minibatches,
``batch[batch.truncated]`` picks. ``transitions`` has what tianshou's buffers and its
``compute_episodic_return`` take, and the columns that its on-policy algorithms work with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tianshou.data import Batch

from agents.core.advantages import FloatArray
from agents.core.rollout import Trajectory


def episodes(
    trajectories: Sequence[Trajectory], advantages: Sequence[FloatArray] | None = None
) -> Any:
    """Returns answers as a Batch of N rows, an episode each; T is the longest answer.

    ============  =========================================================================
    obs           ``tokens`` int32 [N, L], the prompt, right padded; ``length`` int32 [N, 1]
    act           the answer's ids, int64 [N, T], 0 beyond its end
    mask          where ``act`` is real, bool [N, T]
    rew           float64 [N], the overlong penalty in it
    terminated    bool [N]; ``truncated`` and ``done`` likewise
    logp_old      the engine's log-probabilities, float64 [N, T], 0 beyond
    info          the environment's last ``info``, each entry [N]
    adv           float64 [N, T], 0 beyond; only with ``advantages``
    ============  =========================================================================

    Args:
        trajectories: At least one.
        advantages: Of each token, each [T_i], for example ``agent.advantages(...).tokens``.

    Raises:
        ValueError: There is no trajectory.
    """
    _some(trajectories)
    prompts = [row.start.tokens for row in trajectories]
    responses = [row.response for row in trajectories]
    batch: Any = Batch(
        obs=_observations(prompts, max(map(len, prompts))),
        act=_padded(responses, np.int64),
        mask=_padded([[True] * len(response) for response in responses], np.bool_),
        rew=np.array([row.reward for row in trajectories], dtype=np.float64),
        **_ends(trajectories),
        logp_old=_padded([row.log_probs for row in trajectories], np.float64),
        info=Batch([row.info for row in trajectories]),
    )
    if advantages is not None:
        batch.adv = _padded(advantages, np.float64)
    return batch


def transitions(
    trajectories: Sequence[Trajectory],
    advantages: Sequence[FloatArray] | None = None,
    *,
    rewards: Sequence[FloatArray] | None = None,
    width: int | None = None,
) -> Any:
    """Returns answers as a Batch of M rows, a token each, answer after answer.

    The columns are those of a ReplayBuffer (obs, act, rew, terminated, truncated, done, obs_next,
    info) and what on-policy algorithms add: ``logp_old``, ``returns`` (the sum of the rewards from
    the token on) and, with ``advantages``, ``adv``. ``info.episode`` is the answer's place.
    Observations are those of our environments. Two padded ones a token are M * 2 * L ids: meant for
    small vocabularies and short answers.

    Args:
        trajectories: At least one.
        advantages: Of each token, each [T_i].
        rewards: r_t of each token, each [T_i], as ``agent.token_rewards`` gives them; None: the
            answer's reward with its last token.
        width: L, the length of an observation; None: that of the longest prompt and answer.

    Raises:
        ValueError: There is no trajectory, or one is longer than ``width``.
    """
    _some(trajectories)
    if rewards is None:
        rewards = [np.array([0.0] * (len(t.response) - 1) + [t.reward]) for t in trajectories]
    texts = [t.start.tokens + t.response for t in trajectories]
    longest = max(map(len, texts))
    if width is not None and width < longest:
        raise ValueError(f"width must be at least that of the longest answer, {longest}: {width}")
    before, after, last, episode = [], [], [], []
    for number, (trajectory, text) in enumerate(zip(trajectories, texts, strict=True)):
        first = len(trajectory.start.tokens)
        before += [text[:end] for end in range(first, len(text))]
        after += [text[:end] for end in range(first + 1, len(text) + 1)]
        last += [False] * (len(trajectory.response) - 1) + [True]
        episode += [number] * len(trajectory.response)
    ends = {name: column[episode] & last for name, column in _ends(trajectories).items()}
    batch: Any = Batch(
        obs=_observations(before, width or longest),
        act=np.concatenate([np.array(t.response, np.int64) for t in trajectories]),
        rew=np.concatenate(rewards),
        **ends,
        obs_next=_observations(after, width or longest),
        info=Batch(
            problem_id=np.array([trajectories[number].start.problem_id for number in episode]),
            episode=np.array(episode),
        ),
        logp_old=np.concatenate([t.log_probs for t in trajectories]),
        returns=np.concatenate([np.cumsum(row[::-1])[::-1] for row in rewards]),
    )
    if advantages is not None:
        batch.adv = np.concatenate(advantages)
    return batch


def _some(trajectories: Sequence[Trajectory]) -> None:
    if not trajectories:
        raise ValueError("a Batch needs at least one trajectory, got none")


def _ends(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    terminated = np.array([row.terminated for row in trajectories])
    truncated = np.array([row.truncated for row in trajectories])
    return {"terminated": terminated, "truncated": truncated, "done": terminated | truncated}


def _observations(rows: Sequence[Sequence[int]], width: int) -> Any:
    lengths = np.array([[len(row)] for row in rows], dtype=np.int32)
    return Batch(tokens=_padded(rows, np.int32, width), length=lengths)


def _padded(rows: Sequence[Any], dtype: Any, width: int | None = None) -> NDArray[Any]:
    """Returns rows of any length as one array [N, width], 0 beyond their ends."""
    width = max(map(len, rows)) if width is None else width
    result = np.zeros((len(rows), width), dtype=dtype)
    for place, row in enumerate(rows):
        result[place, : len(row)] = row
    return result
