"""Step advantages and the policy's entropy by depth in the answer.

    python -m agents.analysis advantages
    python -m agents.analysis advantages --run runs/NAME

Each answer is cut into steps; a step's advantage is r + V(next state) - V(state) with Monte-Carlo
values, and its depth is its place among the answer's steps, from 0 to 1. The entropy is that of the
distribution each token was drawn from, by the token's place. The values carry the noise of K
samples: even a step that changes nothing has advantages of size sqrt(2 V (1 - V) / K).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agents.analysis.answers import accuracy_of, interval_json, sampled, token_pass
from agents.analysis.command import Say, run_analysis
from agents.analysis.curves import shade
from agents.analysis.depth import by_depth, summary_of
from agents.analysis.output import COLOURS, Outcome, label, new_figure
from agents.analysis.subject import AnalysisConfig, Checkpoint, Subject
from agents.core.options import option
from agents.core.policy import Extras
from agents.core.rollout import mark_states
from agents.core.values import monte_carlo_values


@dataclass(frozen=True)
class AdvantagesConfig(AnalysisConfig):
    """The options of the analysis."""

    num_generations: int = option(4, "Answers a problem.", low=1)
    num_rollouts: int = option(9, "Samples of each state's value (K).", low=1, paper="9")
    reuse: bool = option(True, "Rows that pass through a state are samples of its value too.")
    bins: int = option(8, "Parts that an answer is cut into.", low=1, high=100)


def analyse(config: AdvantagesConfig, subjects: list[Subject], say: Say) -> Outcome:
    """Values the answers of every checkpoint."""
    found = []
    for subject in subjects:
        rows = []
        for checkpoint in subject.checkpoints:
            say(f"advantages: {subject.name}, {subject.split}, iteration {checkpoint.iteration}")
            rows.append(_of_checkpoint(config, subject, checkpoint))
        found.append({"name": subject.name, "split": subject.split, "checkpoints": rows})
    return Outcome({"subjects": found}, _figure(found), "\n".join(map(_line, found)))


def _of_checkpoint(
    config: AdvantagesConfig, subject: Subject, checkpoint: Checkpoint
) -> dict[str, Any]:
    policy = subject.policy(checkpoint)
    sampler = subject.sampler(policy)
    groups = sampled(sampler, subject.starts(), config.num_generations)
    answers = [answer for group in groups for answer in group]
    for answer in answers:
        mark_states(subject.env, answer)
    estimates = monte_carlo_values(
        sampler, answers, config.num_rollouts, iteration=0, reuse=config.reuse
    )
    steps = [
        np.diff([*values, answer.reward])
        for answer, values in zip(answers, estimates.values, strict=True)
    ]
    entropies, = token_pass(
        policy, answers, subject, lambda stats: [stats.entropy], Extras(top_p=subject.config.top_p)
    )  # fmt: skip
    everything = np.concatenate(steps)
    return {
        "iteration": checkpoint.iteration,
        "accuracy": interval_json(accuracy_of(groups)),
        "steps": float(np.mean([len(row) for row in steps])),
        "samples_a_state": estimates.metrics["vine/k_effective"],
        "advantage": summary_of(everything),
        "advantage_by_depth": [summary_of(part) for part in by_depth(steps, config.bins)],
        "entropy": float(np.concatenate(entropies).mean()),
        "entropy_by_depth": [
            float(part.mean()) if len(part) else None for part in by_depth(entropies, config.bins)
        ],
    }


def _line(subject: dict[str, Any]) -> str:
    """Returns the finding: where the last checkpoint's advantages are large."""
    last = subject["checkpoints"][-1]
    sizes = [part["mean_size"] or 0.0 for part in last["advantage_by_depth"]]
    peak = int(np.argmax(sizes))
    depth = f"{peak / len(sizes):.2f} to {(peak + 1) / len(sizes):.2f}"
    return (
        f"advantages: {subject['name']} ({subject['split']}), iteration {last['iteration']}: "
        f"{100 * last['advantage']['near_zero']:.0f} % of the steps within 0.05 of 0, mean size "
        f"{last['advantage']['mean_size']:.3f}, largest at depth {depth} ({sizes[peak]:.3f}); "
        f"entropy {last['entropy']:.3f} nats a token"
    )


def _figure(found: Sequence[dict[str, Any]]) -> Figure:
    figure, axes = new_figure(len(found), 3, width=4.0, height=3.1)
    for place, subject in enumerate(found):
        left, middle, right = axes[3 * place : 3 * place + 3]
        rows = subject["checkpoints"]
        title = f"{subject['name']}, {subject['split']}"
        _bands(left, rows[-1])
        label(left, f"{title}: iteration {rows[-1]['iteration']}", "depth", "step advantage")
        for number, row in enumerate(rows):
            style: dict[str, Any] = dict(color=shade(number, len(rows)), marker="o", markersize=3)
            name = f"iteration {row['iteration']}"
            sizes = [part["mean_size"] for part in row["advantage_by_depth"]]
            middle.plot(_middles(len(sizes)), sizes, label=name, **style)
            entropies = [np.nan if e is None else e for e in row["entropy_by_depth"]]
            right.plot(_middles(len(entropies)), entropies, label=name, **style)
        several = len(rows) > 1
        label(middle, "Mean size of the advantage", "depth", "mean |advantage|", legend=several)
        label(right, "Entropy of the policy", "depth", "nats a token", legend=False)
        for ax in (middle, right):
            ax.set_ylim(bottom=0.0)
        if several:  # room for it above the curves
            middle.set_ylim(top=1.5 * middle.get_ylim()[1])
            middle.legend(ncols=2, fontsize=7, frameon=False, loc="upper right")
    return figure


def _bands(ax: Axes, row: dict[str, Any]) -> None:
    by_place = zip(_middles(len(row["advantage_by_depth"])), row["advantage_by_depth"], strict=True)
    filled = [(middle, part) for middle, part in by_place if part["n"]]
    middles = [middle for middle, _ in filled]
    for low, high, alpha, name in (("q05", "q95", 0.18, "90 %"), ("q25", "q75", 0.4, "50 %")):
        bottom, top = ([part[key] for _, part in filled] for key in (low, high))
        ax.fill_between(
            middles, bottom, top, color=COLOURS[0], alpha=alpha, linewidth=0,
            label=f"{name} of the steps",
        )  # fmt: skip
    ax.plot(middles, [part["mean"] for _, part in filled], color=COLOURS[1], label="mean")


def _middles(bins: int) -> list[float]:
    return [(place + 0.5) / bins for place in range(bins)]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the analysis and returns the exit status."""
    about = str(__doc__).split("\n")[0]
    return run_analysis("advantages", AdvantagesConfig, analyse, about=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
