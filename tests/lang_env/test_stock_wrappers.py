"""Gymnasium's own wrappers around our environments, single and vectorised."""

import warnings

import gymnasium as gym
import gymnasium.wrappers.vector as vector_wrappers
import numpy as np
import pytest
from gymnasium import spaces, wrappers

import lang_env  # noqa: F401 - registers our ids
from lang_env.tokenizers import load_tokenizer

EOS = load_tokenizer("builtin").eos_token_id
PLAIN = {"tokens": (320,), "length": (1,)}
SINGLE = {
    "RecordEpisodeStatistics": (wrappers.RecordEpisodeStatistics, PLAIN),
    "TransformReward": (lambda env: wrappers.TransformReward(env, lambda r: r - 1), PLAIN),
    "NormalizeReward": (wrappers.NormalizeReward, PLAIN),
    "ClipReward": (lambda env: wrappers.ClipReward(env, 0, 1), PLAIN),
    "OrderEnforcing": (wrappers.OrderEnforcing, PLAIN),
    "PassiveEnvChecker": (wrappers.PassiveEnvChecker, PLAIN),
    "TimeLimit": (lambda env: wrappers.TimeLimit(env, 50), PLAIN),
    "Autoreset": (wrappers.Autoreset, PLAIN),
    "StickyAction": (lambda env: wrappers.StickyAction(env, 0.5), PLAIN),
    "FlattenObservation": (wrappers.FlattenObservation, (321,)),
    "FilterObservation": (
        lambda env: wrappers.FilterObservation(env, ["tokens"]),
        {"tokens": (320,)},
    ),
    "TransformObservation": (
        lambda env: wrappers.TransformObservation(
            env, lambda seen: seen["tokens"], env.observation_space["tokens"]
        ),
        (320,),
    ),
}
VECTOR = {
    "RecordEpisodeStatistics": vector_wrappers.RecordEpisodeStatistics,
    "TransformReward": lambda envs: vector_wrappers.TransformReward(envs, lambda r: r - 1),
    "NormalizeReward": vector_wrappers.NormalizeReward,
    "FlattenObservation": vector_wrappers.FlattenObservation,
    "FilterObservation": lambda envs: vector_wrappers.FilterObservation(envs, ["tokens"]),
    "DictInfoToList": vector_wrappers.DictInfoToList,
}


def shapes(observation):
    if isinstance(observation, dict):
        return {key: value.shape for key, value in observation.items()}
    return observation.shape


@pytest.mark.parametrize("name", SINGLE)
def test_a_wrapper_works_and_snapshots_go_through_it(name):
    wrap, expected = SINGLE[name]
    env = wrap(gym.make("MathReason-v0"))
    env.reset(seed=0)
    env.action_space.seed(0)
    state = env.unwrapped.snapshot()
    for _ in range(3):
        observation, reward, _, _, info = env.step(env.action_space.sample())
        assert observation in env.observation_space
        assert shapes(observation) == expected
        assert np.isfinite(reward) and info["problem_id"]
    observation, info = env.reset(options={"snapshot": state})
    assert info["num_tokens"] == 0 and env.unwrapped.snapshot() == state
    assert observation in env.observation_space


def test_statistics_are_those_of_the_episode():
    env = wrappers.RecordEpisodeStatistics(gym.make("MathReason-v0"))
    for seed in range(3):
        env.reset(seed=seed)
        base = env.unwrapped
        ids = base.tokenizer.encode(base.prompt.target(base.problem))
        for token in ids:
            assert "episode" not in env.step(token)[4]
        episode = env.step(EOS)[4]["episode"]
        assert (episode["r"], episode["l"]) == (1.0, len(ids) + 1)
    assert list(env.return_queue) == [1.0, 1.0, 1.0]


def test_a_spec_with_wrappers_is_made_again():
    env = wrappers.FlattenObservation(gym.make("MathReason-v0", level=1))
    again = gym.make(env.spec)
    np.testing.assert_equal(env.reset(seed=3), again.reset(seed=3))


@pytest.mark.parametrize("name", VECTOR)
def test_a_vector_wrapper_works(name):
    envs = VECTOR[name](gym.make_vec("MathReason-v0", num_envs=3))
    envs.reset(seed=0)
    state = envs.unwrapped.snapshot(1)
    envs.action_space.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            observation, rewards, *_ = envs.step(envs.action_space.sample())
            assert rewards.shape == (3,)
    assert isinstance(envs.observation_space, spaces.Space)
    assert observation in envs.observation_space
    envs.unwrapped.restore({1: state})
    assert envs.unwrapped.snapshot(1) == state


def test_vector_statistics_with_partial_resets():
    """Two tokens, then one more episode of three in place 0; the others go on."""
    envs = vector_wrappers.RecordEpisodeStatistics(gym.make_vec("MathReason-v0", num_envs=2))
    envs.reset(seed=0)
    envs.step(np.array([40, 40]))
    info = envs.step(np.array([EOS, 40]))[4]
    assert info["_episode"].tolist() == [True, False]
    assert info["episode"]["l"][0] == 2
    envs.reset(options={"reset_mask": np.array([True, False])})
    envs.step(np.array([40, 40]))
    envs.step(np.array([40, 40]))
    info = envs.step(np.array([EOS, EOS]))[4]
    assert info["episode"]["l"].tolist() == [3, 5]
    assert list(envs.length_queue) == [2, 3, 5]
