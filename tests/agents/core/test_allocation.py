"""Samples go where earlier iterations saw variance; values stay unbiased."""

import numpy as np
from exact import ExactEngine, ExactEnv, outcomes, score, true_gradient

from agents.core.advantages import stepwise_advantages
from agents.core.allocation import VarianceAllocation, depth_of
from agents.core.rollout import Sampler, Start, mark_states, start_of
from agents.core.sample_pool import ROLLOUT, SamplePool, state_key
from agents.core.values import monte_carlo_values

BUDGET = 16
CHANCES = {0: 0.5, 4: 0.9, 8: 0.5, 12: 1.0}
"""Success from the states at each depth."""


def _states():
    keys = {
        (slot, depth): state_key(slot, [7] * (1 + depth)) for slot in (0, 1) for depth in CHANCES
    }
    return {
        key: Start(None, [7] * (1 + depth), BUDGET - depth, slot, "p", written=depth)
        for (slot, depth), key in keys.items()
    }


def _drawn(starts, wanted, rng):
    pool = SamplePool(starts)
    for key, start in starts.items():
        for reward in rng.random(wanted[key]) < CHANCES[start.written]:
            pool.add_at(key, float(reward))
    return pool


def _error(starts, wanted, rng, repeats=2000):
    """Mean squared error of the values."""
    total = 0.0
    for key, start in starts.items():
        chance = CHANCES[start.written]
        means = rng.binomial(wanted[key], chance, repeats) / wanted[key]
        total += ((means - chance) ** 2).mean()
    return total / len(starts)


def test_samples_go_where_rewards_vary_and_the_errors_fall_at_the_same_number():
    starts, rng = _states(), np.random.default_rng(0)
    allocation = VarianceAllocation(8)
    first = allocation.wanted(starts)
    assert set(first.values()) == {8}, "nothing was seen yet"
    for _ in range(20):
        allocation.learn(starts, _drawn(starts, allocation.wanted(starts), rng))
    wanted = allocation.wanted(starts)
    samples = {start.written: wanted[key] for key, start in starts.items()}
    assert samples[0] > samples[4] > samples[12] >= 1
    assert 0.85 * 8 <= np.mean(list(wanted.values())) <= 8
    assert _error(starts, wanted, rng) < 0.85 * _error(starts, first, rng)


def test_rewards_that_never_vary_leave_every_state_its_k():
    starts = _states()
    allocation = VarianceAllocation(3)
    pool = SamplePool(starts)
    for key in starts:
        pool.add_at(key, 1.0)
        pool.add_at(key, 1.0)
    allocation.learn(starts, pool)
    assert set(allocation.wanted(starts).values()) == {3}


def test_depth_is_the_share_of_the_budget_that_is_spent():
    assert [depth_of(Start(None, [1], 60 - n, 0, "p", n)) for n in (0, 3, 4, 30, 59)] == [
        0, 0, 1, 8, 15,
    ]  # fmt: skip


def test_an_allocation_learned_before_is_unbiased():
    """All outcomes of an iteration, after one that made K differ from depth to depth."""
    env, seen = ExactEnv(), set()

    def run(chooser):
        sampler = Sampler(ExactEngine(chooser), env, 0, 1.0)
        rows = sampler.sample([start_of(env, 0)], 2, iteration=1, purpose="x")[0]
        allocation = VarianceAllocation(2)
        allocation.states[[0, 5, 10]] = 100.0, 1.0, 1.0
        allocation.squares[[0, 5, 10]] = 9.0, 0.1, 0.1
        allocation.degrees[:] = 40.0
        seen.add(tuple(allocation.samples()[[0, 5, 10]].tolist()))
        for row in rows:
            mark_states(env, row)
        estimates = monte_carlo_values(sampler, rows, 2, iteration=1, allocation=allocation)
        total = 0.0
        for row, values in zip(rows, estimates.values, strict=True):
            numbers = stepwise_advantages(row.borders, len(row.response), values, row.reward)
            for t, token in enumerate(row.response):
                total = total + numbers[t] * score(tuple(row.response[:t]), token)
        return total / 2

    expected = sum(chance * gradient for chance, gradient in outcomes(run))
    assert np.abs(expected - true_gradient()).max() < 1e-12
    assert seen == {(2, 1, 1)}


def test_learning_counts_every_sample_of_a_state():
    starts = _states()
    pool = SamplePool(starts)
    for key in starts:
        pool.add_at(key, 0.0)
        pool.add_at(key, 1.0)
        assert len(pool.rewards(key, ROLLOUT)) == 2
    allocation = VarianceAllocation(2)
    allocation.learn(starts, pool)
    assert allocation.states[[0, 4, 8, 12]].tolist() == [2.0] * 4
    assert allocation.squares[[0, 4, 8, 12]].tolist() == [1.0] * 4
    assert allocation.degrees.sum() == 8
