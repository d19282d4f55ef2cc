"""Advantages against numbers computed by hand."""

import numpy as np
import pytest

from agents.core.advantages import (
    capped_values,
    gae_advantages,
    grpo_advantages,
    rloo_advantages,
    spread_advantages,
    stepwise_advantages,
    whiten,
)


def test_two_answers_by_hand():
    # Right answer: V = .5 at the prompt, .75 after step 1, .25 after step 2, reward 1.
    right = stepwise_advantages([0, 3, 4], 6, [0.5, 0.75, 0.25], 1.0)
    assert right.tolist() == [0.25, 0.25, 0.25, -0.5, 0.75, 0.75]
    # Wrong answer of one step: all of it takes 0 - V(prompt).
    assert stepwise_advantages([0], 2, [0.5], 0.0).tolist() == [-0.5, -0.5]


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_steps_telescope_to_reward_minus_the_prompts_value(reward):
    borders, values = [0, 1, 4, 5], [0.4, 0.1, 0.9, 0.6]
    advantages = stepwise_advantages(borders, 7, values, reward)
    assert sum(advantages[border] for border in borders) == pytest.approx(reward - 0.4)


@pytest.mark.parametrize("borders", [[], [1, 2], [0, 0], [0, 3, 2], [0, 5]])
def test_borders_that_are_no_cut_are_refused(borders):
    with pytest.raises(ValueError, match="borders must start at 0 and rise below num_tokens = 5"):
        stepwise_advantages(borders, 5, [0.5] * len(borders), 1.0)


def test_a_missing_value_is_refused():
    with pytest.raises(ValueError, match="got 1 for 2"):
        stepwise_advantages([0, 1], 3, [0.5], 1.0)


def test_the_papers_cap_gives_later_steps_nothing():
    values = capped_values([0.5, 0.75], 4, 1.0)
    assert stepwise_advantages([0, 1, 2, 3], 4, values, 1.0).tolist() == [0.25, 0.25, 0.0, 0.0]
    values = capped_values([0.5, 0.75], 4, 0.0)
    assert stepwise_advantages([0, 1, 2, 3], 4, values, 0.0).tolist() == [0.25, -0.75, 0.0, 0.0]


def test_the_spread_cap_gives_every_later_token_what_is_left():
    advantages = spread_advantages([0, 1, 2, 3], 5, [0.5, 0.75], 0.0)
    assert advantages.tolist() == [0.25, -0.75, -0.75, -0.75, -0.75]
    full = [0.5, 0.75, 0.5, 1.0]
    np.testing.assert_array_equal(
        spread_advantages([0, 1, 2, 3], 5, full, 1.0),
        stepwise_advantages([0, 1, 2, 3], 5, full, 1.0),
    )


def test_whitening_by_hand():
    whitened = whiten([np.array([1.0, 1.0]), np.array([4.0])])
    flat = np.concatenate(whitened)  # mean 2, unbiased variance 3
    np.testing.assert_allclose(flat, np.array([-1, -1, 2]) / np.sqrt(3), rtol=1e-6)


def test_whitening_of_equal_or_single_numbers_is_finite():
    assert np.concatenate(whiten([np.array([0.5, 0.5])])).tolist() == [0.0, 0.0]
    assert whiten([np.array([0.5])])[0].tolist() == [0.5]
    assert whiten([]) == []


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", [1.0, 1.0, 4.0]),
        ("std", [1 / 3**0.5, 1 / 3**0.5, 4 / 3**0.5]),  # divided, not moved
        ("mean_std", [-1 / 3**0.5, -1 / 3**0.5, 2 / 3**0.5]),
    ],
)
def test_whitening_modes_by_hand(mode, expected):
    flat = np.concatenate(whiten([np.array([1.0, 1.0]), np.array([4.0])], mode))
    np.testing.assert_allclose(flat, expected, rtol=1e-6)


def test_leave_one_out_by_hand():
    advantages = rloo_advantages([[1.0, 0.0, 0.5], [2.0, 2.0, 2.0]])
    assert advantages.tolist() == [[0.75, -0.75, 0.0], [0.0, 0.0, 0.0]]


def test_leave_one_out_is_the_group_mean_times_g_over_g_minus_1():
    returns = np.random.default_rng(0).random((4, 5))
    np.testing.assert_allclose(rloo_advantages(returns), grpo_advantages(returns, "none") * 5 / 4)


def test_grpo_by_hand():
    returns = [[1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    group = 0.5 / ((4 * 0.25 / 3) ** 0.5 + 1e-4)
    np.testing.assert_allclose(
        grpo_advantages(returns, "group"), [[group, -group, -group, group], [0.0] * 4]
    )
    batch = 0.5 / (((6 * 0.25**2 + 2 * 0.75**2) / 7) ** 0.5 + 1e-4)
    np.testing.assert_allclose(
        grpo_advantages(returns, "batch"), [[batch, -batch, -batch, batch], [0.0] * 4]
    )
    assert grpo_advantages(returns, "none").tolist() == [[0.5, -0.5, -0.5, 0.5], [0.0] * 4]


@pytest.mark.parametrize("function", [rloo_advantages, grpo_advantages])
@pytest.mark.parametrize("returns", [[[1.0], [0.0]], [1.0, 0.0]])
def test_groups_of_one_are_refused(function, returns):
    with pytest.raises(ValueError, match=r"2 answers or more, got .*num_generations"):
        function(returns)


def _plain_gae(rewards, values, last_value, gamma, gae_lambda):
    advantages, after, running = np.zeros(len(rewards)), last_value, 0.0
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * after - values[t]
        running = delta + gamma * gae_lambda * running
        advantages[t], after = running, values[t]
    return advantages


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("gae_lambda", [1.0, 0.95, 0.0])
def test_gae_equals_a_plain_reference_with_a_truncated_episode(gamma, gae_lambda):
    rng = np.random.default_rng(0)
    rewards = [rng.normal(size=n) for n in (3, 1, 6)]
    values = [rng.normal(size=n) for n in (3, 1, 6)]
    last = [0.0, 0.7, 0.0]  # the second answer was truncated and bootstraps
    advantages, returns = gae_advantages(rewards, values, last, gamma=gamma, gae_lambda=gae_lambda)
    for row in range(3):
        expected = _plain_gae(rewards[row], values[row], last[row], gamma, gae_lambda)
        np.testing.assert_allclose(advantages[row], expected, rtol=1e-12)
        np.testing.assert_allclose(returns[row], expected + values[row], rtol=1e-12)


def test_gae_by_hand():
    # gamma = lambda = 1/2; deltas: 0 + .5 * .5 - 1 = -.75 and 1 + .5 * 2 - .5 = 1.5
    advantages, returns = gae_advantages(
        [np.array([0.0, 1.0])], [np.array([1.0, 0.5])], [2.0], gamma=0.5, gae_lambda=0.5
    )
    assert advantages[0].tolist() == [-0.75 + 0.25 * 1.5, 1.5]
    assert returns[0].tolist() == [0.625, 2.0]
