"""``benchmarks/env.py`` runs as its first lines say, and gives what its JSON promises."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_benchmark_gives_every_figure():
    command = [sys.executable, "benchmarks/env.py", "--rounds", "1", "--seconds", "0.001"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    for name in ("step", "play", "vector_step", "vector_play", "sync_vector_step"):
        for figure in (f"{name}_tokens_per_s", f"{name}_graded_tokens_per_s"):
            assert {*result[figure]} == {"64", "512"} and min(result[figure].values()) > 0
    for name in ("snapshot", "restore", "deepcopy"):
        assert {*result[f"{name}_us"]} == {"10", "100", "1000", "10000"}
        low, high = result["range"][f"{name}_us"]["1000"]
        assert 0 < low <= result[f"{name}_us"]["1000"] <= high
    # Far inside the aims (1M a second, 100 times), so that a busy machine does not matter.
    assert result["play_tokens_per_s"]["512"] > 100_000
    assert result["deepcopy_over_restore"]["1000"][0] > 10
