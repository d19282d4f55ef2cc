"""What values cost at equal error: reuse beside the paper's estimator, on fixed states.

    python -m benchmarks.values                                    # the embedded policy: minutes
    python -m benchmarks.values --model FOLDER --env GSM8K-v0 --data FOLDER --num_problems 2 \
        --num_generations 2 --max_new_tokens 128 --truth_rollouts 64 --repeats 5

Answers are sampled once; their borders are the states. Both estimators are called as VinePPO calls
them, ten times for each K, with streams of their own. An error is the mean square distance to the
mean of 256 other rollouts of the state, less the noise of that mean, over all borders of all
answers (with reuse a state has a value for each answer). Cost is interpolated in log-log: what
reuse needs for the error that the paper's estimator has at K = 9, over what the latter needs.
Seconds are CPU time of the process, on one thread. Intervals: 95 %, bootstrap over problems (and
repeats, for seconds). The last line is JSON.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.analysis.subject import AnalysisConfig, Subject, subjects_of
from agents.core.config import command_errors
from agents.core.flags import parse_flags
from agents.core.options import option
from agents.core.rollout import Sampler, Trajectory, mark_states
from agents.core.streams import generator
from agents.core.values import monte_carlo_values, state_keys

FloatArray = NDArray[np.float64]
TINY_BUDGET = 80  # new tokens, as in configs/tiny_vineppo.yaml
OF_TRUTH = 10**6  # an iteration that no repeat has: other random streams
DRAWS = 2000


@dataclass(frozen=True)
class ValuesConfig(AnalysisConfig):
    """The options of the benchmark."""

    num_problems: int = option(16, "Problems.", low=1, high=10**4)
    num_generations: int = option(4, "Answers a problem.", low=1, high=10**4)
    paper_grid: tuple[int, ...] = option((1, 2, 4, 9, 16), "K of the paper's estimator.", low=1)
    reuse_grid: tuple[int, ...] = option((1, 2, 3, 4, 6, 9, 12), "K with reuse.", low=1)
    reference_k: int = option(9, "K of the paper's estimator whose error is the aim.", low=1)
    repeats: int = option(10, "Estimates for each K.", low=2)
    truth_rollouts: int = option(256, "Rollouts behind the true value of a state.", low=2)
    max_steps: int | None = option(None, "Only the first so many steps; none: all.", low=1)


@dataclass(frozen=True)
class CountingSampler(Sampler):
    """A sampler that counts the tokens of each prompt slot."""

    tokens: Counter[int] = field(default_factory=Counter)

    def sample(self, starts: Any, n: Any, **settings: Any) -> list[list[Trajectory]]:
        """Samples, and counts."""
        groups = Sampler.sample(self, starts, n, **settings)
        for start, group in zip(starts, groups, strict=True):
            self.tokens[start.slot] += sum(len(rollout.response) for rollout in group)
        return groups


@dataclass(frozen=True)
class Cost:
    """What an estimator at one K made of the states.

    Attributes:
        errors: Sum of squared errors of each problem, less the truth's noise, [repeats, problems].
        tokens: Generated for each problem, [repeats, problems].
        seconds: CPU time, [repeats].
    """

    errors: FloatArray
    tokens: FloatArray
    seconds: FloatArray


def cost_at(errors: Sequence[float], costs: Sequence[float], target: float) -> float:
    """Returns the cost at which the error is ``target``: a line through points, in log-log.

    Beyond the first and last point the line goes on as between the two nearest.

    Args:
        errors: Falling.
        costs: Of each error.
        target: An error.
    """
    x, y = np.log(np.maximum(errors, 1e-12)), np.log(costs)
    order = np.argsort(x)
    x, y = x[order], y[order]
    place = int(np.clip(np.searchsorted(x, np.log(target)), 1, len(x) - 1))
    slope = (y[place] - y[place - 1]) / (x[place] - x[place - 1])
    return float(np.exp(y[place - 1] + slope * (np.log(target) - x[place - 1])))


def truths(
    sampler: Sampler, answers: Sequence[Trajectory], config: ValuesConfig
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Returns the true values of each answer's borders, and the variance of their noise."""
    pool = monte_carlo_values(
        sampler, answers, config.truth_rollouts, iteration=OF_TRUTH, reuse=False,
        max_steps=config.max_steps,
    ).pool  # fmt: skip
    samples = [[pool.rewards(key) for key in state_keys(t, config.max_steps)] for t in answers]
    means = [np.array([np.mean(row) for row in rows]) for rows in samples]
    noise = [np.array([np.var(row, ddof=1) / len(row) for row in rows]) for rows in samples]
    return means, noise


