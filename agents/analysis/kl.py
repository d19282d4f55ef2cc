"""KL of each checkpoint from the start, beside its accuracy.

    python -m agents.analysis kl --run runs/A runs/B
    python -m agents.analysis kl --model runs/A/checkpoints/step-60 --reference tiny

KL(policy || start) on answers that the policy samples, in nats an answer: k1 and k3 from the
sampled tokens, and "exact", the sum over the answer's places of the KL between the two next-token
distributions. All three have the same expectation at top_p = 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from agents.analysis.answers import accuracy_of, interval_json, sampled, token_pass
from agents.analysis.command import Say, run_analysis
from agents.analysis.curves import plot_runs, run_name
from agents.analysis.drift import answer_kl, mean_and_error
from agents.analysis.output import Outcome, label, new_figure
from agents.analysis.subject import AnalysisConfig, Checkpoint, Subject, UnsuitableError
from agents.core.options import option
from agents.core.policy import Extras, Policy


@dataclass(frozen=True)
class KLConfig(AnalysisConfig):
    """The options of the analysis."""

    num_generations: int = option(4, "Answers a problem.", low=1, paper="8")
    reference: str | None = option(
        None, "Policy to measure from, folder or hub name; none: where the run started."
    )


def start_policy(subject: Subject, reference: str | None) -> Policy:
    """Returns the policy that distances are measured from.

    Args:
        subject: With a run, its start is the answer where ``reference`` is None.
        reference: What ``load_policy`` takes, or None.

    Raises:
        UnsuitableError: There is no start: the policy belongs to no run, or the run made its own.
    """
    if reference is not None:
        return subject.policy(Checkpoint(0, reference))
    first = subject.checkpoints[0]
    if not subject.run_options or first.folder is not None:
        raise UnsuitableError(
            f"{subject.name} has no policy to measure from. Pass --run with a run's folder, or "
            "--reference with a model (tiny is the embedded one)."
        )
    return subject.policy(first)


def analyse(config: KLConfig, subjects: list[Subject], say: Say) -> Outcome:
    """Measures every checkpoint.

    Raises:
        UnsuitableError: There is no start to measure from.
    """
    found = []
    for subject in subjects:
        start = start_policy(subject, config.reference)
        rows = []
        for checkpoint in subject.checkpoints:
            say(f"kl: {subject.name}, {subject.split}, iteration {checkpoint.iteration}")
            rows.append(_of_checkpoint(config, subject, checkpoint, start))
        found.append({"name": subject.name, "split": subject.split, "checkpoints": rows})
    return Outcome({"subjects": found}, _figure(found), "\n".join(map(_line, found)))


def _of_checkpoint(
    config: KLConfig, subject: Subject, checkpoint: Checkpoint, start: Policy
) -> dict[str, Any]:
    policy = subject.policy(checkpoint)
    groups = sampled(subject.sampler(policy), subject.starts(), config.num_generations)
    answers = [answer for group in groups for answer in group]
    log_probs, full = token_pass(
        policy, answers, subject, lambda stats: [stats.log_probs, stats.kl], Extras(reference=start)
    )
    (start_log_probs,) = token_pass(start, answers, subject, lambda stats: [stats.log_probs])
    estimates = answer_kl(log_probs, start_log_probs)
    estimates["exact"] = np.array([row.sum() for row in full])
    result: dict[str, Any] = {
        "iteration": checkpoint.iteration,
        "accuracy": interval_json(accuracy_of(groups)),
        "tokens": float(np.mean([len(answer.response) for answer in answers])),
    }
    for name, numbers in estimates.items():
        mean, error = mean_and_error(numbers, config.num_generations)
        result[name] = {"mean": mean, "standard_error": error}
    result["exact_per_token"] = result["exact"]["mean"] / result["tokens"]
    return result


def _line(subject: dict[str, Any]) -> str:
    last = subject["checkpoints"][-1]
    exact, k1, k3 = (last[name] for name in ("exact", "k1", "k3"))
    return (
        f"kl: {subject['name']} ({subject['split']}), iteration {last['iteration']}: "
        f"{exact['mean']:.2f} +- {exact['standard_error']:.2f} nats an answer from the start "
        f"(k1 {k1['mean']:.2f}, k3 {k3['mean']:.2f}) at {100 * last['accuracy']['mean']:.1f} % "
        "accuracy"
    )


def _figure(found: Sequence[dict[str, Any]]) -> Figure:
    figure, (left, right) = new_figure(1, 2)
    plot_runs(left, found, lambda row: row["exact"]["mean"], lambda row: _percent(row))
    for subject in found:
        rows = subject["checkpoints"]
        for row in (rows[0], rows[-1]) if len(rows) > 1 else rows:
            place = (row["exact"]["mean"], _percent(row))
            left.annotate(
                str(row["iteration"]), place, (4, -9), textcoords="offset points", fontsize=7
            )
    label(left, "Accuracy against distance", "KL from the start, nats an answer", "accuracy, %")
    several = len(found) > 1 or len(found[0]["checkpoints"]) > 1
    lines = (("exact", "-"), ("k3", "--"), ("k1", ":"))
    for name, line in lines:
        plot_runs(
            right,
            [{**s, "name": f"{run_name(s, found)} {name}"} for s in found],
            lambda row: row["iteration"],
            lambda row, name=name: row[name]["mean"],  # type: ignore[misc]
            line=line,
            legend=len(found) == 1,
        )
    title = "KL over training" + ("" if len(found) == 1 else ": exact solid, k3 dashed, k1 dotted")
    label(right, title, "iteration", "nats an answer", legend=several)
    return figure


def _percent(row: dict[str, Any]) -> float:
    return 100 * float(row["accuracy"]["mean"])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the analysis and returns the exit status."""
    about = str(__doc__).split("\n")[0]
    return run_analysis("kl", KLConfig, analyse, about=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
