"""Tiny settings and helpers shared by the tests of the training commands."""

import json

SMALL = {
    "iterations": 2, "num_prompts": 4, "num_generations": 4, "eval_problems": 4,
    "eval_samples": 2, "threads": 1, "temperature": 1.0, "top_p": 1.0, "minibatch_size": 8,
    "learning_rate": 1e-4, "warmup_ratio": 0.0,
}  # fmt: skip
CLOCK = ("time", "seconds", "per_s")


def flags(settings, **more):
    """Returns settings as a command line."""
    return [part for key, value in (settings | more).items() for part in (f"--{key}", str(value))]


def metrics_of(folder):
    """Returns a run's metrics without what depends on the clock."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in line.items() if not any(word in key for word in CLOCK)}
        for line in lines
    ]


def collected(agent):
    """Returns one iteration's answers and their advantages."""
    trajectories = agent.collect(1, lambda *_: None)
    return trajectories, agent.advantages(trajectories, 1, lambda *_: None)
