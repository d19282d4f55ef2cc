"""Answers as tianshou's Batch: what goes in comes out, and its buffer and kernels take it."""

import numpy as np
import pytest
from tianshou.algorithm.algorithm_base import Algorithm
from tianshou.data import Batch, ReplayBuffer
from toy import PROMPT, ToyEngine, ToyEnv

from agents.adapters.episodes import episodes, transitions
from agents.core.advantages import gae_advantages
from agents.core.overlong import OverlongPenalty
from agents.core.rollout import Sampler, play_tokens, start_of


@pytest.fixture(scope="module")
def rows():
    env = ToyEnv()
    sampler = Sampler(ToyEngine(), env, 0, 1.0, overlong=OverlongPenalty(2))
    starts = [start_of(env, slot, index=slot) for slot in range(3)]
    groups = sampler.sample(starts, 6, iteration=1, purpose="rollout")
    found = [row for group in groups for row in group]
    assert {len(row.response) for row in found} == {1, 2, 3}
    assert any(row.truncated for row in found)
    return found


def _numbers(rows):
    rng = np.random.default_rng(0)
    return [rng.normal(size=len(row.response)) for row in rows]


def test_an_episode_is_a_row_and_comes_back_as_it_was(rows):
    advantages = _numbers(rows)
    batch = episodes(rows, advantages)
    assert len(batch) == len(rows) == 18
    assert batch.act.shape == batch.mask.shape == batch.adv.shape == batch.logp_old.shape == (18, 3)
    for place, row in enumerate(rows):
        found = batch[place]
        assert found.act[found.mask].tolist() == row.response
        assert found.obs.tokens[: found.obs.length[0]].tolist() == row.start.tokens == list(PROMPT)
        assert (found.rew, found.terminated, found.truncated) == (
            row.reward, row.terminated, row.truncated,
        )  # fmt: skip
        assert found.done
        assert found.info.problem_id == row.info["problem_id"]
        np.testing.assert_array_equal(found.logp_old[found.mask], row.log_probs)
        np.testing.assert_array_equal(found.adv[found.mask], advantages[place])
        assert not found.act[~found.mask].any()
        assert not found.adv[~found.mask].any()


def test_tianshous_batch_cuts_and_picks(rows):
    batch = episodes(rows)
    parts = list(batch.split(4, shuffle=False, merge_last=True))
    assert [len(part) for part in parts] == [4, 4, 4, 6]
    np.testing.assert_array_equal(Batch.cat(parts).act, batch.act)
    cut = batch[batch.truncated]
    assert cut.rew.tolist() == [row.reward for row in rows if row.truncated]
    assert "adv" not in batch


def test_a_step_is_a_row_and_the_environment_agrees(rows):
    """Each action, played from its observation, gives the next observation and the flags."""
    batch, env, place = transitions(rows), ToyEnv(), 0
    assert len(batch) == sum(len(row.response) for row in rows)
    for number, row in enumerate(rows):
        env.restore(row.start.snapshot)
        for token in row.response:
            found = batch[place]
            assert found.obs.tokens.tolist() == env._observation()["tokens"].tolist()
            reward, terminated, truncated, _ = play_tokens(env, [token])
            after = env._observation()
            assert found.obs_next.tokens.tolist() == after["tokens"].tolist()
            assert found.obs_next.length.tolist() == after["length"].tolist()
            ends = terminated or truncated
            assert found.act == token
            assert (found.terminated, found.truncated, found.done) == (terminated, truncated, ends)
            assert found.rew == (reward + row.penalty if ends else 0.0)
            assert (found.returns, found.info.episode) == (row.reward, number)
            assert found.info.problem_id == row.start.problem_id
            place += 1


def test_tianshous_buffer_and_kernel_give_our_advantages(rows):
    rewards, values = _numbers(rows), _numbers(rows)
    batch = transitions(rows, rewards=rewards, width=9)
    assert batch.obs.tokens.shape == (len(batch), 9)
    buffer = ReplayBuffer(len(batch))
    for place in range(len(batch)):
        row = batch[place]
        names = ("obs", "act", "rew", "terminated", "truncated", "obs_next", "info")
        buffer.add(Batch({name: row[name] for name in names}))
    stored, indices = buffer.sample(0)
    np.testing.assert_array_equal(stored.obs.tokens, batch.obs.tokens)
    np.testing.assert_array_equal(stored.act, batch.act)
    next_values = np.concatenate([np.append(row[1:], 0.0) for row in values])
    returns, advantages = Algorithm.compute_episodic_return(
        stored, buffer, indices, next_values, np.concatenate(values), gamma=0.9, gae_lambda=0.8
    )
    ours, our_returns = gae_advantages(
        rewards, values, [0.0] * len(rows), gamma=0.9, gae_lambda=0.8
    )
    np.testing.assert_allclose(advantages, np.concatenate(ours), atol=1e-12)
    np.testing.assert_allclose(returns, np.concatenate(our_returns), atol=1e-12)
    totals = [row.sum() for row in rewards]
    firsts = np.flatnonzero(np.diff(batch.info.episode, prepend=-1))
    np.testing.assert_allclose(batch.returns[firsts], totals)


def test_what_cannot_be_a_batch_is_refused(rows):
    for make in (episodes, transitions):
        with pytest.raises(ValueError, match="at least one trajectory, got none"):
            make([])
    with pytest.raises(ValueError, match="longest answer, 5: 4"):
        transitions(rows, width=4)
