"""Runs of the training commands that are stopped at a chosen moment, and what they leave."""

import signal
from importlib import import_module

from commands import flags, metrics_of
from safetensors.torch import load_file

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
EXTRA = {
    "vineppo": {"num_rollouts": 2, "allocation": "variance", "env_kwargs": CURRICULUM},
    "ppo": {"critic_warmup": 1, "critic_learning_rate": 1e-3},
}
AGENTS = ("vineppo", "ppo", "rloo", "grpo", "sft")


def command(agent, folder, **more):
    settings = SFT if agent == "sft" else SETTINGS | EXTRA.get(agent, {})
    return flags(settings, output_dir=folder, **more)


def run(agent, folder, **more):
    """Returns the exit status of a run in this process."""
    return import_module(f"agents.{agent}").main(command(agent, folder, **more))


def resume(agent, folder):
    return import_module(f"agents.{agent}").main(["--resume", str(folder)])


def left_by(folder):
    """Returns metrics without the clock's, samples, and the final weights."""
    newest = checkpoints(folder)[0]
    weights = load_file(newest / "model.safetensors")
    if (newest / "critic.safetensors").exists():
        weights |= {f"critic.{k}": v for k, v in load_file(newest / "critic.safetensors").items()}
    return metrics_of(folder), (folder / "samples.jsonl").read_text(), newest.name, weights


def same(one, other):
    """Returns whether two runs left the same, bit for bit."""
    weights = one[3].keys() == other[3].keys() and all(
        one[3][name].equal(other[3][name]) for name in one[3]
    )
    return weights and one[:3] == other[:3]


class Moments:
    """Counts the moments of a run: the beginnings of its phases, and progress within them.

    At moment number ``at`` the process gets SIGINT.
    """

    def __init__(self, monkeypatch, at=None):
        self.count, self.at = 0, at
        begin, advance = Reporter.phase, Phase.advance

        def counted_begin(reporter, *arguments, **settings):
            self._tick()
            return begin(reporter, *arguments, **settings)

        def counted_advance(phase, *arguments, **settings):
            self._tick()
            return advance(phase, *arguments, **settings)

        monkeypatch.setattr(Reporter, "phase", counted_begin)
        monkeypatch.setattr(Phase, "advance", counted_advance)

    def _tick(self):
        self.count += 1
        if self.count == self.at:
            signal.raise_signal(signal.SIGINT)
