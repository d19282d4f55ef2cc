"""Advantages against numbers computed by hand."""

import numpy as np
import pytest

from agents.core.advantages import (
    capped_values,
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
