"""Monte-Carlo values of states: the heart of VinePPO.

V(s) is the mean reward of K continuations of s, sampled by the policy after the environment was
restored to s. Equal states of a problem are one state, also across sibling answers.

Two estimators, both unbiased (on-policy, and with a causal segmenter also the policy gradient):

- the paper's: K fresh rollouts for every distinct state;
- with reuse: every row that passes through s is a sample of V(s), an answer never of its own
  values; fresh rollouts only fill up to K. With K = 0 there are none: the group's own tree is all,
  and an answer's values end where it leaves the others. See ``agents/core/sample_pool.py``, and
  ``agents/core/named_states.py`` for states that the environment names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.core.allocation import VarianceAllocation
from agents.core.named_states import NamedPool, NamedStates
from agents.core.rollout import Sampler, Start, Trajectory, later_borders, start_at
from agents.core.sample_pool import SamplePool, StateKey, rollout_owner, state_key
from agents.engines.base import Progress, silent


@dataclass(frozen=True, slots=True)
class ValueEstimates:
    """Values of the borders of every trajectory, and what they cost.

    Attributes:
        values: For each trajectory V of its borders, the prompt first; shorter than its borders
            where a cap was set, or no sample of a state is left (K = 0): for the rest the reward
            less the last value stays unbiased (``spread_advantages``).
        metrics: ``vine/*`` numbers of the iteration.
        pool: The samples behind the values.
        rollouts: The fresh rollouts.
    """

    values: list[list[float]]
    metrics: dict[str, float]
    pool: SamplePool
    rollouts: list[Trajectory]

    def value_rollouts(self, env: Any) -> list[list[float]]:
        """Returns the values of the states that each rollout passes, without its own outcome.

        Cuts the rollouts into steps: their ``borders`` are set, the first where they begin. The
        values end at the first state that has no other sample, or that no answer came to. Given the
        state that a rollout began at they are unbiased, as those of the answers, if rows that pass
        a state count for it.

        Args:
            env: Whose segmenter cuts.
        """
        found = []
        for number, rollout in enumerate(self.rollouts):
            rollout.borders = later_borders(env, rollout)
            found.append(_values(self.pool, state_keys(rollout), rollout_owner(number)))
        return found


def state_keys(trajectory: Trajectory, max_steps: int | None = None) -> list[StateKey]:
    """Returns the key of the state at each border, up to the cap.

    Args:
        trajectory: With borders.
        max_steps: Only the borders 0 .. max_steps are valued; None: all.
    """
    borders = trajectory.borders if max_steps is None else trajectory.borders[: max_steps + 1]
    slot, prompt = trajectory.start.slot, trajectory.start.tokens
    return [state_key(slot, prompt + trajectory.response[:border]) for border in borders]


def monte_carlo_values(
    sampler: Sampler,
    trajectories: Sequence[Trajectory],
    num_rollouts: int,
    *,
    iteration: int,
    reuse: bool = True,
    named: bool = False,
    max_steps: int | None = None,
    max_waves: int = 3,
    allocation: VarianceAllocation | None = None,
    progress: Progress = silent,
) -> ValueEstimates:
    """Estimates V at every border of every trajectory.

    A rollout may spend what the restored environment has left. A row counts with the reward that
    the environment gave it, also if it ran out of budget.

    Args:
        sampler: Engine and environment.
        trajectories: With borders and states (see ``mark_states``).
        num_rollouts: K, samples a state, >= 1; with reuse and two or more answers a prompt also 0,
            no rollouts at all.
        iteration: Part of the random streams.
        reuse: Whether rows that pass through a state are samples of it too; False is the paper's
            estimator.
        named: With reuse, whether the environment's ``state_key`` says which states are the same;
            False: their tokens do. Biased if the key forgets something that matters.
        max_steps: Borders after this one are not valued; None: all are.
        max_waves: With reuse and an engine that cannot sweep, how often it is asked at most:
            shallow states come first, as their rollouts may serve the deeper ones, and the last
            time all that still lack samples. More waves generate fewer tokens. A sweep
            (``SweepEngine``) generates as few as unlimited waves.
        allocation: Says how many samples each state gets, K on average, and learns from this
            iteration for the next; None: K each.
        progress: Called with (rollouts, tokens) as they finish.

    Raises:
        ValueError: K or the cap is out of range, or the environment cannot name states.
    """
    if num_rollouts < 1 - reuse:
        remedy = "" if reuse else " without reuse"
        raise ValueError(
            f"num_rollouts (K) must be >= {1 - reuse}{remedy}, got {num_rollouts} (paper: 9)"
        )
    if max_steps is not None and max_steps < 1:
        raise ValueError(f"max_steps_valued must be >= 1, got {max_steps} (paper: 25 on GSM8K)")
    names = NamedStates(sampler.env) if named and reuse else None
    if names is None:
        keys = [state_keys(trajectory, max_steps) for trajectory in trajectories]
    else:
        last_border = None if max_steps is None else max_steps + 1
        keys = [names.keys(row, row.borders[:last_border]) for row in trajectories]
    starts = _starts(trajectories, keys)
    pool = SamplePool(starts) if names is None else NamedPool(keys)
    if reuse:
        for owner, trajectory in enumerate(trajectories):
            _count(pool, trajectory, owner, names)
    wanted = allocation.wanted(starts) if allocation else dict.fromkeys(starts, num_rollouts)
    fresh: list[Trajectory] = []
    rolled_out = 0
    in_one_sweep = reuse and names is None and sampler.can_sweep()
    for number in range(1, max_waves + 1):
        last = in_one_sweep or not reuse or number == max_waves
        wave = pool.lacking(wanted, below_others=last)
        if not wave:
            break
        groups = sampler.sample(
            [starts[key] for key in wave],
            list(wave.values()),
            iteration=iteration,
            purpose="value",
            shared=in_one_sweep,
            progress=progress,
        )
        for key, group in zip(wave, groups, strict=True):
            rolled_out += bool(group)
            for number, rollout in enumerate(group, len(fresh)):
                if reuse:
                    _count(pool, rollout, rollout_owner(number), names)
                else:
                    pool.add_at(key, rollout.reward)
            fresh.extend(group)
        if last:
            break
    if allocation:
        allocation.learn(starts, pool)
    values = [_values(pool, row, owner) for owner, row in enumerate(keys)]
    used = [len(pool.rewards(key, owner)) for owner, row in enumerate(keys) for key in row]
    metrics = {
        "vine/states": float(len(used)),
        "vine/unique_states": float(len(starts)),
        "vine/steps": len(used) / len(trajectories),
        "vine/k_fresh": len(fresh) / len(used),
        "vine/k_effective": float(np.mean(used)),
        "vine/valued_ratio": sum(map(len, values)) / len(used),
        "vine/answered_without_rollout": 1 - rolled_out / len(starts),
        "vine/tokens": float(sum(len(rollout.response) for rollout in fresh)),
        "vine/truncated_ratio": float(np.mean([rollout.truncated for rollout in fresh] or [False])),
        "vine/value_mean": float(np.mean([value for row in values for value in row])),
        "vine/value_std_within": float(np.mean([np.std(pool.rewards(key)) for key in starts])),
    }
    return ValueEstimates(values, metrics, pool, fresh)


def _values(pool: SamplePool, keys: Sequence[StateKey], owner: int) -> list[float]:
    """Returns V of an answer's states, up to the first of which it has no sample.

    Where the values end depends on the tokens before that state alone, as a step that begins there
    has no value before it either: the baseline of a step never depends on the step.
    """
    values = []
    for key in keys:
        rewards = pool.rewards(key, owner) if key in pool else []
        if not rewards:
            break
        values.append(float(np.mean(rewards)))
    if not values:
        raise ValueError(
            "num_rollouts=0 leaves an answer without siblings no value: set num_generations to 2 "
            "or more, or num_rollouts to 1 or more"
        )
    return values


def _starts(
    trajectories: Sequence[Trajectory], keys: Sequence[Sequence[StateKey]]
) -> dict[StateKey, Start]:
    """Returns the distinct states, each with a snapshot to restore and its budget."""
    starts: dict[StateKey, Start] = {}
    for trajectory, row in zip(trajectories, keys, strict=True):
        for number, key in enumerate(row):
            if key not in starts:
                starts[key] = start_at(trajectory, number)
    return starts


def _count(pool: SamplePool, row: Trajectory, owner: int, names: NamedStates | None) -> None:
    if names is not None and isinstance(pool, NamedPool):
        pool.add_named(names.passed(row), owner=owner, reward=row.reward)
        return
    start = row.start
    tokens = start.tokens + row.response
    pool.add(start.slot, tokens, born=len(start.tokens), owner=owner, reward=row.reward)
