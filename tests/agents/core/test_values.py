"""Monte-Carlo values on an MDP whose values are known."""

from dataclasses import replace

import numpy as np
import pytest
from toy import (
    PROMPT,
    SweepingToyEngine,
    ToyEngine,
    ToyEnv,
    all_responses,
    exact_value,
    finished,
    probabilities,
    reward_of,
)

from agents.core.advantages import stepwise_advantages
from agents.core.rollout import Sampler, mark_states, start_of
from agents.core.sample_pool import tokens_of
from agents.core.values import monte_carlo_values, state_keys


def _collect(num_prompts=2, group=4, iteration=1, seed=0, step_length=1):
    env = ToyEnv(step_length)
    sampler = Sampler(ToyEngine(), env, seed, 1.0)
    starts = [start_of(env, slot, index=slot) for slot in range(num_prompts)]
    groups = sampler.sample(starts, group, iteration=iteration, purpose="rollout")
    trajectories = [trajectory for g in groups for trajectory in g]
    for trajectory in trajectories:
        mark_states(env, trajectory)
    return sampler, trajectories


def test_equal_states_of_a_prompt_are_valued_once():
    sampler, trajectories = _collect()
    sampler.engine.calls.clear()
    estimates = monte_carlo_values(sampler, trajectories, 3, iteration=1, reuse=False)
    distinct = {key for trajectory in trajectories for key in state_keys(trajectory)}
    assert sampler.engine.calls == [[3] * len(distinct)], "one call, K rollouts a distinct state"
    assert estimates.metrics["vine/unique_states"] == len(distinct)
    assert all(len(estimates.pool.rewards(key)) == 3 for key in distinct)
    by_key = {}
    for trajectory, values in zip(trajectories, estimates.values, strict=True):
        for key, value in zip(state_keys(trajectory), values, strict=True):
            assert value == np.mean(estimates.pool.rewards(key))
            assert by_key.setdefault(key, value) == value
    slots = {key[0] for key in distinct}
    assert slots == {0, 1}, "the same tokens of two prompts are two states"


@pytest.mark.parametrize("reuse", [False, True])
def test_values_are_unbiased(reuse):
    """About 4,000 samples a state against the enumerated value, within 4 standard errors."""
    sampler, trajectories = _collect(num_prompts=1, group=8)
    pool = monte_carlo_values(sampler, trajectories, 4000, iteration=1, reuse=reuse).pool
    keys = {key for trajectory in trajectories for key in state_keys(trajectory)}
    assert len(keys) >= 4
    for key in keys:
        truth = exact_value(tokens_of(key)[len(PROMPT) :])
        assert 0.02 < truth < 0.98
        rewards = pool.rewards(key)
        assert len(rewards) >= 4000
        error = np.sqrt(truth * (1 - truth) / len(rewards))
        assert abs(np.mean(rewards) - truth) < 4 * error


def test_a_rollout_spends_only_what_the_restored_environment_has_left():
    sampler, trajectories = _collect(step_length=2)
    estimates = monte_carlo_values(sampler, trajectories, 50, iteration=1, reuse=False)
    keys = {key for trajectory in trajectories for key in state_keys(trajectory)}
    assert any(len(tokens_of(key)) == len(PROMPT) + 2 for key in keys)
    assert 0.0 < estimates.metrics["vine/truncated_ratio"] < 1.0


def test_reuse_fills_up_to_k_and_spends_less():
    sampler, trajectories = _collect(num_prompts=2, group=6)
    full = monte_carlo_values(sampler, trajectories, 4, iteration=1, reuse=False)
    shared = monte_carlo_values(sampler, trajectories, 4, iteration=1)
    assert shared.metrics["vine/tokens"] < 0.6 * full.metrics["vine/tokens"]
    assert shared.metrics["vine/k_effective"] >= 4 == full.metrics["vine/k_effective"]
    assert 0 < shared.metrics["vine/answered_without_rollout"] < 1
    for owner, trajectory in enumerate(trajectories):
        for key in state_keys(trajectory):
            assert len(shared.pool.rewards(key, owner)) >= 4


def test_an_engine_that_can_sweep_is_asked_once_and_spends_what_unlimited_waves_do():
    sampler, trajectories = _collect(num_prompts=3, group=4)
    waves = monte_carlo_values(sampler, trajectories, 3, iteration=1, max_waves=99)
    engine = SweepingToyEngine()
    sweeping = replace(sampler, engine=engine)
    sweep = monte_carlo_values(sweeping, trajectories, 3, iteration=1)
    assert engine.sweeps == 1
    assert sweep.metrics.keys() == waves.metrics.keys()
    for one, two in zip(sweep.values, waves.values, strict=True):
        assert one == pytest.approx(two, abs=1e-12)
    assert sweep.metrics == pytest.approx(waves.metrics)
    assert 0 < sweep.metrics["vine/tokens"]
    few = monte_carlo_values(sampler, trajectories, 3, iteration=1, max_waves=1)
    assert sweep.metrics["vine/tokens"] < few.metrics["vine/tokens"]


