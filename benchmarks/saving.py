"""What it costs to lose nothing: a checkpoint, and a line of metrics that is forced to disk.

    python -m benchmarks.saving

The embedded policy with its optimizer after one update, as a default run saves it: weights,
optimizer, tokenizer, state, hashes, all forced to disk. Beside it the limit: as many bytes written
to one file and forced to disk. The last line is JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from agents.core.credit import batch_of
from agents.core.reporting import Reporter
from agents.core.run_folder import RunFiles
from agents.vineppo import VinePPO, VinePPOConfig

CHECKPOINTS, LINES = 15, 200


def seconds(count: int, action: Callable[[int], object]) -> list[float]:
    """Returns the seconds of each of ``count`` calls."""
    found = []
    for number in range(count):
        started = time.perf_counter()
        action(number)
        found.append(time.perf_counter() - started)
    return found


def main() -> int:
    """Prints the table."""
    torch.set_num_threads(1)
    config = VinePPOConfig(
        model="tiny", num_prompts=4, num_generations=2, num_rollouts=1, iterations=1,
        eval_problems=0, max_new_tokens=80, top_p=1.0, minibatch_size=8, updates_per_batch=1,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        agent = VinePPO(config, folder)
        trajectories = agent.collect(1, lambda *_: None)
        credit = agent.advantages(trajectories, 1, lambda *_: None)
        agent.update(
            batch_of(trajectories, credit.tokens, config), 1, lambda *_: None, lambda: False
        )
        state = Reporter(folder, config, agent="vineppo", plain=True).state()
        last = agent.save(state)
        size = sum(path.stat().st_size for path in last.iterdir())

        def forced(number: int) -> None:
            with (folder / "limit").open("wb") as file:
                file.write(b"x" * size)
                file.flush()
                os.fsync(file.fileno())

        pairs = [
            (seconds(1, lambda _: agent.save(state))[0], seconds(1, forced)[0])
            for _ in range(CHECKPOINTS)
        ]
        files = RunFiles(folder / "lines", config)
        metrics = {f"metric/{number}": float(number) for number in range(50)}
        lines = seconds(LINES, lambda number: files.metrics(number + 1, metrics))
        files.close()
    saved, limit = zip(*pairs, strict=True)
    numbers = {
        "checkpoint_seconds": statistics.median(saved),
        "checkpoint_seconds_max": max(saved),
        "limit_seconds": statistics.median(limit),
        "checkpoint_bytes": size,
        "metrics_line_ms": 1e3 * statistics.median(lines),
        "metrics_line_ms_max": 1e3 * max(lines),
    }
    for key, value in numbers.items():
        sys.stdout.write(f"{key:24}{value:14,.4f}\n")
    sys.stdout.write(json.dumps(numbers) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
