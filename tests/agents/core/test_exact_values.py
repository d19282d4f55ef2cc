"""Bias of the value estimators, computed by enumerating all joint outcomes: no noise, no luck."""

import numpy as np
import pytest
from exact import (
    MDP,
    PROMPT,
    ExactEngine,
    ExactEnv,
    SweepingExactEngine,
    outcomes,
    score,
    true_gradient,
    value,
)

from agents.core.advantages import capped_values, spread_advantages, stepwise_advantages
from agents.core.rollout import Sampler, mark_states, start_of
from agents.core.sample_pool import tokens_of
from agents.core.values import monte_carlo_values, state_keys


def _expected_gradient(
    k, *, group=2, reuse=True, segment=None, advantages=None, engine=ExactEngine, **settings
):
    """Returns the expectation of the policy gradient, and how many outcomes there are."""
    env = ExactEnv() if segment is None else ExactEnv(segment)
    advantages = advantages or _plain

    def run(chooser):
        sampler = Sampler(engine(chooser), env, 0, 1.0)
        trajectories = sampler.sample([start_of(env, 0)], group, iteration=1, purpose="x")[0]
        for trajectory in trajectories:
            mark_states(env, trajectory)
        estimates = monte_carlo_values(
            sampler, trajectories, k, iteration=1, reuse=reuse, **settings
        )
        total = 0.0
        for owner, trajectory in enumerate(trajectories):
            response = tuple(trajectory.response)
            numbers = advantages(estimates, trajectories, owner)
            for t, token in enumerate(response):
                total = total + numbers[t] * score(response[:t], token)
        return total / group

    count, expected = 0, 0.0
    for chance, gradient in outcomes(run):
        count, expected = count + 1, expected + chance * gradient
    return expected, count


def _from(values, trajectory):
    length = len(trajectory.response)
    return stepwise_advantages(trajectory.borders, length, values, trajectory.reward)


def _plain(estimates, trajectories, owner):
    return _from(estimates.values[owner], trajectories[owner])


def _spread(estimates, trajectories, owner):
    row, values = trajectories[owner], estimates.values[owner]
    return spread_advantages(row.borders, len(row.response), values, row.reward)


def _zero(estimates, trajectories, owner):
    row, values = trajectories[owner], estimates.values[owner]
    return _from(capped_values(values, len(row.borders), row.reward), row)


def _bias(*arguments, **settings):
    expected, count = _expected_gradient(*arguments, **settings)
    return float(np.abs(expected - true_gradient()).max()), count


def test_the_true_gradient_is_that_of_the_value():
    assert np.abs(true_gradient()).max() > 0.1


def test_the_papers_estimator_is_unbiased():
    bias, count = _bias(1, group=1, reuse=False)
    assert bias < 1e-12
    assert count == 512


@pytest.mark.parametrize(
    "settings",
    [{"max_waves": 1}, {"max_waves": 2}, {"max_waves": 3}, {"engine": SweepingExactEngine}],
)
def test_reuse_is_unbiased(settings):
    bias, count = _bias(1, **settings)
    assert bias < 1e-12
    assert count > 100


def test_reuse_is_unbiased_where_steps_are_longer_than_a_token():
    assert _bias(1, segment=lambda response: [0, 2])[0] < 1e-12


def test_reuse_is_unbiased_where_siblings_have_other_borders():
    """A border after every 1: decided by the tokens before it, so causal."""

    def segment(response):
        return [0, *(t for t in (1, 2) if response[t - 1] == 1)]

    assert _bias(1, segment=segment)[0] < 1e-12


def test_the_spread_cap_is_unbiased_and_the_zero_fill_is_not():
    assert _bias(1, max_steps=1, advantages=_spread)[0] < 1e-12
    assert _bias(1, max_steps=1, advantages=_zero)[0] > 0.02


@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("segment", [None, lambda response: [0, 2]])
def test_no_rollouts_are_unbiased_where_the_rest_is_spread(group, segment):
    """Answers value each other, and their values end where they part."""
    bias, count = _bias(0, group=group, segment=segment, advantages=_spread)
    assert bias < 1e-12
    assert count == 8**group
    assert _bias(0, group=group, segment=segment, advantages=_zero)[0] > 0.02


def test_an_answer_in_its_own_values_is_biased():
    def own_kept(estimates, trajectories, owner):
        keys = state_keys(trajectories[owner])
        return _from([float(np.mean(estimates.pool.rewards(k))) for k in keys], trajectories[owner])

    assert _bias(1, advantages=own_kept)[0] > 0.02


