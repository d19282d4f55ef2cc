"""Tiny settings and helpers shared by the tests of the training commands."""

from benchmarks.stopped_runs import CLOCK, metrics_of

__all__ = ["CLOCK", "SMALL", "collected", "flags", "metrics_of"]

SMALL = {
    "iterations": 2, "num_prompts": 4, "num_generations": 4, "eval_problems": 4,
    "eval_samples": 2, "threads": 1, "temperature": 1.0, "top_p": 1.0, "minibatch_size": 8,
    "learning_rate": 1e-4, "warmup_ratio": 0.0,
}  # fmt: skip


def flags(settings, **more):
    """Returns settings as a command line."""
    return [part for key, value in (settings | more).items() for part in (f"--{key}", str(value))]


def collected(agent):
    """Returns one iteration's answers and their advantages."""
    trajectories = agent.collect(1, lambda *_: None)
    return trajectories, agent.advantages(trajectories, 1, lambda *_: None)
