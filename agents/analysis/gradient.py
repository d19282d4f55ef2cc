"""Noise of the policy gradient by estimator: variance, cosine, and what it costs.

    python -m agents.analysis gradient
    python -m agents.analysis gradient --model runs/NAME/checkpoints/step-60 --estimators reuse:2

The same answers get advantages from each estimator, and the agents' loss turns them into the
policy gradient of the first step after sampling: ratio 1, no whitening, no KL. A group (a prompt
with its answers) gives one gradient; the trace of their covariance is the noise, differences
between prompts included. A large batch of other answers gives the true direction; its own noise is
taken out of its length. Costs are generated tokens (value rollouts counted) and CPU seconds
(answers, values and one training pass), both over those of the first estimator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agents.analysis.command import Say, run_analysis
from agents.analysis.critics import fit_critic, trainer_of
from agents.analysis.estimators import estimator_of
from agents.analysis.measure import first_step, measure, policy_gradients
from agents.analysis.noise import ANSWERS, noise_line, noise_table
from agents.analysis.output import COLOURS, MARKERS, Outcome, label, new_figure
from agents.analysis.subject import (
    AnalysisConfig,
    Checkpoint,
    Subject,
    UnsuitableError,
    critic_of,
)
from agents.core.envs import ProblemCursor
from agents.core.options import option
from agents.core.rollout import Trajectory, mark_states
from agents.core.streams import generator

_FIRST = "rloo"
_COSTS = (("gain_per_token", "o", "token"), ("gain_per_second", "s", "CPU second"))


@dataclass(frozen=True)
class GradientConfig(AnalysisConfig):
    """The options of the analysis."""

    split: tuple[str, ...] = option(
        ("train",), "Problems: train, validation or test; several are compared."
    )
    num_problems: int = option(192, "Problems that are measured; one gradient each.", low=2)
    reference_problems: int = option(
        1024, "Other problems: the large batch that gives the true direction.", low=16
    )
    num_prompts: int = option(16, "Problems that are sampled and valued at once.", low=1)
    num_generations: int = option(4, "Answers a problem.", low=2, paper="8")
    estimators: tuple[str, ...] = option(
        ("grpo", "paper:1", "paper:2", "paper:4", "paper:9", "reuse:1", "reuse:2", "reuse:4"),
        "Compared with rloo: grpo, paper:K, reuse:K, ppo; ppo also where there is a critic.",
    )
    critic_problems: int = option(
        0,
        "Problems whose answers train a critic for ppo, the policy staying as it is; 0: the "
        "checkpoint's own critic, if it has one.",
        low=0,
    )
    critic_learning_rate: float = option(1e-3, "Peak learning rate of that critic.", above=0)
    gae_lambda: float = option(1.0, "Lambda of ppo; below 1 it is biased.", low=0, high=1)
    micro_batch_size: int = option(64, "Answers per training pass at most.", low=1)

    def __post_init__(self) -> None:
        """Checks every field and the names of the estimators; raises ValueError."""
        super().__post_init__()
        for name in self.estimators:
            if name != "ppo":
                estimator_of(name)


def analyse(config: GradientConfig, subjects: list[Subject], say: Say) -> Outcome:
    """Measures every policy of the subjects.

    Raises:
        UnsuitableError: The environment has too few problems.
    """
    tables = []
    for subject in subjects:
        for checkpoint in subject.checkpoints:
            name = _name(subject, checkpoint, len(subjects))
            say(f"gradient: measuring {name}")
            try:
                table = _measured(config, subject, checkpoint, say)
            except ValueError as error:
                raise UnsuitableError(str(error)) from error
            tables.append({"policy": name, "iteration": checkpoint.iteration, **table})
    line = "\n".join(
        (f"{table['policy']}: " if len(tables) > 1 else "") + noise_line(table) for table in tables
    )
    return Outcome({"policies": tables}, _figure(tables), line)


def _name(subject: Subject, checkpoint: Checkpoint, subjects: int) -> str:
    parts = [subject.name]
    if len(subject.checkpoints) > 1:
        parts.append(f"iteration {checkpoint.iteration}")
    if subjects > 1:
        parts.append(subject.split)
    return ", ".join(parts)


def _measured(
    config: GradientConfig, subject: Subject, checkpoint: Checkpoint, say: Say
) -> dict[str, Any]:
    policy = subject.policy(checkpoint)
    sampler = subject.sampler(policy)
    cursor = ProblemCursor(subject.env, config.num_prompts, config.seed)
    settings = first_step(subject.config.temperature, subject.config.top_p, config.micro_batch_size)

    def collect(iteration: int) -> list[Trajectory]:
        groups = sampler.sample(
            list(cursor.starts(iteration)),
            config.num_generations,
            iteration=iteration,
            purpose="rollout",
        )
        return [answer for group in groups for answer in group]

    parts = _iterations(config)
    names = [name for name in config.estimators if name != _FIRST]
    critic, extra = None, {}
    held = critic_of(checkpoint, policy)
    if config.critic_problems:
        critic, share = fit_critic(
            policy, collect, parts[0], config=config, temperature=subject.config.temperature
        )
        say(f"gradient: the critic explains {share:.2f} of the variance of the returns")
        extra["critic_explained_variance"] = share
    elif held is not None:
        critic = trainer_of(held, config, temperature=subject.config.temperature)
    if critic is not None and "ppo" not in names:
        names.append("ppo")
    first = estimator_of(_FIRST)
    estimators = [first]
    for name in names:
        estimators.append(estimator_of(name, critic=critic, gae_lambda=config.gae_lambda))
    signal, results = measure(
        estimators,
        collect,
        lambda answer: mark_states(subject.env, answer),
        sampler,
        lambda answers, advantages: policy_gradients(policy, answers, advantages, settings),
        group=config.num_generations,
        baseline=first,
        reference=parts[1],
        iterations=parts[2],
        progress=_progress(say, len(parts[1]) + len(parts[2])),
    )
    rng = generator(config.seed, "gradient/bootstrap")
    table = noise_table(signal, results, config.num_generations, rng)
    return {**table, **extra}


def _iterations(config: GradientConfig) -> list[range]:
    """Returns the iterations of the critic, the large batch and what is measured."""
    sizes = (config.critic_problems, config.reference_problems, config.num_problems)
    counts = [ceil(size / config.num_prompts) for size in sizes]
    starts = [1 + sum(counts[:place]) for place in range(3)]
    return [range(a, a + n) for a, n in zip(starts, counts, strict=True)]


def _progress(say: Say, total: int) -> Callable[[], None]:
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if done % max(1, total // 10) == 0:
            say(f"gradient: {done} of {total} batches")

    return advance


def _figure(tables: Sequence[dict[str, Any]]) -> Figure:
    """Returns the gain, the gain over both costs, and the cosine, a row for each estimator."""
    names = [entry["label"] for entry in tables[0]["estimators"]]
    figure, axes = new_figure(1, 3, width=4.2, height=1.2 + 0.32 * len(names))
    for number, table in enumerate(tables):
        entries = table["estimators"]
        shift = 0.0 if len(tables) == 1 else 0.5 * (number / (len(tables) - 1) - 0.5)
        rows = np.arange(len(names)) + shift
        style = {
            "color": COLOURS[number % len(COLOURS)],
            "marker": MARKERS[number % len(MARKERS)],
            "linestyle": "none",
            "label": table["policy"],
            "markersize": 5,
        }
        gains = np.array([entry["gain"] for entry in entries])
        ends = np.array([(entry["gain_low"], entry["gain_high"]) for entry in entries]).T
        spread = np.maximum(0.0, np.stack([gains - ends[0], ends[1] - gains]))
        axes[0].errorbar(gains, rows, xerr=spread, capsize=2, **style)
        for key, shape, what in _COSTS:
            own = style | {"label": f"per {what}" if number == 0 else None, "marker": shape}
            fill = "white" if what == "token" else style["color"]
            costs = [entry[key] for entry in entries]
            axes[1].plot(costs, rows, markerfacecolor=fill, **own)
        axes[2].plot([entry["cosine"] for entry in entries], rows, **style)
    _finish(axes, names, len(tables))
    return figure


def _finish(axes: Sequence[Axes], names: Sequence[str], policies: int) -> None:
    titles = (
        ("Gain an answer", "RLOO's noise over the estimator's", policies > 1),
        ("Gain at equal cost", "gain over cost, both beside RLOO's", True),
        (f"Cosine to the true gradient, {ANSWERS} answers", "cosine", False),
    )
    for place, (ax, (title, x, legend)) in enumerate(zip(axes, titles, strict=True)):
        if place < 2:
            ax.axvline(1.0, color="#8C8C8C", linewidth=0.8, linestyle="--")
        label(ax, title, x, "", legend=legend)
        ax.set_yticks(range(len(names)), names if place == 0 else [""] * len(names))
        ax.invert_yaxis()
        ax.set_xlim(left=0.0)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the analysis and returns the exit status."""
    about = str(__doc__).split("\n")[0]
    return run_analysis("gradient", GradientConfig, analyse, about=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
