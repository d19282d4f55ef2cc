"""A small batch and one SGD update on it, shared by the tests of the update."""

import math

import numpy as np
import torch

from agents.core.config import BaseConfig
from agents.core.update import Batch, Updater

CONFIG = BaseConfig(
    num_prompts=3, num_generations=2, minibatch_size=6, micro_batch_size=6, updates_per_batch=1,
    beta=0.1, temperature=0.8, whiten="none", learning_rate=1e-2, warmup_ratio=0.0, iterations=4,
    lr_scheduler="constant", max_grad_norm=math.inf,
)  # fmt: skip


def small_batch(policy, config=CONFIG):
    rng = np.random.default_rng(0)
    lengths = [3, 1, 6, 2, 2, 4]
    prompts = [[1, *rng.integers(3, 12, size=n).tolist()] for n in (2, 0, 5, 1, 3, 3)]
    responses = [rng.integers(2, 12, size=n).tolist() for n in lengths]
    advantages = [rng.normal(size=n) for n in lengths]
    batch = Batch(prompts, responses, advantages, [np.zeros(n) for n in lengths])
    batch.engine_log_probs = Updater(policy, None, config).log_probs(policy, batch)
    return batch


def flat_parameters(policy):
    return torch.cat([p.detach().flatten() for p in policy.parameters()])


def with_sgd(updater, learning_rate=1.0):
    """Adam's first step would be a sign only."""
    updater.optimizer = torch.optim.SGD(updater.parameters, lr=learning_rate)
    updater.scheduler = torch.optim.lr_scheduler.LambdaLR(updater.optimizer, lambda step: 1.0)
    return updater


def sgd_update(make_policy, config, dtype=torch.float64, order=None, learning_rate=1.0):
    """Returns the parameters after an update with SGD, one answer not counting, and metrics."""
    policy, reference = make_policy(dtype), make_policy(dtype, seed=1)
    batch = small_batch(policy)
    batch.in_policy_loss = [True, True, False, True, True, True]
    if order is not None:
        names = ("prompts", "responses", "advantages", "engine_log_probs", "in_policy_loss")
        batch = Batch(**{name: [getattr(batch, name)[i] for i in order] for name in names})
    updater = with_sgd(Updater(policy, reference, config, budget=8), learning_rate)
    metrics = updater.update(batch, np.random.default_rng(0))
    return flat_parameters(policy), metrics
