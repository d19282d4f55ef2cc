"""Small runs of the training commands that are stopped at a chosen moment, and what they leave.

Used by ``benchmarks/faults.py`` and by the tests.
"""

from __future__ import annotations

import json
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor

from agents.core.checkpoint import checkpoints
from agents.core.reporting import Phase, Reporter

SETTINGS = {
    "iterations": 3, "num_prompts": 2, "num_generations": 2, "minibatch_size": 2,
    "eval_problems": 2, "updates_per_batch": 2, "eval_samples": 1, "eval_every": 2,
    "save_every": 1, "threads": 1,
    "learning_rate": 1e-3, "keep_checkpoints": 3, "plain": "true",
}  # fmt: skip
SFT = {
    "max_steps": 6, "batch_size": 4, "logging_steps": 2, "save_steps": 3, "eval_problems": 2,
    "eval_samples": 1, "eval_every": 2, "threads": 1, "model": "tiny", "max_new_tokens": 128,
    "learning_rate": 1e-3, "plain": "true",
}  # fmt: skip
CURRICULUM = '{"level": 2, "curriculum": {"levels": [1, 2], "window": 2, "start": 2}}'
EXTRA: dict[str, dict[str, Any]] = {
    "vineppo": {"num_rollouts": 2, "allocation": "variance", "env_kwargs": CURRICULUM},
    "ppo": {"critic_warmup": 1, "critic_learning_rate": 1e-3},
}
AGENTS = ("vineppo", "ppo", "rloo", "grpo", "sft", "restem", "dpo_positive")
CLOCK = ("time", "seconds", "per_s")

Left = tuple[list[dict[str, Any]], str, str, dict[str, Tensor]]
"""Metrics without the clock's, samples, the newest checkpoint's name, and its weights."""


def command(agent: str, folder: Path, **more: Any) -> list[str]:
    """Returns the flags of a small run; ``more`` wins over the usual ones."""
    settings = SFT if agent == "sft" else SETTINGS | EXTRA.get(agent, {})
    flags = settings | {"output_dir": folder} | more
    return [part for key, value in flags.items() for part in (f"--{key}", str(value))]


def run(agent: str, folder: Path, **more: Any) -> int:
    """Returns the exit status of a run in this process."""
    status: int = import_module(f"agents.{agent}").main(command(agent, folder, **more))
    return status


def resume(agent: str, where: Path) -> int:
    """Goes on with a run, or from one of its checkpoints, and returns the exit status."""
    status: int = import_module(f"agents.{agent}").main(["--resume", str(where)])
    return status


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    """Returns a run's metrics without what depends on the clock."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in line.items() if not any(word in key for word in CLOCK)}
        for line in lines
    ]


def left_by(folder: Path) -> Left:
    """Returns what a run left."""
    newest = checkpoints(folder)[0]
    weights = load_file(newest / "model.safetensors")
    if (newest / "critic.safetensors").exists():
        weights |= {f"critic.{k}": v for k, v in load_file(newest / "critic.safetensors").items()}
    return metrics_of(folder), (folder / "samples.jsonl").read_text(), newest.name, weights


def same(one: Left, other: Left) -> bool:
    """Returns whether two runs left the same, bit for bit."""
    weights = one[3].keys() == other[3].keys() and all(
        one[3][name].equal(other[3][name]) for name in one[3]
    )
    return weights and one[:3] == other[:3]


class Moments:
    """Counts the moments of a run: the beginnings of its phases, and progress within them.

    At moment number ``at`` the process gets a signal, ``times`` times.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        at: int | None = None,
        number: int = signal.SIGINT,
        times: int = 1,
    ) -> None:
        """Begins to count, until ``patch`` is undone."""
        self.count, self.at, self.number, self.times = 0, at, number, times
        begin, advance = Reporter.phase, Phase.advance

        def counted_begin(reporter: Reporter, *arguments: Any, **settings: Any) -> Any:
            self._tick()
            return begin(reporter, *arguments, **settings)

        def counted_advance(phase: Phase, *arguments: Any, **settings: Any) -> None:
            self._tick()
            advance(phase, *arguments, **settings)

        patch.setattr(Reporter, "phase", counted_begin)
        patch.setattr(Phase, "advance", counted_advance)

    def _tick(self) -> None:
        self.count += 1
        if self.count == self.at:
            for _ in range(self.times):
                signal.raise_signal(self.number)
