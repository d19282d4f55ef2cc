"""Stable-Baselines3: its checker has no complaint, and its PPO trains on a small vocabulary."""

import warnings

import gymnasium as gym
import numpy as np
import pytest

from lang_env import Problem
from lang_env.tokenizers import character_tokenizer
from lang_env.wrappers import StepAction

sb3 = pytest.importorskip("stable_baselines3")

PROBLEMS = [Problem(f"p{i}", f"{i}?", str(i)) for i in range(2)]


def small(**options):
    """Answer a digit with itself: eight ids, answers of at most four tokens."""
    return gym.make(
        "MathReason-v0",
        problems=PROBLEMS,
        tokenizer=character_tokenizer("01?\n# "),
        grader="exact",
        max_prompt_tokens=4,
        max_new_tokens=4,
        **options,
    )


@pytest.mark.parametrize("wrap", [lambda env: env, StepAction])
def test_its_checker_has_no_complaint(wrap):
    from stable_baselines3.common.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(wrap(small()))


@pytest.mark.parametrize("wrap", [lambda env: env, StepAction])
def test_its_ppo_trains(wrap):
    agent = sb3.PPO(
        "MultiInputPolicy", wrap(small()), n_steps=64, batch_size=32, seed=0, device="cpu"
    )
    before = [value.detach().clone() for value in agent.policy.parameters()]
    agent.learn(total_timesteps=128)
    after = list(agent.policy.parameters())
    assert agent.num_timesteps == 128
    assert all(np.isfinite(value.detach().numpy()).all() for value in after)
    assert any((one != other).any() for one, other in zip(before, after, strict=True))
