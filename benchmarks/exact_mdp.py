"""Bias and variance of every estimator of advantages, by enumeration: no sampling, no noise.

    python -m benchmarks.exact_mdp
    python -m benchmarks.exact_mdp --most_rollouts 3      # reuse at K = 3 too: minutes

All joint outcomes of a group of two answers and its value rollouts are enumerated on an MDP of two
tokens and three steps (``agents/analysis/exact.py``). Columns: largest error of the mean value of a
state, also given the whole answer that the value is for; largest error of an entry of the mean
policy gradient, and its cosine to the true gradient; mean square of what separates a token's
advantage from the one that exact values give; trace of the gradient's covariance an answer; fresh
rollouts an answer; and both variances over those of the paper's estimator at as many fresh
rollouts, whose noise is exactly proportional to 1 / K. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from agents.analysis.exact import random_mdp, two_token_mdp
from agents.analysis.expectation import Draw, Estimate, Expectation, expectation
from agents.core.advantages import (
    FloatArray,
    gae_advantages,
    grpo_advantages,
    rloo_advantages,
    spread_advantages,
)
from agents.core.values import monte_carlo_values
from benchmarks import exact_controls as controls
from lang_env.segmenters import SEGMENTERS, get_segmenter


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        name: What it is called.
        estimate: The estimator.
        unbiased: Whether the mean gradient must be the true one.
        settings: Of ``expectation``.
    """

    name: str
    estimate: controls.Estimator
    unbiased: bool = True
    settings: dict[str, Any] = field(default_factory=dict)


def of_answers(draw: Draw, advantages: FloatArray) -> Estimate:
    """Gives all tokens of an answer the same advantage."""
    pairs = zip(advantages.ravel(), draw.trajectories, strict=True)
    return Estimate([np.full(len(row.response), number) for number, row in pairs])


def group(kind: str, draw: Draw) -> Estimate:
    """RLOO, GRPO with or without the deviation, or the plain return."""
    returns = np.array([[row.reward for row in draw.trajectories]])
    if kind == "rloo":
        others = returns.sum() - returns  # of the one other answer
        values = [
            [float(v)] * len(r.borders) for v, r in zip(others[0], draw.trajectories, strict=True)
        ]
        return Estimate(of_answers(draw, rloo_advantages(returns)).advantages, values)
    if kind == "return":
        return of_answers(draw, returns)
    return of_answers(draw, grpo_advantages(returns, kind))  # type: ignore[arg-type]


def critic(gae_lambda: float, constant: float | None, draw: Draw) -> Estimate:
    """PPO with generalised advantages; the critic knows the truth, or says one number."""

    def value(prefix: tuple[int, ...]) -> float:
        return draw.mdp.value(prefix) if constant is None else constant

    rows = [tuple(row.response) for row in draw.trajectories]
    values = [np.array([value(row[:t]) for t in range(len(row))]) for row in rows]
    rewards = [np.append(np.zeros(len(row) - 1), draw.mdp.rewards[row]) for row in rows]
    ends = [0.0] * len(rows)
    advantages, _ = gae_advantages(rewards, values, ends, gae_lambda=gae_lambda)
    return Estimate(advantages, [list(map(float, numbers)) for numbers in values], 0.0)


def vineppo(num_rollouts: int, reuse: bool, draw: Draw, cap: int | None = None) -> Estimate:
    """The library's values; with a cap, spread."""
    found = monte_carlo_values(
        draw.sampler, draw.trajectories, num_rollouts, iteration=1, reuse=reuse, max_steps=cap
    )
    advantages = [
        spread_advantages(row.borders, len(row.response), values, row.reward)
        for row, values in zip(draw.trajectories, found.values, strict=True)
    ]
    fresh = found.metrics["vine/k_fresh"] * found.metrics["vine/states"]
    return Estimate(advantages, found.values, fresh)


def paper(num_rollouts: int) -> Row:
    """The paper's estimator; its rollouts count with their reward alone."""
    estimate = partial(vineppo, num_rollouts, False)
    return Row(f"VinePPO paper K={num_rollouts}", estimate, settings={"lump": "reward"})


def shared(num_rollouts: int) -> Row:
    """Reuse."""
    return Row(f"VinePPO reuse K={num_rollouts}", partial(vineppo, num_rollouts, True))


LOOK_AHEAD = {"segmenter": controls.cut_before_ones}
ESTIMATORS = [
    Row("return, no baseline", partial(group, "return")),
    Row("RLOO", partial(group, "rloo")),
    Row("GRPO without deviation", partial(group, "none"), False),
    Row("GRPO", partial(group, "group"), False),
    Row("PPO constant critic, lambda 1", partial(critic, 1.0, 0.5)),
    Row("PPO constant critic, lambda .95", partial(critic, 0.95, 0.5), False),
    Row("PPO exact critic, lambda 1", partial(critic, 1.0, None)),
    Row("PPO exact critic, lambda .95", partial(critic, 0.95, None)),
    *map(paper, (1, 2, 3)),
    *map(shared, (0, 1, 2)),
    Row("VinePPO reuse K=1, spread cap", partial(vineppo, 1, True, cap=1)),
    Row("exact values", controls.exact_values),
]
CONTROLS = [
    Row("own outcome kept", controls.own_outcome_kept, False),
    Row("left out by content", controls.left_out_by_content, False),
    Row("siblings at own borders only", controls.at_own_borders, False, LOOK_AHEAD),
    Row("stop by confidence", controls.confidence_stop, False, {"group": 1, "lump": "reward"}),
    Row("resampled groups, reuse", controls.resampled_groups, False),
    Row("skipped groups, reuse", controls.skipped_groups, False),
    Row("zero fill after a cap", controls.zero_fill, False),
    Row(
        "states named forgetfully",
        controls.named_states,
        False,
        {"state_key": controls.forgetful_name},
    ),
    Row("borders that look ahead", partial(vineppo, 1, True), False, LOOK_AHEAD),
]
"""What must fail the check that the unbiased estimators pass."""
ROWS_BY_NAME = {row.name: row for row in (*ESTIMATORS, *CONTROLS)}

