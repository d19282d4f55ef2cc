"""The enumerable MDP: dynamic programming, enumeration and random draws agree."""

import numpy as np
import pytest

from agents.analysis.choices import Dice, multisets, outcomes
from agents.analysis.exact import TableEngine, TableEnv, random_mdp, two_token_mdp
from agents.core.rollout import Sampler, mark_states, start_of
from agents.core.streams import generator


@pytest.mark.parametrize("mdp", [two_token_mdp(), random_mdp(3, 4), random_mdp(4, 3)])
def test_dynamic_programming_is_the_sum_over_answers(mdp):
    chances = np.array([mdp.chance(answer) for answer in mdp.answers])
    rewards = np.array([mdp.rewards[answer] for answer in mdp.answers])
    scores = np.array([mdp.scores(answer).sum(axis=0) for answer in mdp.answers])
    assert chances.sum() == pytest.approx(1)
    assert chances @ rewards == pytest.approx(mdp.value(()), abs=1e-14)
    np.testing.assert_allclose((chances * rewards) @ scores, mdp.gradient, atol=1e-14)
    assert np.abs(mdp.gradient).max() > 0.01
    assert np.abs(chances @ scores).max() < 1e-14, "scores are 0 on average"


def test_q_is_the_value_of_the_next_state():
    mdp = random_mdp(3, 4)
    for prefix in mdp.prefixes:
        mean = sum(p * mdp.q(prefix, token) for token, p in enumerate(mdp.policy[prefix]))
        assert mdp.value(prefix) == pytest.approx(mean, abs=1e-14)


def test_the_environment_pays_once_and_can_be_restored():
    mdp = two_token_mdp()
    env = TableEnv(mdp)
    start = start_of(env, 0)
    assert (start.tokens, start.budget) == ([1], 3)
    assert env.play([0, 0])[1:4] == (0.0, False, False)
    state = env.snapshot()
    assert env.play([1])[1:4] == (1.0, False, True)
    env.restore(state)
    assert env.remaining == 1
    assert env.play([0])[1] == 0.0


@pytest.mark.parametrize("lump", ["none", "order", "reward"])
def test_lumped_outcomes_have_the_same_mean_and_variance(lump):
    mdp = two_token_mdp()
    env = TableEnv(mdp)

    def mean_reward(chooser):
        sampler = Sampler(TableEngine(mdp, chooser, lump), env, 0, 1.0)
        rows = sampler.sample([start_of(env, 0)], 3, iteration=1, purpose="x")[0]
        return np.mean([row.reward for row in rows])

    found = [*outcomes(mean_reward)]
    assert len(found) == {"none": 8**3, "order": 120, "reward": 4}[lump]
    v = mdp.value(())
    assert sum(chance for chance, _ in found) == pytest.approx(1)
    assert sum(chance * mean for chance, mean in found) == pytest.approx(v)
    second = sum(chance * mean**2 for chance, mean in found)
    assert second - v**2 == pytest.approx(v * (1 - v) / 3)


def test_dice_draw_what_the_table_says():
    mdp = random_mdp(3, 4)
    env = TableEnv(mdp)
    sampler = Sampler(TableEngine(mdp, Dice(generator(0))), env, 0, 1.0)
    rows = sampler.sample([start_of(env, 0)], 4000, iteration=1, purpose="x")[0]
    mark_states(env, rows[0])
    assert rows[0].states == [tuple(rows[0].response[:t]) for t in range(4)]
    v = mdp.value(())
    error = np.sqrt(v * (1 - v) / len(rows))
    assert abs(np.mean([row.reward for row in rows]) - v) < 4 * error
    assert 0.1 < v < 0.9


def test_multisets_cover_everything_once():
    draws, chances = multisets((0.2, 0.3, 0.5), 3)
    assert len(set(draws)) == len(draws) == 10
    assert sum(chances) == pytest.approx(1)
