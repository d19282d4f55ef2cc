"""An advantage of one's own: the command runs, and the advantages are those of the formula."""

import importlib

import numpy as np
import pytest
from commands import SMALL, collected, flags, metrics_of


@pytest.fixture
def example():
    return importlib.import_module("custom_agent")


def test_the_command_runs(example, tmp_path):
    settings = SMALL | {"fade": 0.9, "eval_problems": 2, "output_dir": tmp_path / "run"}
    assert example.main(flags(settings)) == 0
    assert [line["iteration"] for line in metrics_of(tmp_path / "run")] == [1, 2]


def test_credit_fades_backwards(example, tmp_path):
    agent = example.Fading(example.FadingConfig(**SMALL, fade=0.5), tmp_path)
    trajectories, credit = collected(agent)
    rewards = np.array([trajectory.reward for trajectory in trajectories])
    assert 0 < rewards.sum() < rewards.size, "the seed gives a mixed batch"
    for row, tokens in enumerate(credit.tokens):
        edge = rewards[row] - rewards[row // 4 * 4 : row // 4 * 4 + 4].mean()
        assert len(tokens) == len(trajectories[row].response)
        np.testing.assert_allclose(tokens[-3:], [edge / 4, edge / 2, edge])
