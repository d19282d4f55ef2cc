"""Distance of each checkpoint's weights from the start, in all and by layer.

    python -m agents.analysis weights --run runs/A runs/B
    python -m agents.analysis weights --model runs/A/checkpoints/step-60 --reference tiny

The length of the difference (L2), and that over the length of the start's weights.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from agents.analysis.command import Say, run_analysis
from agents.analysis.curves import plot_runs, run_name
from agents.analysis.drift import weight_distance
from agents.analysis.kl import start_policy
from agents.analysis.output import COLOURS, Outcome, label, new_figure
from agents.analysis.subject import AnalysisConfig, Subject, UnsuitableError
from agents.core.options import option
from agents.core.policy import Policy


@dataclass(frozen=True)
class WeightsConfig(AnalysisConfig):
    """The options of the analysis; those of problems and sampling have no effect on it."""

    reference: str | None = option(
        None, "Policy to measure from, folder or hub name; none: where the run started."
    )


def analyse(config: WeightsConfig, subjects: list[Subject], say: Say) -> Outcome:
    """Compares every checkpoint with the start.

    Raises:
        UnsuitableError: There is no start, or it is another model.
    """
    found = []
    for subject in subjects:
        start = _weights(start_policy(subject, config.reference))
        rows = []
        for checkpoint in subject.checkpoints:
            say(f"weights: {subject.name}, iteration {checkpoint.iteration}")
            try:
                parts = weight_distance(_weights(subject.policy(checkpoint)), start)
            except ValueError as error:
                raise UnsuitableError(str(error)) from error
            rows.append({"iteration": checkpoint.iteration, "parts": parts})
        found.append({"name": subject.name, "split": subject.split, "checkpoints": rows})
    return Outcome({"subjects": found}, _figure(found), "\n".join(map(_line, found)))


def _weights(policy: Policy) -> dict[str, Tensor]:
    """Returns the weights by name, tied ones once."""
    return {name: weight.detach().cpu() for name, weight in policy.model.named_parameters()}


def _line(subject: dict[str, Any]) -> str:
    last = subject["checkpoints"][-1]
    everything = last["parts"]["all"]
    parts = {name: part for name, part in last["parts"].items() if name != "all"}
    most = max(parts, key=lambda name: parts[name]["relative"] or 0.0)
    share, largest = (100 * (part["relative"] or 0.0) for part in (everything, parts[most]))
    return (
        f"weights: {subject['name']}, iteration {last['iteration']}: L2 {everything['l2']:.3g} "
        f"from the start, {share:.2f} % of its length; most in {most} ({largest:.2f} %)"
    )


def _figure(found: Sequence[dict[str, Any]]) -> Figure:
    figure, (left, right) = new_figure(1, 2)
    plot_runs(
        left,
        found,
        lambda row: row["iteration"],
        lambda row: 100 * (row["parts"]["all"]["relative"] or 0.0),
    )
    left.set_ylim(bottom=0.0)
    label(left, "Distance from the start", "iteration", "% of the start's length")
    names = [name for name in found[0]["checkpoints"][-1]["parts"] if name != "all"]
    width = 0.8 / len(found)
    for number, subject in enumerate(found):
        parts = subject["checkpoints"][-1]["parts"]
        right.bar(
            [place + width * (number - (len(found) - 1) / 2) for place in range(len(names))],
            [100 * (parts.get(name, {}).get("relative") or 0.0) for name in names],
            width,
            color=COLOURS[number % len(COLOURS)],
            label=run_name(subject, found),
        )
    right.set_xticks(range(len(names)), names, rotation=0 if len(names) < 7 else 90, fontsize=8)
    label(right, "Last checkpoint by part", "", "% of the part's length", legend=len(found) > 1)
    return figure


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the analysis and returns the exit status."""
    about = str(__doc__).split("\n")[0]
    return run_analysis("weights", WeightsConfig, analyse, about=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
