"""RestEM and DPO-Positive improve the embedded policy in their tiny configurations."""

import json
from importlib import import_module

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("agent", "greedy", "warm"), [("restem", 0.3, 0.1), ("dpo_positive", 0.15, 0.08)]
)
def test_the_default_run_learns(agent, greedy, warm, seed, tmp_path):
    """They gain most where the likeliest answer is taken."""
    command, folder = import_module(f"agents.{agent}"), tmp_path / "run"
    assert command.main(["--seed", str(seed), "--output_dir", str(folder)]) == 0
    accuracy = json.loads((folder / "summary.json").read_text())["accuracy"]
    for name, least in (("greedy", greedy), ("T=1", warm)):
        gain = accuracy["after"][name]["mean"] - accuracy["before"][name]["mean"]
        assert gain >= least, name
