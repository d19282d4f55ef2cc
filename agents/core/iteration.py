"""One iteration between sampling and the log: what is trained on, what is reported of it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from agents.core.credit import Advantages, zero_spread_groups
from agents.core.disk import write_atomically
from agents.core.distributed import on_first
from agents.core.evaluation import success_of
from agents.core.flags import command_line
from agents.core.objective import Batch
from agents.core.records import Sample
from agents.core.rollout import Trajectory
from agents.core.update_log import Diverged
from lang_env.tokenizers import Tokenizer


@dataclass(slots=True)
class Iteration:
    """An iteration whose answers have been sampled and valued; the update is to come, or halfway.

    Attributes:
        batch: The answers.
        metrics: What is known before the update.
        sample: The answer to show.
        num_tokens: Tokens generated for it.
        seconds: Wall-clock and CPU seconds spent on it so far.
    """

    batch: Batch
    metrics: dict[str, float]
    sample: Sample
    num_tokens: int
    seconds: tuple[float, float] = (0.0, 0.0)

    def spend(self, started: tuple[float, float]) -> None:
        """Adds the seconds since ``started``, which ``clocks`` returned."""
        wall, cpu = clocks()
        before = self.seconds
        self.seconds = (before[0] + wall - started[0], before[1] + cpu - started[1])

    def state(self) -> dict[str, Any]:
        """Returns it as a tree that a checkpoint can hold."""
        return {
            "batch": {item.name: getattr(self.batch, item.name) for item in fields(Batch)},
            "metrics": self.metrics,
            "sample": asdict(self.sample),
            "num_tokens": self.num_tokens,
            "seconds": self.seconds,
        }

    @staticmethod
    def of(state: Mapping[str, Any]) -> Iteration:
        """Returns what ``state`` described."""
        sample: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in state["sample"].items()
        }
        batch, seconds = Batch(**state["batch"]), state["seconds"]
        return Iteration(
            batch, state["metrics"], Sample(**sample), state["num_tokens"], (seconds[0], seconds[1])
        )


def clocks() -> tuple[float, float]:
    """Returns wall-clock and CPU seconds, of which differences count."""
    return time.perf_counter(), time.process_time()


def next_command(folder: Path, checkpoint: Path, stopped: bool) -> str:
    """Returns what to type next: to go on with a stopped run, or to train its policy further.

    Args:
        folder: The run's.
        checkpoint: Its newest.
        stopped: Whether a signal ended the run.
    """
    if stopped:
        return f"{command_line()} --resume {folder}"
    config = folder / "config.yaml"
    return f"{command_line()} --config {config} --model {checkpoint} --output_dir {folder}-more"


def sample_of(trajectories: Sequence[Trajectory], credit: Advantages, env: Any) -> Sample:
    """Returns the answer whose steps differ most in advantage, the first among equals.

    What was written before the answer began, if it did not begin at the prompt, stands below the
    question.

    Args:
        trajectories: The answers.
        credit: What the algorithm says about them.
        env: The environment, whose segmenter cuts the answer into steps.
    """
    spreads = [float(array.max() - array.min()) for array in credit.tokens]
    chosen = int(np.argmax(spreads))
    trajectory, advantages = trajectories[chosen], credit.tokens[chosen]
    start = trajectory.start
    problem = getattr(start.snapshot, "problem", None)
    question = str(getattr(problem, "question", start.problem_id))
    if start.written:
        question += "\n" + env.tokenizer.decode(start.tokens[len(start.tokens) - start.written :])
    borders = env.segmenter(trajectory.response, env.tokenizer)
    pieces = zip(borders, [*borders[1:], len(trajectory.response)], strict=True)
    values = credit.values[chosen]
    if not values and credit.token_values:
        values = [float(credit.token_values[chosen][border]) for border in borders]
    return Sample(
        question=question,
        steps=tuple(env.tokenizer.decode(trajectory.response[begin:end]) for begin, end in pieces),
        advantages=tuple(float(advantages[begin]) for begin in borders),
        values=_padded_values(values, len(borders)),
        reward=trajectory.reward,
        reference=str(getattr(problem, "answer", "")),
    )


def _padded_values(values: list[float], count: int) -> tuple[float, ...]:
    """Returns a value for each step: beyond a cap there is none, shown as NaN."""
    return (*values, *([math.nan] * (count - len(values)))) if values else ()


def rollout_metrics(trajectories: Sequence[Trajectory], group: int) -> dict[str, float]:
    """Returns TRL's numbers about rewards and lengths.

    Args:
        trajectories: The answers, those of a prompt together.
        group: Answers a prompt.
    """
    rewards = np.array([trajectory.reward for trajectory in trajectories]).reshape(-1, group)
    lengths = np.array([len(trajectory.response) for trajectory in trajectories])
    undecided = [t.info.get("verdict") == "undecided" for t in trajectories]
    return {
        "reward": float(rewards.mean()),
        "reward_std": float(rewards.std()),
        "frac_reward_zero_std": float(np.mean(zero_spread_groups(trajectories, group))),
        "accuracy": float(np.mean([success_of(trajectory) for trajectory in trajectories])),
        "completions/mean_length": float(lengths.mean()),
        "completions/min_length": float(lengths.min()),
        "completions/max_length": float(lengths.max()),
        "completions/clipped_ratio": float(np.mean([t.truncated for t in trajectories])),
        "grades/undecided_ratio": float(np.mean(undecided)),
    }


def with_answers(error: Diverged, folder: Path, batch: Batch, env: Any) -> Diverged:
    """Returns the error with where its answers are, after saving them."""
    saved = on_first(lambda: save_offending(folder, batch, error.rows, env.tokenizer))
    return Diverged(f"{error} The last answers are in {saved}.", error.rows)


def save_offending(folder: Path, batch: Batch, rows: Sequence[int], tokenizer: Tokenizer) -> Path:
    """Writes the answers whose gradient was not finite to ``diverged.jsonl``; returns its path.

    Args:
        folder: The run's folder.
        batch: The iteration's answers.
        rows: Places of the offending ones in it.
        tokenizer: Turns ids into text.
    """
    lines = [
        {
            "prompt": tokenizer.decode(batch.prompts[row]),
            "response": tokenizer.decode(batch.responses[row]),
            "prompt_ids": [int(token) for token in batch.prompts[row]],
            "response_ids": [int(token) for token in batch.responses[row]],
            "advantages": [repr(float(number)) for number in batch.advantages[row]],
            "engine_log_probs": [repr(float(number)) for number in batch.engine_log_probs[row]],
        }
        for row in rows
    ]
    path = folder / "diverged.jsonl"
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in lines))
    return path
