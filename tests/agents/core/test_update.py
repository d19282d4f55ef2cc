"""The update: hand-computed gradients, and nothing that batching changes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from updates import CONFIG, flat_parameters, sgd_update, small_batch, with_sgd

from agents.core.optimizer import learning_rate_factor
from agents.core.update import Updater


def test_the_gradient_is_that_of_the_formula(make_policy):
    """-mean over tokens of advantage * ratio, plus beta * mean over answers of summed k3."""
    policy, reference = make_policy(), make_policy(seed=1)
    batch = small_batch(policy)
    total_tokens = sum(map(len, batch.responses))
    loss = torch.zeros((), dtype=torch.float64)
    for prompt, response, advantage in zip(
        batch.prompts, batch.responses, batch.advantages, strict=True
    ):

        def scores(model, prompt=prompt, response=response):
            logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1, :12]
            return torch.log_softmax(logits / 0.8, -1)[range(len(response)), response]

        log_probs = scores(policy.model)
        gap = scores(reference.model).detach() - log_probs
        ratio = (log_probs - log_probs.detach()).exp()
        loss = loss - (ratio * torch.tensor(advantage)).sum() / total_tokens
        loss = loss + 0.1 * (gap.exp() - gap - 1).clamp(0, 10).sum() / 6
    loss.backward()
    before = flat_parameters(policy)
    gradient = torch.cat([p.grad.flatten() for p in policy.parameters()])
    policy.zero_grad()
    updater = with_sgd(Updater(policy, reference, CONFIG))
    metrics = updater.update(batch, np.random.default_rng(0))
    after = flat_parameters(policy)
    torch.testing.assert_close(after, before - gradient, rtol=1e-10, atol=1e-12)
    assert metrics["grad_norm"] == pytest.approx(gradient.norm().item())
    assert metrics["sampling/sampling_logp_difference/max"] == 0.0


SWITCHES = [
    {},
    {"whiten": "mean_std"},
    {"whiten": "std", "whiten_scope": "batch"},
    {"kl_aggregation": "token_mean"},
    {"kl_aggregation": "sequence_mean", "aggregation": "sequence_mean"},
    {"aggregation": "sum_constant"},
    {"ratio_level": "sequence", "epsilon": 0.01, "epsilon_high": 0.02},
    {"ratio_level": "product", "aggregation": "sequence_mean"},
    {"kl_estimator": "k2"},
    {"kl_estimator": "full"},
    {"entropy_coef": 0.1, "importance_sampling_cap": 0.9},
    {"top_p": 0.7, "top_p_correction": "renormalise"},
]


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_micro_batches_and_order_change_nothing(make_policy, switches, passes, dtype, bound):
    """With two passes the second one is off-policy: ratios and clips take part."""
    config = replace(CONFIG, updates_per_batch=passes, **switches)
    rate = 1.0 if passes == 1 else 0.1
    whole, metrics = sgd_update(make_policy, config, dtype, learning_rate=rate)
    step = (whole - flat_parameters(make_policy(dtype))).norm()
    assert step > 0.01
    for size in (1, 2, 4):
        smaller = replace(config, micro_batch_size=size)
        small, other = sgd_update(make_policy, smaller, dtype, learning_rate=rate)
        assert (small - whole).norm() <= bound * step
        assert other == pytest.approx(metrics, rel=1e-4, abs=1e-5)
    order = [5, 3, 1, 0, 2, 4]
    shuffled, _ = sgd_update(make_policy, config, dtype, order, learning_rate=rate)
    assert (shuffled - whole).norm() <= bound * step


@pytest.mark.parametrize("vocab_size", [12, 14, 16])
@pytest.mark.parametrize("switches", [{}, {"top_p": 0.7, "top_p_correction": "renormalise"}])
def test_the_first_update_is_on_policy(make_policy, vocab_size, switches):
    """For every vocabulary up to the padded one, also where the old pass is a pass apart."""
    policy = make_policy(torch.float32, vocab_size)
    config = replace(CONFIG, beta=0.0, updates_per_batch=2, micro_batch_size=2, **switches)
    batch = small_batch(policy)
    updater = with_sgd(Updater(policy, None, config), learning_rate=0.0)
    metrics = updater.update(batch, np.random.default_rng(0))
    assert metrics["updates"] == 2.0
    assert metrics["ratio/max"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["clip_ratio/region_mean"] == 0.0


def test_one_step_needs_no_pass_of_the_sampling_policy(make_policy):
    """Spared where the loss's own pass has its numbers: the gap to the engine is logged still."""
    policy, calls = make_policy(), []
    batch = small_batch(policy)
    policy.register_forward_hook(lambda *_: calls.append(1))
    metrics = Updater(policy, None, CONFIG).update(batch, np.random.default_rng(0))
    assert len(calls) == 1
    assert metrics["sampling/sampling_logp_difference/max"] == 0.0


def test_later_passes_are_clipped(make_policy):
    config = replace(CONFIG, updates_per_batch=20, beta=0.0, learning_rate=0.05)
    policy = make_policy()
    metrics = Updater(policy, None, config).update(small_batch(policy), np.random.default_rng(0))
    assert 0.0 < metrics["clip_ratio/region_mean"] < 1.0
    assert metrics["kl"] == 0.0


def test_an_update_raises_the_better_answers(make_policy):
    policy = make_policy()
    batch = small_batch(policy)
    for row, array in enumerate(batch.advantages):
        array[:] = 1.0 if row % 2 else -1.0
    updater = Updater(policy, None, replace(CONFIG, beta=0.0))
    before = [array.sum() for array in updater.log_probs(policy, batch)]
    updater.update(batch, np.random.default_rng(0))
    after = [array.sum() for array in updater.log_probs(policy, batch)]
    moved = np.sign(np.array(after) - np.array(before))
    assert moved.tolist() == [-1, 1, -1, 1, -1, 1]


def test_a_gradient_that_is_not_finite_changes_no_weight(make_policy):
    policy = make_policy()
    batch = small_batch(policy)
    batch.advantages[0][0] = math.nan
    before = flat_parameters(policy)
    metrics = Updater(policy, None, CONFIG).update(batch, np.random.default_rng(0))
    assert metrics["skipped_updates"] == 1.0
    assert torch.equal(flat_parameters(policy), before)


def test_a_stop_ends_before_the_next_minibatch(make_policy):
    policy, seen = make_policy(), []
    updater = Updater(policy, None, replace(CONFIG, minibatch_size=2))
    updater.update(
        small_batch(policy), np.random.default_rng(0),
        progress=lambda answers, tokens: seen.append(answers), stop=lambda: len(seen) == 2,
    )  # fmt: skip
    assert seen == [2, 2]


def test_the_schedule_by_hand():
    assert [learning_rate_factor(s, 4, 0, "linear") for s in range(5)] == [1, 0.75, 0.5, 0.25, 0]
    assert [learning_rate_factor(s, 4, 2, "constant") for s in range(4)] == [0.5, 1, 1, 1]
