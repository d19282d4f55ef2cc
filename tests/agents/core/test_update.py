"""The update: hand-computed gradients, and nothing that batching changes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.core.config import BaseConfig
from agents.core.optimizer import learning_rate_factor
from agents.core.update import Batch, Updater

CONFIG = BaseConfig(
    num_prompts=3, num_generations=2, minibatch_size=6, micro_batch_size=6, updates_per_batch=1,
    beta=0.1, temperature=0.8, whiten="none", learning_rate=1e-2, warmup_ratio=0.0, iterations=4,
    lr_scheduler="constant", max_grad_norm=math.inf,
)  # fmt: skip


def _batch(policy, config=CONFIG):
    rng = np.random.default_rng(0)
    lengths = [3, 1, 6, 2, 2, 4]
    prompts = [[1, *rng.integers(3, 12, size=n).tolist()] for n in (2, 0, 5, 1, 3, 3)]
    responses = [rng.integers(2, 12, size=n).tolist() for n in lengths]
    advantages = [rng.normal(size=n) for n in lengths]
    batch = Batch(prompts, responses, advantages, [np.zeros(n) for n in lengths])
    batch.engine_log_probs = Updater(policy, None, config).log_probs(policy, batch)
    return batch


def _sgd_step(make_policy, config, dtype=torch.float64, order=None):
    """Returns the parameters after one SGD step: Adam's first step would be a sign only."""
    policy, reference = make_policy(dtype), make_policy(dtype, seed=1)
    batch = _batch(policy)
    if order is not None:
        batch = Batch(*([rows[i] for i in order] for rows in (
            batch.prompts, batch.responses, batch.advantages, batch.engine_log_probs
        )))  # fmt: skip
    updater = Updater(policy, reference, config)
    updater.optimizer = torch.optim.SGD(policy.parameters(), lr=1.0)
    updater.scheduler = torch.optim.lr_scheduler.LambdaLR(updater.optimizer, lambda step: 1.0)
    metrics = updater.update(batch, np.random.default_rng(0))
    return torch.cat([p.detach().flatten() for p in policy.parameters()]), metrics


def test_the_gradient_is_that_of_the_formula(make_policy):
    """-mean over tokens of advantage * ratio, plus beta * mean over answers of summed k3."""
    policy, reference = make_policy(), make_policy(seed=1)
    batch = _batch(policy)
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
    before = torch.cat([p.detach().flatten() for p in policy.parameters()])
    gradient = torch.cat([p.grad.flatten() for p in policy.parameters()])
    after, metrics = _sgd_step(make_policy, CONFIG)
    torch.testing.assert_close(after, before - gradient, rtol=1e-10, atol=1e-12)
    assert metrics["grad_norm"] == pytest.approx(gradient.norm().item())
    assert metrics["sampling/sampling_logp_difference/max"] == 0.0


@pytest.mark.parametrize("whiten", ["none", "mean_std"])
@pytest.mark.parametrize("kl_aggregation", ["sum", "token_mean"])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_micro_batches_and_order_change_nothing(make_policy, whiten, kl_aggregation, dtype, bound):
    config = replace(CONFIG, whiten=whiten, kl_aggregation=kl_aggregation)
    whole, metrics = _sgd_step(make_policy, config, dtype)
    start = torch.cat([p.detach().flatten() for p in make_policy(dtype).parameters()])
    step = (whole - start).norm()
    assert step > 0.01
    for size in (1, 2, 4):
        small, other = _sgd_step(make_policy, replace(config, micro_batch_size=size), dtype)
        assert (small - whole).norm() <= bound * step
        assert other == pytest.approx(metrics, rel=1e-4, abs=1e-6)
    shuffled, _ = _sgd_step(make_policy, config, dtype, order=[5, 3, 1, 0, 2, 4])
    assert (shuffled - whole).norm() <= bound * step


def test_the_first_update_is_on_policy(make_policy):
    _, metrics = _sgd_step(make_policy, CONFIG)
    assert metrics["clip_ratio/region_mean"] == 0.0


def test_later_passes_are_clipped(make_policy):
    config = replace(CONFIG, updates_per_batch=20, beta=0.0, learning_rate=0.05)
    policy = make_policy()
    metrics = Updater(policy, None, config).update(_batch(policy), np.random.default_rng(0))
    assert 0.0 < metrics["clip_ratio/region_mean"] < 1.0
    assert metrics["kl"] == 0.0


def test_an_update_raises_the_better_answers(make_policy):
    policy = make_policy()
    batch = _batch(policy)
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
    batch = _batch(policy)
    batch.advantages[0][0] = math.nan
    before = torch.cat([p.detach().flatten() for p in policy.parameters()])
    metrics = Updater(policy, None, CONFIG).update(batch, np.random.default_rng(0))
    assert metrics["skipped_updates"] == 1.0
    assert torch.equal(torch.cat([p.detach().flatten() for p in policy.parameters()]), before)


def test_a_stop_ends_before_the_next_minibatch(make_policy):
    policy, seen = make_policy(), []
    updater = Updater(policy, None, replace(CONFIG, minibatch_size=2))
    updater.update(
        _batch(policy), np.random.default_rng(0),
        progress=lambda answers, tokens: seen.append(answers), stop=lambda: len(seen) == 2,
    )  # fmt: skip
    assert seen == [2, 2]


def test_the_schedule_by_hand():
    assert [learning_rate_factor(s, 4, 0, "linear") for s in range(5)] == [1, 0.75, 0.5, 0.25, 0]
    assert [learning_rate_factor(s, 4, 2, "constant") for s in range(4)] == [0.5, 1, 1, 1]
