"""Rollouts: the engine proposes whole continuations, the environment plays and judges them.

The environment is used through its standard interface only: ``reset``, ``step`` (or ``play``, if it
has one), ``snapshot`` and ``restore``. It is the only judge of reward and end of an episode; what
the engine believed is compared with it, and a difference is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.core.distributed import all_gathered, blocks, rank, world_size
from agents.core.interrupt import Stopped
from agents.core.overlong import NO_PENALTY, OverlongPenalty
from agents.core.streams import stream_key
from agents.engines.base import (
    Completion,
    Engine,
    Progress,
    SamplingParams,
    SweepEngine,
    silent,
)


@dataclass(slots=True)
class Start:
    """A state from which answers are sampled.

    Attributes:
        snapshot: The state, as the environment gave it.
        tokens: Prompt and response so far.
        budget: New tokens the environment still allows, >= 1.
        slot: Which prompt of the iteration this belongs to.
        problem_id: The problem, from ``info``.
        written: How many of ``tokens`` are response already.
    """

    snapshot: Any
    tokens: list[int]
    budget: int
    slot: int
    problem_id: str
    written: int = 0


@dataclass(slots=True)
class Trajectory:
    """One sampled answer, played through the environment.

    Attributes:
        start: Where it began.
        response: The sampled ids, [T].
        log_probs: The engine's log-probability of each, float64, [T].
        reward: Sum of the environment's rewards, and the overlong penalty.
        terminated: Whether it ended by a stop token or string.
        truncated: Whether it ran out of budget.
        info: The environment's last info; knows nothing of the penalty.
        penalty: The overlong penalty in ``reward``, <= 0.
        borders: Where each step starts, as indices into ``response``; see ``mark_states``.
        states: The environment's snapshot at each border.
    """

    start: Start
    response: list[int]
    log_probs: NDArray[np.float64]
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    penalty: float = 0.0
    borders: list[int] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sampler:
    """Samples from an engine within the rules of an environment.

    Attributes:
        engine: Proposes tokens.
        env: The unwrapped environment that plays them.
        seed: The run's seed, part of every random stream.
        temperature: Of sampling.
        top_p: Nucleus mass.
        judging: Makes a context for the time in which the environment plays and grades.
        overlong: Part of every answer's reward.
    """

    engine: Engine
    env: Any
    seed: int
    temperature: float
    top_p: float = 1.0
    judging: Callable[[], AbstractContextManager[Any]] = nullcontext
    overlong: OverlongPenalty = NO_PENALTY

    def can_sweep(self) -> bool:
        """Returns whether the engine continues states of all depths in one sweep."""
        return isinstance(self.engine, SweepEngine) and self.engine.can_sweep()

    def sample(
        self,
        starts: Sequence[Start],
        n: int | Sequence[int],
        *,
        iteration: int,
        purpose: str,
        shared: bool = False,
        progress: Progress = silent,
    ) -> list[list[Trajectory]]:
        """Returns answers from each start, played to their end.

        Several processes share the starts out in blocks that may cost as many tokens (no slot in
        two, if ``shared``), each with its own engine, and have all answers in the end.

        Args:
            starts: States; no two may be the same state of the same slot, or their random streams
                would be the same.
            n: Answers of each start, >= 1; one number for all, or one for each.
            iteration: Part of every random stream.
            purpose: Part of every random stream: "rollout", "value", "evaluation/greedy", ...
            shared: Whether an answer counts for every start of its slot that it passes through,
                which then gets so many fewer; only where ``can_sweep`` says so.
            progress: Called with (answers, tokens) as the engine finishes them, at the end with
                those of the other processes.

        Raises:
            RuntimeError: The environment ended elsewhere than the engine stopped.
            Stopped: ``progress`` raised it, on this process or another one.
        """
        counts = [n] * len(starts) if isinstance(n, int) else list(n)
        if world_size() == 1:
            return self._sample_here(starts, counts, iteration, purpose, shared, progress)
        costs = [start.budget * count for start, count in zip(starts, counts, strict=True)]
        slots = [start.slot for start in starts] if shared else []
        part = blocks(costs, world_size(), slots)[rank()]
        own = slice(part.start, part.stop)
        try:
            found: list[_Group] | None = self._sample_here(
                starts[own], counts[own], iteration, purpose, shared, progress
            )
        except Stopped:
            found = None
        return _of_all_processes(found, starts, own, progress)

    def _sample_here(
        self,
        starts: Sequence[Start],
        counts: Sequence[int],
        iteration: int,
        purpose: str,
        shared: bool,
        progress: Progress,
    ) -> list[list[Trajectory]]:
        if not starts:
            return []
        sampling = SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p,
            max_new_tokens=[start.budget for start in starts],
            streams=[
                self._streams(start, count, iteration, purpose)
                for start, count in zip(starts, counts, strict=True)
            ],
            stop=self.env.stop_checker,
            progress=progress,
            written=[start.written for start in starts],
        )
        prompts = [start.tokens for start in starts]
        if shared and isinstance(self.engine, SweepEngine):
            groups = self.engine.sweep(prompts, [start.slot for start in starts], sampling)
        else:
            groups = self.engine.generate(prompts, sampling)
        with self.judging():
            return [
                [play_out(self.env, start, completion, self.overlong) for completion in completions]
                for start, completions in zip(starts, groups, strict=True)
            ]

    def _streams(self, start: Start, n: int, iteration: int, purpose: str) -> list[int]:
        base = stream_key(self.seed, iteration, start.slot, purpose, start.tokens)
        return [stream_key(base >> 1, ordinal) for ordinal in range(n)]


_Group = list[Trajectory]
_UNSENT = Start(None, [], 0, 0, "")  # stands for a start that every process knows


def _of_all_processes(
    own: list[_Group] | None, starts: Sequence[Start], place: slice, progress: Progress
) -> list[_Group]:
    """Returns the answers from all starts, in their order.

    Args:
        own: Those that this process sampled; None: it was stopped.
        starts: All of them.
        place: Where the own ones stand among them.
        progress: Told of the others' answers.

    Raises:
        Stopped: A process was stopped.
    """
    sent: list[_Group | None] = [None]
    if own is not None:
        sent = [[replace(row, start=_UNSENT) for row in group] for group in own]
    found = all_gathered(sent)
    groups = [group for group in found if group is not None]
    if own is None or len(groups) < len(found):
        raise Stopped
    groups[place] = own
    for start, group in zip(starts, groups, strict=True):
        for row in group:
            row.start = start
    others = [row for group in [*groups[: place.start], *groups[place.stop :]] for row in group]
    with suppress(Stopped):  # of this process alone: too late for the others, who have gone on
        progress(len(others), sum(len(row.response) for row in others))
    return groups


def start_of(env: Any, slot: int, *, seed: int | None = None, **options: Any) -> Start:
    """Resets the environment to a new episode and returns its start.

    Args:
        env: The unwrapped environment.
        slot: Prompt slot of the iteration.
        seed: Passed to ``reset``.
        options: Passed to ``reset``: ``index=3``, ``problem=...``, or none.
    """
    observation, info = env.reset(seed=seed, options=options or None)
    length = int(observation["length"][0])
    return Start(
        snapshot=env.snapshot(),
        tokens=observation["tokens"][:length].tolist(),
        budget=int(env.remaining),
        slot=slot,
        problem_id=str(info["problem_id"]),
    )


def start_at(trajectory: Trajectory, number: int) -> Start:
    """Returns the state at a trajectory's border, as a start.

    Args:
        trajectory: With borders and states.
        number: Which of them.
    """
    above, border = trajectory.start, trajectory.borders[number]
    return Start(
        trajectory.states[number],
        above.tokens + trajectory.response[:border],
        above.budget - border,
        above.slot,
        above.problem_id,
        above.written + border,
    )


def later_borders(env: Any, rollout: Trajectory) -> list[int]:
    """Returns where the steps of a rollout start, as indices into its response; the first is 0.

    The whole answer is cut, what was written before the rollout began included.
    """
    start = rollout.start
    written = start.tokens[len(start.tokens) - start.written :]
    borders = env.segmenter([*written, *rollout.response], env.tokenizer)
    return [0, *(border - len(written) for border in borders if border > len(written))]


def play_tokens(env: Any, tokens: Sequence[int]) -> tuple[float, bool, bool, dict[str, Any]]:
    """Plays tokens (at least one) and returns (reward, terminated, truncated, info).

    An environment without ``play`` is stepped token by token.

    Raises:
        RuntimeError: The episode ended before the last token.
    """
    if hasattr(env, "play"):
        _, reward, terminated, truncated, info = env.play(tokens)
        return float(reward), terminated, truncated, info
    total = 0.0
    for place, token in enumerate(tokens):
        _, reward, terminated, truncated, info = env.step(token)
        total += float(reward)
        if (terminated or truncated) and place < len(tokens) - 1:
            raise RuntimeError(f"the episode ended after {place + 1} of {len(tokens)} tokens")
    return total, terminated, truncated, info


def play_out(
    env: Any, start: Start, completion: Completion, overlong: OverlongPenalty
) -> Trajectory:
    """Plays one continuation to its end.

    Args:
        env: The unwrapped environment.
        start: Where it begins.
        completion: What the engine proposed.
        overlong: Added to the environment's reward.

    Raises:
        RuntimeError: The environment did not end exactly where the engine stopped, or for another
            reason.
    """
    env.restore(start.snapshot)
    reward, terminated, truncated, info = play_tokens(env, completion.tokens)
    by_budget = completion.finish_reason == "length"
    if (terminated, truncated) != (not by_budget, by_budget):
        raise RuntimeError(
            f"engine and environment disagree about the end of {start.problem_id!r} after "
            f"{len(completion.tokens)} tokens: engine {completion.finish_reason!r}, environment "
            f"terminated={terminated}, truncated={truncated}"
        )
    penalty = overlong.of(start.budget - len(completion.tokens))
    return Trajectory(
        start,
        completion.tokens,
        np.asarray(completion.log_probs, dtype=np.float64),
        reward + penalty,
        bool(terminated),
        bool(truncated),
        info,
        penalty,
    )


def mark_states(env: Any, trajectory: Trajectory) -> None:
    """Cuts a trajectory into steps and takes a snapshot at each border.

    The environment is left somewhere inside the trajectory.
    """
    trajectory.borders = env.segmenter(trajectory.response, env.tokenizer)
    env.restore(trajectory.start.snapshot)
    trajectory.states = [trajectory.start.snapshot]
    for begin, end in zip(trajectory.borders, trajectory.borders[1:], strict=False):
        play_tokens(env, trajectory.response[begin:end])
        trajectory.states.append(env.snapshot())
