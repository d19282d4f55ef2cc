"""What the README promises of the default run, on three seeds (about two minutes each)."""

import json

import pytest

from agents.vineppo import main

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_default_run_learns(seed, tmp_path):
    folder = tmp_path / "run"
    assert main(["--seed", str(seed), "--output_dir", str(folder)]) == 0
    accuracy = json.loads((folder / "summary.json").read_text())["accuracy"]
    before, after = accuracy["before"], accuracy["after"]
    assert before["greedy"]["mean"] <= 0.60, "greedy decoding must not solve the task at first"
    assert 0.25 <= before["T=1"]["mean"] <= 0.55
    assert after["T=1"]["mean"] - before["T=1"]["mean"] >= 0.25
    assert after["greedy"]["mean"] - before["greedy"]["mean"] >= 0.15