LINES = ("a", "\n", "b")
SENTENCES = ("So we add all of them.", " Then it is nine times", " and a bit more")
TEXTS = {
    "newline": LINES,
    "newline_paper": LINES,
    "sentences": SENTENCES,
    "latex_sentences": SENTENCES,
    "fixed_tokens:2": LINES,
}
"""Texts of the three ids, for the table of segmenters."""


def segmenter_row(name: str) -> Row:
    """Returns the row of a segmenter: one rollout of each state, fresh."""
    cut = get_segmenter(name)
    settings = {"segmenter": cut, "texts": TEXTS[name], "group": 1, "lump": "reward"}
    return Row(f"segmenter {name}", partial(vineppo, 1, False), cut.causal, settings)


def segmenters() -> list[Row]:
    """Returns a row for each segmenter that the environments know."""
    return [segmenter_row(name) for name in TEXTS if name in SEGMENTERS or ":" in name]


def table(rows: list[Row]) -> dict[str, Expectation]:
    """Returns what comes out for each row, on the two-token MDP."""
    mdp = two_token_mdp()
    return {row.name: expectation(mdp, row.estimate, **row.settings) for row in rows}


def at_equal_fresh(found: Expectation, papers: Expectation, exact: Expectation) -> list[float]:
    """Returns both variances over those of the paper's estimator at as many fresh rollouts.

    Args:
        found: With fresh rollouts.
        papers: The paper's estimator at any K; its noise is proportional to 1 / K.
        exact: Exact values, where that noise is gone.
    """
    share = papers.fresh / found.fresh
    noise = papers.advantage_variance * share
    spread = exact.gradient_variance
    spread += (papers.gradient_variance - exact.gradient_variance) * share
    return [found.advantage_variance / noise, found.gradient_variance / spread]


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--most_rollouts", type=int, default=2, help="Largest K with reuse.")
    arguments = parser.parse_args()
    rows = [*ESTIMATORS, *map(shared, range(3, arguments.most_rollouts + 1)), *CONTROLS]
    found = table(rows)
    papers, exact = found["VinePPO paper K=1"], found["exact values"]
    write = sys.stdout.write
    write(
        f"{'':33}{'bias of V':>10}{'| answer':>10}{'of grad':>10}{'cosine':>8}{'var A':>8}"
        f"{'var grad':>9}{'fresh':>7}{'A/paper':>9}{'g/paper':>9}\n"
    )
    summary: dict[str, Any] = {}
    for row in rows:
        if row is CONTROLS[0]:
            write("must fail:\n")
        numbers = found[row.name]
        summary[row.name] = asdict(numbers) | {"unbiased": row.unbiased}
        ratios = ""
        if row in ESTIMATORS and numbers.fresh > 0:
            pair = at_equal_fresh(numbers, papers, exact)
            summary[row.name]["at_equal_fresh"] = pair
            ratios = "".join(f"{ratio:9.3f}" for ratio in pair)
        write(
            f"{row.name:33}{numbers.value_bias:10.1e}{numbers.value_bias_given_answer:10.1e}"
            f"{numbers.gradient_bias:10.1e}{numbers.cosine:8.4f}{numbers.advantage_variance:8.4f}"
            f"{numbers.gradient_variance:9.4f}{numbers.fresh:7.2f}{ratios}\n"
        )
    write("\nsegmenters, three tokens and four steps: bias of V, of the gradient, its share of the "
          "largest entry, cosine\n")  # fmt: skip
    mdp = random_mdp(3, 4)
    largest = float(np.abs(mdp.gradient).max())
    for row in segmenters():
        numbers = expectation(mdp, row.estimate, **row.settings)
        summary[row.name] = {**asdict(numbers), "causal": row.unbiased}
        write(
            f"{row.name:33}{numbers.value_bias_given_answer:10.1e}{numbers.gradient_bias:10.1e}"
            f"{numbers.gradient_bias / largest:8.3f}{numbers.cosine:8.4f}\n"
        )
    write(json.dumps(_without_nan(summary)) + "\n")


def _without_nan(numbers: Any) -> Any:
    """Returns None for nan, which JSON has not."""
    if isinstance(numbers, dict):
        return {key: _without_nan(value) for key, value in numbers.items()}
    return None if numbers != numbers else numbers


if __name__ == "__main__":
    main()
