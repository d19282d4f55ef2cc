"""Switches of the update that decide what is stepped on: skips, stops, what counts, whitening."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from updates import CONFIG, flat_parameters, small_batch, with_sgd

from agents.core.update import Batch, Updater
from agents.core.update_log import Diverged


@pytest.mark.parametrize("scope", ["minibatch", "batch"])
def test_whitening_leaves_out_what_does_not_count(make_policy, scope):
    config = replace(CONFIG, beta=0.0, whiten="mean_std", whiten_scope=scope)
    policy, other = make_policy(), make_policy()
    batch = small_batch(policy)
    batch.in_policy_loss = [True, True, False, True, True, False]
    batch.advantages[2][:] = 1e6
    chosen = [0, 1, 3, 4]
    few = Batch(*([rows[i] for i in chosen] for rows in (
        batch.prompts, batch.responses, batch.advantages, batch.engine_log_probs
    )))  # fmt: skip
    with_sgd(Updater(policy, None, config)).update(batch, np.random.default_rng(0))
    with_sgd(Updater(other, None, config)).update(few, np.random.default_rng(0))
    torch.testing.assert_close(
        flat_parameters(policy), flat_parameters(other), rtol=1e-10, atol=1e-12
    )


def test_the_whitening_scope_by_hand(make_policy):
    """Minibatches of two answers: of the batch's statistics, or each of its own."""
    for scope in ("batch", "minibatch"):
        config = replace(CONFIG, whiten="mean_std", whiten_scope=scope, minibatch_size=2)
        updater, seen = Updater(make_policy(), None, config), []
        batch = small_batch(updater.policy)
        accumulate = updater._accumulate
        updater._accumulate = lambda *a, f=accumulate, s=seen: s.append(f(*a)) or s[-1]
        updater.update(batch, np.random.default_rng(0))
        assert len(seen) == 3
        for objective in seen:
            rows = list(objective.policy_weights)
            over = range(6) if scope == "batch" else rows
            flat = np.concatenate([batch.advantages[row] for row in over])
            scale = np.sqrt(flat.var(ddof=1) + 1e-8)
            for row in rows:
                expected = (batch.advantages[row] - flat.mean()) / scale
                np.testing.assert_allclose(objective.constants.advantages[row], expected)


def test_a_minibatch_whose_ratio_explodes_is_skipped_and_counted(make_policy):
    config = replace(CONFIG, beta=0.0, updates_per_batch=3, max_ratio=1.5, learning_rate=0.3)
    policy = make_policy()
    metrics = Updater(policy, None, config).update(small_batch(policy), np.random.default_rng(0))
    assert metrics["ratio/exploded"] == metrics["skipped_updates"] == 2.0
    assert metrics["updates"] == 1.0


def test_an_update_ends_at_the_kl_target(make_policy):
    config = replace(CONFIG, beta=0.0, updates_per_batch=5, target_kl=1e-4, learning_rate=1e-2)
    policy, sizes = make_policy(), []
    batch = small_batch(policy)
    metrics = Updater(policy, None, config).update(
        batch, np.random.default_rng(0), progress=lambda answers, tokens: sizes.append(answers)
    )
    assert metrics["stopped_at_kl_target"] == 1.0
    assert metrics["updates"] == len(sizes) == 1
    free = Updater(make_policy(), None, replace(config, target_kl=None, max_ratio=None))
    assert free.update(batch, np.random.default_rng(0))["updates"] == 5


def test_nothing_is_trained_where_no_answer_counts(make_policy):
    policy = make_policy()
    batch, before = small_batch(policy), flat_parameters(policy)
    batch.in_policy_loss = [False] * 6
    metrics = Updater(policy, None, CONFIG).update(batch, np.random.default_rng(0))
    assert metrics["updates"] == 0.0
    assert torch.equal(flat_parameters(policy), before)


