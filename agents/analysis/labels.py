"""Monte-Carlo values as process labels (JSONL), for training a process reward model.

    python -m agents.analysis labels --num_problems 500 --num_generations 4 --num_rollouts 8

Writes ``labels.jsonl``, a line for each distinct step of the sampled answers::

    {"problem_id": "...", "answer": 0, "step": 2, "prefix_ids": [...], "prefix": "...",
     "step_ids": [...], "text": "...", "value": 0.625, "n": 8, "exact": false}

``value`` is the mean reward of ``n`` continuations of the state behind the step, the answers that
pass through it among them; of a step that ends its answer it is the reward, ``n`` is 1 and
``exact`` true. Texts are model output and data. A soft label is ``value``; Math-Shepherd's hard one
(arXiv 2312.08935) is ``value > 0``. With several checkpoints the last one is used.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from agents.analysis.command import Say, run_analysis
from agents.analysis.output import COLOURS, Outcome, label, new_figure
from agents.analysis.states import sample_states, separate
from agents.analysis.subject import AnalysisConfig, Subject
from agents.core.disk import write_atomically
from agents.core.options import option
from agents.core.rollout import Trajectory
from agents.core.sample_pool import SamplePool, state_key
from agents.core.values import monte_carlo_values


@dataclass(frozen=True)
class LabelsConfig(AnalysisConfig):
    """What this analysis adds to the options of all."""

    num_rollouts: int = option(8, "Samples of each state at least (K).", low=1, high=10**6)
    num_generations: int = option(4, "Answers a problem.", low=1, high=10**6)
    reuse: bool = option(
        True, "Rows that pass through a state are samples of it; fresh ones only fill up to K."
    )


def analyse(config: LabelsConfig, subjects: Sequence[Subject], say: Say) -> Outcome:
    """Labels the steps of each subject's answers and writes them."""
    lines: list[dict[str, Any]] = []
    counts = []
    for subject in subjects:
        sampler = subject.sampler(subject.policy(subject.checkpoints[-1]))
        states = sample_states(sampler, subject.starts(), config.num_generations)
        answers = [answer for group in states.groups for answer in group]
        estimates = monte_carlo_values(
            separate(sampler, "labels"), answers, config.num_rollouts, iteration=0,
            reuse=config.reuse,
        )  # fmt: skip
        found = [*step_labels(answers, estimates.pool, subject.env.tokenizer)]
        where = {"subject": subject.name, "split": subject.split}
        lines += [where | line for line in found]
        counts.append(where | {"answers": len(answers), "labels": len(found),
                               "tokens": int(estimates.metrics["vine/tokens"])})  # fmt: skip
        say(f"{subject.name}, {subject.split}: {len(found)} labels")
    path = Path(config.output_dir) / "labels.jsonl"
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in lines))
    values = np.array([line["value"] for line in lines])
    unsettled = float(np.mean((values > 0) & (values < 1)))
    results = {"file": path.name, "sets": counts, "mean": float(values.mean()),
               "unsettled_share": unsettled}  # fmt: skip
    line = (
        f"labels: {len(lines)} steps in {path}, mean value {values.mean():.3f}, "
        f"{unsettled:.0%} of them between 0 and 1"
    )
    return Outcome(results, _draw(lines), line)


def step_labels(
    answers: Sequence[Trajectory], pool: SamplePool, tokenizer: Any
) -> Iterator[dict[str, Any]]:
    """Yields a label for each distinct step of the answers to each problem.

    Args:
        answers: With borders.
        pool: The samples of the states at their borders.
        tokenizer: Gives the texts.
    """
    seen = set()
    for number, answer in enumerate(answers):
        start = answer.start
        ends = [*answer.borders, len(answer.response)]
        for step, (begin, end) in enumerate(pairwise(ends)):
            key = state_key(start.slot, start.tokens + answer.response[:end])
            if key in seen:
                continue
            seen.add(key)
            last = end == len(answer.response)
            rewards = [answer.reward] if last else pool.rewards(key)
            before = start.tokens + answer.response[:begin]
            yield {
                "problem_id": start.problem_id,
                "answer": number,
                "step": step,
                "prefix_ids": before,
                "prefix": tokenizer.decode(before),
                "step_ids": answer.response[begin:end],
                "text": tokenizer.decode(answer.response[begin:end]),
                "value": float(np.mean(rewards)),
                "n": len(rewards),
                "exact": last,
            }


def _draw(lines: Sequence[dict[str, Any]]) -> Figure:
    figure, (axes,) = new_figure(width=5.0)
    parts = [[line["value"] for line in lines if line["exact"] is exact] for exact in (False, True)]
    axes.hist(
        parts,
        bins=np.linspace(0, 1, 11).tolist(),
        stacked=True,
        color=list(COLOURS[:2]),
        label=["state behind the step", "last step (reward)"],
        edgecolor="white",
    )
    label(axes, "Values of steps", "value", "steps")
    return figure


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    about = str(__doc__).split("\n")[0]
    return run_analysis("labels", LabelsConfig, analyse, about=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