def measure(
    sampler: Sampler, answers: Sequence[Trajectory], config: ValuesConfig, truth: Any
) -> dict[tuple[str, int], Cost]:
    """Runs every estimator at every K, in turn, ``repeats`` times."""
    grid = [("paper", k) for k in config.paper_grid] + [("reuse", k) for k in config.reuse_grid]
    slots = [answer.start.slot for answer in answers]
    shape = (config.repeats, max(slots) + 1)
    found = {
        entry: Cost(np.zeros(shape), np.zeros(shape), np.zeros(config.repeats)) for entry in grid
    }
    for repeat in range(config.repeats + 1):  # the first one warms up
        for name, k in grid[:: 1 if repeat % 2 else -1]:
            counting = CountingSampler(
                sampler.engine, sampler.env, sampler.seed, sampler.temperature, sampler.top_p
            )
            begun = time.process_time()
            values = monte_carlo_values(
                counting, answers, k, iteration=repeat, reuse=name == "reuse",
                max_steps=config.max_steps,
            ).values  # fmt: skip
            seconds = time.process_time() - begun
            if repeat == 0:
                continue
            cost = found[name, k]
            cost.seconds[repeat - 1] = seconds
            for slot, tokens in counting.tokens.items():
                cost.tokens[repeat - 1, slot] = tokens
            for slot, row, mean, noise in zip(slots, values, *truth, strict=True):
                cost.errors[repeat - 1, slot] += float(((np.array(row) - mean) ** 2 - noise).sum())
    return found


def ratios(
    found: dict[tuple[str, int], Cost], config: ValuesConfig, problems: Any, repeats: Any
) -> tuple[float, float]:
    """Returns tokens and seconds of reuse over the paper's, at the paper's error at its K.

    Args:
        found: What was measured.
        config: The grids.
        problems: Which problems count, an index.
        repeats: Which repeats count for seconds, an index.
    """
    reference = found["paper", config.reference_k]
    target = float(reference.errors[:, problems].sum())
    ours = [found["reuse", k] for k in config.reuse_grid]
    errors = [float(cost.errors[:, problems].sum()) for cost in ours]
    tokens = cost_at(errors, [float(c.tokens[:, problems].sum()) for c in ours], target)
    seconds = cost_at(errors, [float(c.seconds[repeats].sum()) for c in ours], target)
    return (
        tokens / float(reference.tokens[:, problems].sum()),
        seconds / float(reference.seconds[repeats].sum()),
    )


def summarise(
    found: dict[tuple[str, int], Cost], config: ValuesConfig, borders: int
) -> dict[str, Any]:
    """Returns the ratios with their intervals, and what was measured at each K."""
    repeats, problems = next(iter(found.values())).errors.shape
    rng = generator(config.seed, "bootstrap")
    drawn = [
        ratios(
            found,
            config,
            rng.integers(problems, size=problems),
            rng.integers(repeats, size=repeats),
        )
        for _ in range(DRAWS)
    ]
    # With few problems some draws have no error to divide by.
    finite = [pair for pair in drawn if np.isfinite(pair).all()]
    low, high = np.quantile(finite, [0.025, 0.975], axis=0)
    middle = ratios(found, config, slice(None), slice(None))
    names = ("tokens_ratio_at_equal_mse", "seconds_ratio_at_equal_mse")
    summary: dict[str, Any] = {
        name: [round(float(number), 4) for number in numbers]
        for name, numbers in zip(names, zip(middle, low, high, strict=True), strict=True)
    }
    for (name, k), cost in found.items():
        summary[f"{name}_k{k}"] = {
            "mse": float(cost.errors.sum()) / (repeats * borders),
            "tokens": float(cost.tokens.sum()) / repeats,
            "seconds": float(np.median(cost.seconds)),
        }
    return summary


def run(subject: Subject, config: ValuesConfig) -> None:
    """Measures one policy on one environment and prints the table."""
    sampler = subject.sampler(subject.policy(subject.checkpoints[-1]))
    groups = sampler.sample(
        subject.starts(), config.num_generations, iteration=1, purpose="rollout"
    )
    answers = [answer for group in groups for answer in group]
    for answer in answers:
        mark_states(sampler.env, answer)
    truth = truths(sampler, answers, config)
    found = measure(sampler, answers, config, truth)
    borders = sum(len(row) for row in truth[0])
    keys = {key for answer in answers for key in state_keys(answer, config.max_steps)}
    summary = {
        **subject.about(), "states": len(keys), "borders": borders, "answers": len(answers),
        "truth_rollouts": config.truth_rollouts, "repeats": config.repeats, "seed": config.seed,
        "machine": f"{platform.processor() or platform.machine()}, {platform.python_version()}",
        **summarise(found, config, borders),
    }  # fmt: skip
    write = sys.stdout.write
    write(f"{len(answers)} answers, {borders} borders, {len(keys)} states\n")
    write(f"{'':12}{'MSE':>10}{'tokens':>12}{'seconds':>10}\n")
    for name, k in found:
        row = summary[f"{name}_k{k}"]
        write(
            f"{name + f' K={k}':12}{row['mse']:10.5f}{row['tokens']:12,.0f}{row['seconds']:10.3f}\n"
        )
    write(json.dumps(summary) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark."""
    import torch

    torch.set_num_threads(1)
    with command_errors():
        flags = parse_flags(
            ValuesConfig, argv, shared=AnalysisConfig, shared_title="what is measured",
            description=str(__doc__).split("\n")[0],
        )  # fmt: skip
        if flags.get("model") is None and "run" not in flags:
            flags.setdefault("max_new_tokens", TINY_BUDGET)
        config, subjects = subjects_of(ValuesConfig, flags)
        if config.reference_k not in config.paper_grid:
            raise ValueError(
                f"reference_k={config.reference_k} is not in paper_grid={config.paper_grid}; add it"
            )
    for subject in subjects:
        run(subject, config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