def test_leaving_out_equal_answers_instead_of_the_own_row_is_biased():
    def by_content(estimates, trajectories, owner):
        row = trajectories[owner]
        others = [t for t in trajectories if t.response != row.response]
        values = []
        for border in row.borders:
            prefix = row.response[:border]
            rewards = [t.reward for t in others if t.response[:border] == prefix]
            values.append(float(np.mean(rewards)) if rewards else value(tuple(prefix)))
        return _from(values, row)

    assert _bias(1, advantages=by_content)[0] > 0.02


def test_counting_siblings_only_at_their_own_borders_is_biased_where_borders_look_ahead():
    """Whether a sibling has a border at s then depends on how it went on from s."""

    def segment(response):
        return [0, *(t for t in (1, 2) if response[t] == 1)]

    def at_own_borders(estimates, trajectories, owner):
        row, values = trajectories[owner], []
        for border in row.borders:
            prefix = row.response[:border]
            rewards = [
                other.reward
                for number, other in enumerate(trajectories)
                if number != owner and other.response[:border] == prefix and border in other.borders
            ]
            values.append(float(np.mean(rewards)) if rewards else value(tuple(prefix)))
        return _from(values, row)

    assert _bias(1, segment=segment, advantages=at_own_borders)[0] > 0.02


def test_borders_that_look_ahead_bias_the_gradient_but_not_the_values():
    """A state ends before a 1, as the paper's states end before a newline."""

    def segment(response):
        return [0, *(t for t in (1, 2) if response[t] == 1)]

    def exact_values(estimates, trajectories, owner):
        row = trajectories[owner]
        return _from([value(tuple(row.response[:border])) for border in row.borders], row)

    assert _bias(1, segment=segment, advantages=exact_values)[0] > 0.02


@pytest.mark.slow
def test_reuse_with_two_samples_is_unbiased():
    bias, count = _bias(2)
    assert bias < 1e-12
    assert count > 10_000


def test_values_are_means_of_what_the_pool_holds():
    env = ExactEnv()

    def run(chooser):
        sampler = Sampler(ExactEngine(chooser), env, 0, 1.0)
        rows = sampler.sample([start_of(env, 0)], 2, iteration=1, purpose="x")[0]
        for row in rows:
            mark_states(env, row)
        estimates = monte_carlo_values(sampler, rows, 1, iteration=1)
        prompt = state_keys(rows[0])[0]
        assert tokens_of(prompt) == list(PROMPT)
        assert estimates.values[0][0] == rows[1].reward
        return estimates.values[0][0]

    expected = sum(chance * result for chance, result in outcomes(run))
    assert expected == pytest.approx(value(()), abs=1e-12)


@pytest.mark.parametrize("engine", [ExactEngine, SweepingExactEngine])
def test_rollouts_that_are_trained_on_are_unbiased_given_where_they_begin(engine):
    """Their gradient less that of the value of their first state, summed, is 0 on average."""
    env = ExactEnv(lambda response: [0, 1, 2])

    def gradient_of_value(prefix):
        total = np.zeros_like(true_gradient())
        for rest, chance in zip(*MDP.continuations(prefix), strict=True):
            answer = (*prefix, *rest)
            steps = range(len(prefix), len(answer))
            total = total + chance * MDP.rewards[answer] * sum(
                score(answer[:t], answer[t]) for t in steps
            )
        return total

    def run(chooser, fill=spread_advantages):
        sampler = Sampler(engine(chooser), env, 0, 1.0)
        answers = sampler.sample([start_of(env, 0)], 2, iteration=1, purpose="x")[0]
        for answer in answers:
            mark_states(env, answer)
        estimates = monte_carlo_values(sampler, answers, 1, iteration=1)
        error, size = 0.0, 0.0
        found = estimates.value_rollouts(env)
        for rollout, values in zip(estimates.rollouts, found, strict=True):
            prefix = tuple(rollout.start.tokens[len(PROMPT) :])
            numbers = fill(rollout.borders, len(rollout.response), values, rollout.reward)
            expected = gradient_of_value(prefix)
            error, size = error - expected, size + np.abs(expected)
            for t, token in enumerate(rollout.response):
                before = (*prefix, *rollout.response[:t])
                error = error + numbers[t] * score(before, token)
        return np.stack([error + 0.0 * true_gradient(), size + 0.0 * true_gradient()])

    error, size = sum(chance * found for chance, found in outcomes(run))
    assert size.max() > 0.02
    assert np.abs(error).max() < 1e-12

    def kept(borders, length, values, reward):
        """The own outcome in the own first value, as one more sample."""
        return spread_advantages(borders, length, [(values[0] + reward) / 2, *values[1:]], reward)

    error, _ = sum(chance * found for chance, found in outcomes(lambda c: run(c, kept)))
    assert np.abs(error).max() > 0.005
