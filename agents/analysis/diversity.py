"""How different a policy's answers to one problem are, and pass@k, over checkpoints.

    python -m agents.analysis diversity
    python -m agents.analysis diversity --run runs/A runs/B --num_generations 16

Of the samples of a problem: distinct final answers, distinct solutions (token for token), distinct
right solutions, the chance that two samples agree, majority voting, and pass@k for k up to the
number of samples.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agents.analysis.answers import sampled
from agents.analysis.command import Say, run_analysis
from agents.analysis.curves import plot_runs, run_name
from agents.analysis.output import COLOURS, MARKERS, Outcome, label, new_figure
from agents.analysis.spread import diversity_of
from agents.analysis.subject import AnalysisConfig, Checkpoint, Subject
from agents.core.evaluation import success_of
from agents.core.options import option


@dataclass(frozen=True)
class DiversityConfig(AnalysisConfig):
    """The options of the analysis."""

    num_generations: int = option(16, "Samples a problem.", low=2, paper="16")


def analyse(config: DiversityConfig, subjects: list[Subject], say: Say) -> Outcome:
    """Samples from every checkpoint."""
    found = []
    for subject in subjects:
        rows = []
        for checkpoint in subject.checkpoints:
            say(f"diversity: {subject.name}, {subject.split}, iteration {checkpoint.iteration}")
            rows.append(_of_checkpoint(config, subject, checkpoint))
        found.append({"name": subject.name, "split": subject.split, "checkpoints": rows})
    return Outcome({"subjects": found}, _figure(found), "\n".join(map(_line, found)))


def _of_checkpoint(
    config: DiversityConfig, subject: Subject, checkpoint: Checkpoint
) -> dict[str, Any]:
    policy = subject.policy(checkpoint)
    groups = sampled(subject.sampler(policy), subject.starts(), config.num_generations)
    measured = diversity_of(
        # An environment that extracts no answer has only whole responses to tell apart.
        [[a.info.get("extracted", tuple(a.response)) for a in group] for group in groups],
        [[tuple(a.response) for a in group] for group in groups],
        [[success_of(a) > 0 for a in group] for group in groups],
    )
    return {"iteration": checkpoint.iteration, **measured}


def _line(subject: dict[str, Any]) -> str:
    last = subject["checkpoints"][-1]
    n, rates = last["samples"], last["pass_at"]
    return (
        f"diversity: {subject['name']} ({subject['split']}), iteration {last['iteration']}: of {n} "
        f"samples {last['distinct_answers']:.1f} distinct answers, "
        f"{last['distinct_solutions']:.1f} distinct solutions "
        f"({last['distinct_right_solutions']:.1f} right); pass@1 {100 * rates[1]:.1f} %, "
        f"pass@{n} {100 * rates[n]:.1f} %, majority {100 * last['majority']:.1f} %"
    )


def _figure(found: Sequence[dict[str, Any]]) -> Figure:
    figure, (first, second, third) = new_figure(1, 3, width=4.0, height=3.2)
    n = max(found[0]["checkpoints"][0]["pass_at"])
    for number, subject in enumerate(found):
        _pass_curves(first, number, subject, run_name(subject, found))
    first.set_xscale("log", base=2)
    first.set_xticks(list(found[0]["checkpoints"][0]["pass_at"]))
    first.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    label(first, "pass@k", "k", "%", legend=len(found) > 1 or len(found[0]["checkpoints"]) > 1)
    plot_runs(
        second, found, lambda row: 100 * row["pass_at"][1], lambda row: 100 * row["pass_at"][n]
    )
    label(second, f"pass@{n} against pass@1", "pass@1, %", f"pass@{n}, %", legend=len(found) > 1)
    kinds = (("distinct_solutions", "-"), ("distinct_right_solutions", "--"))
    for key, line in (*kinds, ("distinct_answers", ":")):
        plot_runs(
            third,
            [{**subject, "name": key.replace("_", " ")} for subject in found],
            lambda row: row["iteration"],
            lambda row, key=key: row[key],  # type: ignore[misc]
            line=line,
            legend=len(found) == 1,
        )
    title = "Distinct" if len(found) == 1 else "Solutions solid, right dashed, answers dotted"
    label(third, title, "iteration", f"distinct of {n} samples")
    third.set_ylim(bottom=0.0)
    return figure


def _pass_curves(ax: Axes, number: int, subject: dict[str, Any], name: str) -> None:
    """Draws the first checkpoint's curve dashed and the last one's solid."""
    rows = subject["checkpoints"]
    ends = [(rows[-1], "-")] if len(rows) == 1 else [(rows[0], "--"), (rows[-1], "-")]
    for row, line in ends:
        ax.plot(
            list(row["pass_at"]),
            [100 * rate for rate in row["pass_at"].values()],
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            linestyle=line,
            label=f"{name}, iteration {row['iteration']}",
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the analysis and returns the exit status."""
    about = str(__doc__).split("\n")[0]
    return run_analysis("diversity", DiversityConfig, analyse, about=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
