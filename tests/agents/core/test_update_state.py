"""An update that is stopped in the middle, saved and loaded ends as if nothing had happened."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from updates import CONFIG, flat_parameters, sgd_update, small_batch

from agents.core.critic import Critic, CriticConfig, CriticTrainer
from agents.core.state_tree import load_tree, save_tree
from agents.core.update import Updater
from agents.core.update_log import Diverged

SEVERAL = replace(CONFIG, minibatch_size=2, updates_per_batch=2, whiten="mean_std")


def _stop_after(count):
    asked = iter(range(1000))
    return lambda: next(asked) >= count


def _through_a_file(folder, state):
    save_tree(folder, "state", state)
    return load_tree(folder, "state")


def _updater(make_policy, config=SEVERAL):
    policy = make_policy(torch.float32)
    return policy, Updater(policy, make_policy(torch.float32, seed=1), config)


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("stop_at", [0, 1, 2, 100])
def test_a_stopped_update_goes_on_bit_for_bit(make_policy, tmp_path, passes, stop_at):
    config = replace(SEVERAL, updates_per_batch=passes)
    policy, updater = _updater(make_policy, config)
    batch = small_batch(policy)
    whole = updater.update(batch, np.random.default_rng(3))
    expected = flat_parameters(policy)

    policy, updater = _updater(make_policy, config)
    part = updater.update(batch, np.random.default_rng(3), stop=_stop_after(stop_at))
    assert (part["updates"] < whole["updates"]) == (stop_at < 3 * passes)
    weights = policy.model.state_dict()
    state = _through_a_file(tmp_path, updater.state())

    again, updater = _updater(make_policy, config)
    again.model.load_state_dict(weights)
    updater.load_state(state)
    assert updater.update(batch, np.random.default_rng(3)) == whole
    assert torch.equal(flat_parameters(again), expected)
    updater.forget()
    assert updater.state()["pending"] is None


def test_a_stopped_critic_goes_on_bit_for_bit(make_policy, tmp_path):
    batch = small_batch(make_policy(torch.float32))
    batch.returns = [np.ones(len(response)) for response in batch.responses]
    batch.values = [np.zeros(len(response)) for response in batch.responses]

    def trainer():
        critic = Critic.apart(make_policy(torch.float32), 0)
        return CriticTrainer(critic, SEVERAL, CriticConfig(critic_learning_rate=0.01))

    first = trainer()
    whole = first.update(batch, np.random.default_rng(3))
    stopped = trainer()
    stopped.update(batch, np.random.default_rng(3), stop=_stop_after(2))
    resumed = trainer()
    resumed.critic.load_state_dict(stopped.critic.state_dict())
    resumed.load_state(_through_a_file(tmp_path, stopped.state()))
    assert resumed.update(batch, np.random.default_rng(3)) == whole
    pairs = zip(first.critic.parameters(), resumed.critic.parameters(), strict=True)
    assert all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_passes_that_do_not_fit_memory_are_halved(make_policy, caplog):
    expected, _ = sgd_update(make_policy, CONFIG)
    forward, largest = type(make_policy()).forward, []

    def limited(self, sequences, *arguments):
        if len(sequences.tokens) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        largest.append(len(sequences.tokens))
        return forward(self, sequences, *arguments)

    class Limited(type(make_policy())):
        forward = limited

    def policies(*arguments, **settings):
        policy = make_policy(*arguments, **settings)
        policy.__class__ = Limited
        return policy

    after, metrics = sgd_update(policies, CONFIG)
    assert "micro_batch_size is 3 from now on" in caplog.text
    assert max(largest) == 1
    assert metrics["micro_batch_size"] == 1.0
    torch.testing.assert_close(after, expected, rtol=1e-10, atol=1e-12)


def test_memory_that_never_suffices_says_what_to_do(make_policy, monkeypatch):
    policy, updater = _updater(make_policy)
    batch = small_batch(policy)

    def full(*_):
        raise MemoryError("can't allocate memory")

    monkeypatch.setattr(policy, "forward", full)
    with pytest.raises(RuntimeError, match=r"one answer a pass.*--gradient_checkpointing"):
        updater.update(batch, np.random.default_rng(0))


def test_bad_gradients_are_skipped_and_too_many_end_the_run(make_policy):
    config = replace(SEVERAL, updates_per_batch=1, max_bad_gradients=4, whiten="none")
    policy, updater = _updater(make_policy, config)
    batch = small_batch(policy)
    before = flat_parameters(policy)
    batch.advantages = [np.full(len(response), np.nan) for response in batch.responses]
    metrics = updater.update(batch, np.random.default_rng(0))
    assert (metrics["updates"], metrics["skipped_updates"]) == (0.0, 3.0)
    assert torch.equal(flat_parameters(policy), before)
    with pytest.raises(Diverged, match=r"4 minibatches in a row.*--learning_rate") as caught:
        updater.update(batch, np.random.default_rng(1))
    assert len(caught.value.rows) == 2
