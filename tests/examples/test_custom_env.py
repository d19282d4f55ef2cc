"""Environments, graders and prompts of one's own, as they are typed on the command line."""

import doctest
import importlib
import os
import subprocess
import sys
import warnings

import gymnasium as gym
import pytest
from commands import SMALL, flags, metrics_of
from gymnasium.utils.env_checker import check_env


@pytest.fixture
def example():
    return importlib.import_module("custom_env")


@pytest.mark.parametrize(
    ("agent", "given"),
    [
        ("grpo", {"env": "custom_env:ThreeLines-v0"}),
        ("vineppo", {"env": "custom_env:LastNumber-v0", "num_rollouts": 2}),
        ("rloo", {"grader": "custom_env:RIGHT_AND_SHORT"}),
        ("rloo", {"prompt": "custom_env:SHOWN", "max_prompt_tokens": 192}),
    ],
    ids=["task", "math", "trl_reward", "prompt"],
)
def test_a_command_trains_on_it(agent, given, tmp_path):
    main = importlib.import_module(f"agents.{agent}").main
    settings = SMALL | given | {"iterations": 1, "eval_problems": 2, "output_dir": tmp_path / "run"}
    assert main(flags(settings)) == 0
    (line,) = metrics_of(tmp_path / "run")
    assert -1 <= line["reward"] <= 1


def test_the_command_works_as_typed_in_the_examples_folder(examples_folder, tmp_path):
    settings = SMALL | {"iterations": 1, "eval_problems": 0, "output_dir": tmp_path / "run"}
    command = [sys.executable, "-m", "agents.grpo", "--env", "custom_env:ThreeLines-v0"]
    environment = os.environ | {"PYTHONPATH": str(examples_folder.parent)}
    done = subprocess.run(
        [*command, *flags(settings)],
        cwd=examples_folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert len(metrics_of(tmp_path / "run")) == 1


def test_the_examples_in_its_docstrings_hold(example):
    result = doctest.testmod(example)
    assert result.attempted >= 2
    assert result.failed == 0


@pytest.mark.parametrize("name", ["custom_env:ThreeLines-v0", "custom_env:LastNumber-v0"])
def test_gymnasium_has_no_complaint(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(name).unwrapped)


def test_splits_share_no_question(example):
    asked = [
        {example.questions(split).problem(i).question for i in range(size)}
        for split, size in (("train", 60), ("validation", 20), ("test", 20))
    ]
    assert len(asked[0] | asked[1] | asked[2]) == 100


def test_a_reward_with_trls_signature_is_a_grader(example):
    assert example.RIGHT_AND_SHORT("3+4=7\n#### 7", "7").score == pytest.approx(0.99)
    assert example.RIGHT_AND_SHORT("7", "7").verdict == "correct"
    assert example.RIGHT_AND_SHORT("8", "7").score == 0.0
