"""Predicted against true values: rollouts, reuse, a critic, group means.

    python -m agents.analysis values
    python -m agents.analysis values --run runs/NAME --split train test

The truth is the mean of many rollouts of a state, with random streams that no predictor has; its
own noise is taken out of squared errors. Figures of the VinePPO paper's kind: the scatter, the
error by position in the answer, on-policy against diverse answers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agents.analysis.command import Say, run_analysis
from agents.analysis.output import Outcome
from agents.analysis.predictors import predictions
from agents.analysis.states import sample_rewards, sample_states
from agents.analysis.subject import AnalysisConfig, Checkpoint, Subject, critic_of
from agents.analysis.value_plots import draw, shown_predictors
from agents.analysis.value_report import report
from agents.core.options import option
from agents.core.policy import Policy
from agents.core.rollout import Sampler
from agents.core.streams import generator


@dataclass(frozen=True)
class ValuesConfig(AnalysisConfig):
    """What this analysis adds to the options of all."""

    num_rollouts: tuple[int, ...] = option(
        (1, 2, 4, 9), "Rollouts a state (K) of the Monte-Carlo predictors.", low=1, paper="9"
    )
    truth_rollouts: int = option(
        256, "Rollouts a state that make the truth.", low=4, high=10**6, paper="256"
    )
    num_generations: int = option(4, "Answers a problem, for reuse and group means.", low=2)
    positions: int = option(5, "Parts of an answer that errors are given for.", low=1)
    trajectories_from: str | None = option(
        None, "Also the states of answers that another model gives: folder or hub name."
    )
    diverse_temperature: float | None = option(
        None, "Also the states of answers sampled at this temperature.", above=0
    )


def analyse(config: ValuesConfig, subjects: Sequence[Subject], say: Say) -> Outcome:
    """Measures every checkpoint of every subject, on its own answers and on diverse ones."""
    results = []
    for subject in subjects:
        for checkpoint in subject.checkpoints:
            for answers, result in _of_checkpoint(config, subject, checkpoint):
                parts = [subject.name] if len({other.name for other in subjects}) > 1 else []
                parts += [subject.split] if len(config.split) > 1 or not parts else []
                parts += [answers] if config.trajectories_from or config.diverse_temperature else []
                name = ", ".join(parts)
                results.append(
                    {"label": name, "iteration": checkpoint.iteration, "answers": answers} | result
                )
                say(f"{name}, iteration {checkpoint.iteration}: {result['states']} states")
    return Outcome({"policies": results}, draw(results), _line(results[-1]))


def _of_checkpoint(
    config: ValuesConfig, subject: Subject, checkpoint: Checkpoint
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields which answers, and the report on their states."""
    policy = subject.policy(checkpoint)
    sampler = subject.sampler(policy)
    critic = critic_of(checkpoint, policy)
    starts = subject.starts()
    for answers, source in _sources(config, subject, policy, sampler):
        states = sample_states(source, starts, config.num_generations)
        predicted = predictions(
            sampler, states, config.num_rollouts, critic, on_policy=source is sampler
        )
        samples, tokens = sample_rewards(sampler, states.starts, config.truth_rollouts, "truth")
        rng = generator(config.seed, "values", "bootstrap")
        found = report(states, samples, predicted, positions=config.positions, rng=rng)
        yield answers, found | {"truth_tokens": tokens}


def _sources(
    config: ValuesConfig, subject: Subject, policy: Policy, sampler: Sampler
) -> Iterator[tuple[str, Sampler]]:
    """Yields what answers are called and what samples them; the policy itself first."""
    yield "on-policy", sampler
    heat = config.diverse_temperature
    if config.trajectories_from is not None:
        other = subject.policy(Checkpoint(0, config.trajectories_from))
        yield "diverse", subject.sampler(other, temperature=heat)
    elif heat is not None:
        yield "diverse", subject.sampler(policy, temperature=heat)


def _line(result: dict[str, Any]) -> str:
    parts = []
    for name in shown_predictors(list(result["predictors"])):
        found = result["predictors"][name]["all"]
        parts.append(f"{name} {found['mse']['mean']:.4f}")
    return (
        f"values: MSE at {result['states']} states of {result['problems']} problems "
        f"({result['label']}, iteration {result['iteration']}): {', '.join(parts)}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    about = str(__doc__).split("\n")[0]
    return run_analysis("values", ValuesConfig, analyse, about=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
