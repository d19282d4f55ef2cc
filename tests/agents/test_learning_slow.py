"""Each algorithm improves the embedded policy by 20 points at T=1 in its tiny configuration."""

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
