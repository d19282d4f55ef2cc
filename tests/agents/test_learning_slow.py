"""Each algorithm improves the embedded policy in its tiny configuration, on three seeds."""

import json
from importlib import import_module

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("agent", ["ppo", "rloo", "grpo"])
def test_the_default_run_learns(agent, seed, tmp_path):
    command = import_module(f"agents.{agent}")
    folder = tmp_path / "run"
    assert command.main(["--seed", str(seed), "--output_dir", str(folder)]) == 0
    accuracy = json.loads((folder / "summary.json").read_text())["accuracy"]
    gain = accuracy["after"]["T=1"]["mean"] - accuracy["before"]["T=1"]["mean"]
    assert gain >= 0.20


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_imitating_right_answers_learns(seed, tmp_path):
    """RestEM gains most where the likeliest answer is taken."""
    from agents.restem import main

    folder = tmp_path / "run"
    assert main(["--seed", str(seed), "--output_dir", str(folder)]) == 0
    accuracy = json.loads((folder / "summary.json").read_text())["accuracy"]
    gains = {name: accuracy["after"][name]["mean"] - accuracy["before"][name]["mean"]
             for name in ("greedy", "T=1")}  # fmt: skip
    assert gains["greedy"] >= 0.30
    assert gains["T=1"] >= 0.10
