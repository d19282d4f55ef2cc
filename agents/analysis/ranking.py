"""How well each predictor orders alternative next steps: top-1 and pairwise accuracy.

    python -m agents.analysis ranking
    python -m agents.analysis ranking --run runs/NAME --num_rollouts 1 9

Of a state, the policy samples distinct next steps. The true Q of a step is its reward plus the
mean of many rollouts from the state behind it; a predictor says the same with few rollouts of its
own, or with a critic. Reuse would add nothing here: a state off the answers' paths has no samples
of theirs. The mean of a group says the same of every step, and so ranks by chance.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.analysis.alternatives import Alternative, chosen_states, sample_alternatives
from agents.analysis.command import Say, run_analysis
from agents.analysis.errors import FloatArray, IntArray, interval
from agents.analysis.output import Outcome
from agents.analysis.predictors import critic_values
from agents.analysis.ranking_plots import draw
from agents.analysis.ranks import best_of, clearly_above, pair_counts, top_1
from agents.analysis.states import sample_rewards, sample_states
from agents.analysis.subject import AnalysisConfig, Subject, UnsuitableError, critic_of
from agents.core.critic import Critic
from agents.core.options import option
from agents.core.rollout import Sampler
from agents.core.streams import generator


@dataclass(frozen=True)
class RankingConfig(AnalysisConfig):
    """What this analysis adds to the options of all."""

    num_rollouts: tuple[int, ...] = option(
        (1, 2, 4, 9), "Rollouts a step (K) of the Monte-Carlo predictors.", low=1, paper="9"
    )
    truth_rollouts: int = option(
        256, "Rollouts a step that make the truth.", low=2, high=10**6, paper="256"
    )
    alternatives: int = option(5, "Distinct next steps a state at most.", low=2, paper="5")
    least_alternatives: int = option(
        3, "States with fewer distinct next steps are left out.", low=2, paper="3"
    )
    tries: int = option(32, "Rollouts a state in which they are looked for.", low=2)
    states_per_problem: int = option(2, "States a problem at most.", low=1)

    def __post_init__(self) -> None:
        """Checks every field and those that do not go together; raises ValueError."""
        super().__post_init__()
        if self.least_alternatives > self.alternatives:
            raise ValueError(
                f"least_alternatives must be <= alternatives, got {self.least_alternatives} and "
                f"{self.alternatives}. Lower it, or raise alternatives."
            )


def analyse(config: RankingConfig, subjects: Sequence[Subject], say: Say) -> Outcome:
    """Ranks the steps of some states of every checkpoint of every subject."""
    results = []
    for subject in subjects:
        for checkpoint in subject.checkpoints:
            policy = subject.policy(checkpoint)
            critic = critic_of(checkpoint, policy)
            result = _ranked(config, subject, subject.sampler(policy), critic)
            name = f"{subject.name}, {subject.split}"
            results.append({"label": name, "iteration": checkpoint.iteration} | result)
            say(f"{name}, iteration {checkpoint.iteration}: {result['states']} states")
    return Outcome({"policies": results}, draw(results), _line(results[-1]))


def _ranked(
    config: RankingConfig, subject: Subject, sampler: Sampler, critic: Critic | None
) -> dict[str, Any]:
    states = sample_states(sampler, subject.starts(), 1)
    found = sample_alternatives(sampler, states.starts, config.alternatives, config.tries)
    rng = generator(config.seed, "ranking", "states")
    rows = chosen_states(
        found,
        states.problem.tolist(),
        least=config.least_alternatives,
        per_problem=config.states_per_problem,
        rng=rng,
    )
    if not rows:
        raise UnsuitableError(
            f"no state of {len(found)} has {config.least_alternatives} distinct next steps in "
            f"{config.tries} rollouts. Raise --tries or --temperature, or lower "
            "--least_alternatives."
        )
    steps = [alternative for row in rows for alternative in found[row]]
    truth, noise = _true_q(sampler, steps, config.truth_rollouts)
    predicted = {
        f"mc {k}": sampled_q(sampler, steps, k, f"mc {k}")[0].mean(1) for k in config.num_rollouts
    }
    if critic is not None:
        predicted["critic"] = _critic_q(critic, steps)
    sizes = [len(found[row]) for row in rows]
    counted = {"candidate_states": len(found), "alternatives": float(np.mean(sizes))}
    return counted | ranking_report(sizes, states.problem[rows], truth, noise, predicted, rng)


def _true_q(
    sampler: Sampler, steps: Sequence[Alternative], n: int
) -> tuple[FloatArray, FloatArray]:
    """Returns the Q of each step and the variance of that mean; a finished one is exact."""
    rewards, _ = sampled_q(sampler, steps, n, "truth")
    return rewards.mean(1), rewards.var(1, ddof=1) / n


def sampled_q(
    sampler: Sampler, steps: Sequence[Alternative], n: int, purpose: str
) -> tuple[FloatArray, int]:
    """Returns the reward of ``n`` rollouts behind each step, [steps, n], and their tokens."""
    rewards = np.repeat([[step.reward] for step in steps], n, axis=1).astype(np.float64)
    open_rows = [row for row, step in enumerate(steps) if step.after is not None]
    starts = [step.after for step in steps if step.after is not None]
    rewards[open_rows], tokens = sample_rewards(sampler, starts, n, purpose)
    return rewards, tokens


def _critic_q(critic: Critic, steps: Sequence[Alternative]) -> FloatArray:
    """Returns what the critic says of the state behind each step; a finished one is exact."""
    said = iter(critic_values(critic, [step.rollout for step in steps]).tolist())
    values = []
    for step in steps:
        at_borders = [next(said) for _ in step.rollout.borders]
        values.append(step.reward if step.after is None else at_borders[1])
    return np.array(values)


def ranking_report(
    sizes: Sequence[int],
    problem: IntArray,
    truth: FloatArray,
    noise: FloatArray,
    predicted: Mapping[str, FloatArray],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Returns the accuracies of each predictor, with 95 % intervals over problems. Pure.

    Args:
        sizes: Alternatives of each state; the arrays below hold those of all states in turn.
        problem: Problem of each state.
        truth: Q of each alternative, as measured.
        noise: Variance of each.
        predicted: What each predictor says of them, by its name.
        rng: Of the bootstrap.
    """
    cuts = np.cumsum(sizes)[:-1]
    means, noises = np.split(truth, cuts), np.split(noise, cuts)
    above = [clearly_above(mean, spread) for mean, spread in zip(means, noises, strict=True)]
    best = [best_of(order, mean) for order, mean in zip(above, means, strict=True)]
    open_rows = np.array([row for row, at in enumerate(best) if not at.all()], dtype=np.int64)
    result: dict[str, Any] = {
        "states": len(sizes),
        "states_without_order": len(sizes) - len(open_rows),
        "pairs": int(sum(size * (size - 1) // 2 for size in sizes)),
        "pairs_with_order": int(sum(order.sum() for order in above)),
        "random_top_1": float(np.mean([best[row].mean() for row in open_rows]))
        if len(open_rows)
        else float("nan"),
        "predictors": {},
    }
    for name, values in predicted.items():
        parts = np.split(values, cuts)
        hits = np.array([top_1(part, at) for part, at in zip(parts, best, strict=True)])
        pairs = np.array([pair_counts(part, at) for part, at in zip(parts, above, strict=True)])
        result["predictors"][name] = {
            "top_1": _with_interval(hits[open_rows], np.ones(len(open_rows)),
                                    problem[open_rows], rng),
            "pairwise": _with_interval(pairs[:, 0] + pairs[:, 1] / 2, pairs[:, 2], problem, rng),
            "pairwise_ties_wrong": _ratio(pairs[:, 0], pairs[:, 2]),
            "predicted_ties": _ratio(pairs[:, 1], pairs[:, 2]),
        }  # fmt: skip
    return result


def _ratio(part: FloatArray | IntArray, whole: FloatArray | IntArray) -> float:
    return float(part.sum() / whole.sum()) if whole.sum() else float("nan")


def _with_interval(
    part: FloatArray, whole: FloatArray, problem: IntArray, rng: np.random.Generator
) -> dict[str, float]:
    if not len(part):
        return {"mean": float("nan"), "low": float("nan"), "high": float("nan")}
    low, high = interval(lambda at: _ratio(part[at], whole[at]), problem, rng)
    return {"mean": _ratio(part, whole), "low": low, "high": high}


def _line(result: Mapping[str, Any]) -> str:
    parts = [
        f"{name} {found['top_1']['mean']:.2f} ({found['pairwise']['mean']:.2f})"
        for name, found in result["predictors"].items()
    ]
    return (
        f"ranking: top-1 (pairwise) at {result['states']} states ({result['label']}, iteration "
        f"{result['iteration']}): {', '.join(parts)}; by chance {result['random_top_1']:.2f} (0.50)"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    about = str(__doc__).split("\n")[0]
    return run_analysis("ranking", RankingConfig, analyse, about=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