@pytest.mark.parametrize(("in_kl", "moves"), [([True] * 6, True), ([False] * 6, False)])
def test_the_kl_may_still_hold_answers_that_do_not_count(make_policy, in_kl, moves):
    policy = make_policy()
    batch, before = small_batch(policy), flat_parameters(policy)
    batch.in_policy_loss, batch.in_kl = [False] * 6, in_kl
    Updater(policy, make_policy(seed=1), CONFIG).update(batch, np.random.default_rng(0))
    assert torch.equal(flat_parameters(policy), before) is not moves


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "full"])
@pytest.mark.parametrize("clamp", [None, 0.3])
def test_kl_penalties_of_the_reward_by_hand(make_policy, estimator, clamp):
    policy, reference = make_policy(), make_policy(seed=1)
    batch = small_batch(policy)
    config = replace(CONFIG, kl_in="reward", kl_estimator=estimator, kl_clamp=clamp)
    penalties = Updater(policy, reference, config).kl_penalties(batch)
    for row, (prompt, response) in enumerate(zip(batch.prompts, batch.responses, strict=True)):
        with torch.no_grad():
            tokens = torch.tensor([prompt + response])
            new, old = (
                torch.log_softmax(model(tokens).logits[0, len(prompt) - 1 : -1, :12] / 0.8, -1)
                for model in (policy.model, reference.model)
            )
        d = (old - new)[range(len(response)), response]
        exact = (new.exp() * (new - old)).sum(-1)
        expected = {"k1": -d, "k2": d**2 / 2, "k3": d.exp() - d - 1, "full": exact}[estimator]
        expected = expected.numpy() if clamp is None else expected.numpy().clip(-clamp, clamp)
        np.testing.assert_allclose(penalties[row], expected, rtol=1e-9, atol=1e-12)


def test_a_kl_in_the_reward_is_not_in_the_loss_too(make_policy):
    steps = []
    for beta, kl_in in ((0.0, "loss"), (0.5, "reward")):
        policy = make_policy()
        config = replace(CONFIG, beta=beta, kl_in=kl_in)
        updater = with_sgd(Updater(policy, make_policy(seed=1), config))
        updater.update(small_batch(policy), np.random.default_rng(0))
        steps.append(flat_parameters(policy))
    assert torch.equal(*steps)


def test_a_sum_over_a_constant_needs_a_budget(make_policy):
    with pytest.raises(ValueError, match=r"aggregation=sum_constant needs a token budget.*Set agg"):
        Updater(make_policy(), None, replace(CONFIG, aggregation="sum_constant"))


@pytest.mark.parametrize("cap", [None, 2.0])
def test_unknown_log_probs_of_the_engine_are_left_out_and_counted(make_policy, cap):
    config = replace(CONFIG, beta=0.0, importance_sampling_cap=cap)
    policy, other = make_policy(), make_policy()
    batch, whole = small_batch(policy), small_batch(other)
    total = sum(map(len, batch.responses))
    batch.engine_log_probs[2] = np.full(len(batch.responses[2]), np.nan)
    metrics = with_sgd(Updater(policy, None, config)).update(batch, np.random.default_rng(0))
    with_sgd(Updater(other, None, config)).update(whole, np.random.default_rng(0))
    assert metrics["sampling/nan_logps"] == len(batch.responses[2]) / total
    assert metrics["sampling/sampling_logp_difference/max"] < 1e-9
    # The engine's numbers are the trainer's here, so that their weights are 1 too.
    torch.testing.assert_close(
        flat_parameters(policy), flat_parameters(other), rtol=1e-10, atol=1e-12
    )


def test_an_engine_that_samples_from_another_policy_stops_the_run(make_policy):
    policy = make_policy()
    batch = small_batch(policy)
    batch.engine_log_probs = [row - 0.5 for row in batch.engine_log_probs]
    allowed = replace(CONFIG, max_logprob_gap=0.6)
    metrics = Updater(make_policy(), None, replace(allowed, beta=0.0)).update(
        batch, np.random.default_rng(0)
    )
    assert metrics["sampling/sampling_logp_difference/mean"] == pytest.approx(0.5, abs=1e-6)
    strict = replace(CONFIG, max_logprob_gap=0.4, beta=0.0)
    with pytest.raises(Diverged, match=r"differ by 0\.5 nats a token, more than max_logprob_gap=0"):
        Updater(policy, None, strict).update(batch, np.random.default_rng(0))
