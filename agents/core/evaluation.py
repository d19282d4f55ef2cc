"""Accuracy of the policy on held-out problems, at several temperatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from agents.core.config import TrainingConfig
from agents.core.envs import valid_indices
from agents.core.interrupt import Interrupt, Stopped
from agents.core.records import Interval, accuracy_interval
from agents.core.reporting import Phase, Reporter
from agents.core.rollout import Sampler, Start, Trajectory, start_of
from agents.engines.base import Engine, Progress, silent


def temperature_label(temperature: float) -> str:
    """Returns how a temperature is called in reports.

    >>> temperature_label(0.0), temperature_label(0.35), temperature_label(1.0)
    ('greedy', 'T=0.35', 'T=1')
    """
    return "greedy" if temperature == 0 else f"T={temperature:g}"


def success_of(trajectory: Trajectory) -> float:
    """Returns 1.0 for a solved episode: ``info["is_success"]``, else a reward above 0.

    The overlong penalty is no part of it.
    """
    return float(trajectory.info.get("is_success", trajectory.reward > trajectory.penalty))


def evaluation_starts(env: Any, num_problems: int) -> list[Start]:
    """Returns the start states of the first problems of a set: the same ones every time."""
    finite = getattr(env, "num_problems", None) is not None
    indices: Sequence[int] = valid_indices(env) if finite else range(num_problems)
    return [start_of(env, slot, index=i) for slot, i in enumerate(indices[:num_problems])]


def evaluate(
    engine: Engine,
    env: Any,
    *,
    num_problems: int,
    temperatures: Sequence[float],
    samples: int,
    seed: int,
    progress: Progress = silent,
    judging: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> dict[str, Interval]:
    """Returns the mean accuracy (pass@1) at each temperature, without top-p.

    The random streams are the same at every call, so that two evaluations of one policy agree.

    Args:
        engine: Samples the answers.
        env: The unwrapped environment of the held-out split.
        num_problems: How many problems.
        temperatures: 0 is greedy, with one answer a problem.
        samples: Answers a problem at a temperature above 0.
        seed: The run's seed.
        progress: Called with (answers, tokens) as they finish.
        judging: See ``Sampler``.
    """
    starts = evaluation_starts(env, num_problems)
    results = {}
    for temperature in temperatures:
        label = temperature_label(temperature)
        sampler = Sampler(engine, env, seed, temperature, judging=judging)
        groups = sampler.sample(
            starts,
            1 if temperature == 0 else samples,
            iteration=0,
            purpose=f"evaluation/{label}",
            progress=progress,
        )
        results[label] = accuracy_interval([[success_of(t) for t in group] for group in groups])
    return results


def evaluate_and_report(
    engine: Engine,
    env: Any | None,
    config: TrainingConfig,
    report: Reporter,
    interrupt: Interrupt,
    label: str,
) -> dict[str, Interval]:
    """Evaluates as the options say, reports it and returns it; nothing where ``env`` is None.

    A signal gives the evaluation up between two batches of the engine; nothing is reported then.

    Args:
        engine: Samples the answers.
        env: The unwrapped environment of the held-out split, or None.
        config: The ``eval_*`` options are read.
        report: Gets the phase and the result.
        interrupt: Knows of Ctrl-C.
        label: "before", "after" or for example "iteration 20".
    """
    if env is None or interrupt.agree():
        return {}
    answers = [1 if t == 0 else config.eval_samples for t in config.eval_temperatures]
    with (
        suppress(Stopped),
        report.phase("evaluation", total=config.eval_problems * sum(answers)) as phase,
    ):
        results = evaluate(
            engine,
            env,
            num_problems=config.eval_problems,
            temperatures=config.eval_temperatures,
            samples=config.eval_samples,
            seed=config.seed,
            progress=stoppable(phase, interrupt),
            judging=report.judging,
        )
        report.evaluation(label, results)
        return results
    return {}


def stoppable(phase: Phase, interrupt: Interrupt) -> Progress:
    """Returns what counts into a phase, and raises Stopped after Ctrl-C.

    It asks this process alone: whoever samples makes the others stop as well.
    """

    def advance(items: int, tokens: int) -> None:
        if interrupt.came():
            raise Stopped
        phase.advance(items, tokens=tokens)

    return advance