@pytest.mark.parametrize("reuse", [False, True])
def test_waves_take_the_place_of_a_sweep(reuse, monkeypatch):
    """The paper's estimator shares nothing; and an engine may say that it cannot sweep."""
    sampler, trajectories = _collect()
    engine = SweepingToyEngine()
    if reuse:
        monkeypatch.setattr(engine, "can_sweep", lambda: False)
    sweeping = replace(sampler, engine=engine)
    estimates = monte_carlo_values(sweeping, trajectories, 2, iteration=1, reuse=reuse)
    assert engine.sweeps == 0
    plain = monte_carlo_values(sampler, trajectories, 2, iteration=1, reuse=reuse)
    assert estimates.values == plain.values


def test_an_answer_never_uses_itself_but_a_duplicate_counts():
    sampler, trajectories = _collect(num_prompts=1, group=2)
    twins = [trajectories[0], trajectories[0]]
    estimates = monte_carlo_values(sampler, twins, 1, iteration=1)
    assert estimates.metrics["vine/tokens"] == 0, "each twin is the other's sample"
    assert set(estimates.values[0]) == {trajectories[0].reward}


def test_the_cap_values_the_first_steps_only():
    sampler, trajectories = _collect()
    full = monte_carlo_values(sampler, trajectories, 2, iteration=1, reuse=False)
    capped = monte_carlo_values(sampler, trajectories, 2, iteration=1, reuse=False, max_steps=1)
    for trajectory, some, all_ in zip(trajectories, capped.values, full.values, strict=True):
        assert len(some) == min(2, len(trajectory.borders))
        assert some == all_[: len(some)], "a state's rollouts do not depend on the others"


@pytest.mark.parametrize(
    ("k", "cap", "message"),
    [(-1, None, r"must be >= 0, got -1 \(paper"), (1, 0, r"must be >= 1, got 0 \(paper")],
)
def test_out_of_range(k, cap, message):
    sampler, trajectories = _collect()
    with pytest.raises(ValueError, match=message):
        monte_carlo_values(sampler, trajectories, k, iteration=1, max_steps=cap)


@pytest.mark.parametrize("step_length", [1, 2, 3])
def test_the_stepwise_policy_gradient_is_exact_in_expectation(step_length):
    """Sum over all answers of p(answer) * sum_t A_t * grad log p = gradient of V, both exact.

    With exact values in place of Monte-Carlo means, which are unbiased and independent of the
    answer, this is the expectation of VinePPO's gradient.
    """
    prefixes = sorted({r[:t] for r in all_responses() for t in range(len(r))})
    place = {prefix: number for number, prefix in enumerate(prefixes)}

    def score(prefix, action):  # gradient of log softmax with respect to the table's logits
        gradient = np.zeros((len(prefixes), 3))
        gradient[place[prefix]] = -probabilities(prefix)
        gradient[place[prefix], action] += 1.0
        return gradient

    expected = np.zeros((len(prefixes), 3))
    true = np.zeros((len(prefixes), 3))
    for response in all_responses():
        chance = np.prod([probabilities(response[:t])[a] for t, a in enumerate(response)])
        borders = list(range(0, len(response), step_length))
        values = [exact_value(response[:border]) for border in borders]
        advantages = stepwise_advantages(borders, len(response), values, reward_of(response))
        for t, action in enumerate(response):
            expected += chance * advantages[t] * score(response[:t], action)
            true += chance * reward_of(response) * score(response[:t], action)
    np.testing.assert_allclose(expected, true, atol=1e-12)
    assert np.abs(true).max() > 0.05
    assert not any(finished(prefix) for prefix in prefixes)


def test_without_rollouts_answers_value_each_other_as_far_as_they_share_tokens():
    sampler, trajectories = _collect(num_prompts=2, group=4)
    sampler.engine.calls.clear()
    estimates = monte_carlo_values(sampler, trajectories, 0, iteration=1)
    assert sampler.engine.calls == []
    for owner, (trajectory, values) in enumerate(zip(trajectories, estimates.values, strict=True)):
        group = range(owner // 4 * 4, owner // 4 * 4 + 4)
        others = [trajectories[n] for n in group if n != owner]
        expected = []
        for border in trajectory.borders:
            prefix = trajectory.response[:border]
            rewards = [
                t.reward
                for t in others
                if t.response[:border] == prefix and len(t.response) > border
            ]
            if not rewards:
                break
            expected.append(np.mean(rewards))
        assert values == expected
    assert any(len(v) < len(t.borders) for v, t in zip(estimates.values, trajectories, strict=True))
    assert estimates.metrics["vine/tokens"] == 0
    assert 0 < estimates.metrics["vine/valued_ratio"] < 1


def test_without_rollouts_nor_siblings_there_is_nothing_to_value_with():
    sampler, trajectories = _collect(num_prompts=1, group=1)
    with pytest.raises(ValueError, match="set num_generations to 2 or more, or num_rollouts"):
        monte_carlo_values(sampler, trajectories, 0, iteration=1)
    with pytest.raises(ValueError, match=r"must be >= 1 without reuse, got 0"):
        monte_carlo_values(sampler, trajectories, 0, iteration=1, reuse=False)
