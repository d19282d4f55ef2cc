"""Updates of one process, or of one of two that pass a share of the answers each."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from policies import small_policy
from updates import CONFIG, flat_parameters, small_batch, with_sgd

from agents.core.critic import Critic, CriticConfig, CriticTrainer
from agents.core.update import Batch, Updater

SWITCHES = [
    {},
    {"aggregation": "sequence_mean", "kl_aggregation": "token_mean"},
    {"aggregation": "sum_constant", "kl_aggregation": "sum", "kl_estimator": "full"},
    {"whiten": "mean_std", "max_grad_norm": 0.1},
    {"whiten": "std", "whiten_scope": "batch", "updates_per_batch": 2, "max_ratio": None},
    {"entropy_coef": 0.1, "micro_batch_size": 1, "max_ratio": 1.01, "updates_per_batch": 3},
    {"target_kl": 1e-3, "updates_per_batch": 3, "max_ratio": None, "ratio_level": "sequence"},
]
DTYPES = {"float64": torch.float64, "float32": torch.float32}
CASES = ["float64", "float32"]


def batch_of(policy, answers):
    batch = small_batch(policy)
    rng = np.random.default_rng(1)
    batch.in_policy_loss = [True, True, False, True, True, True]
    batch.values = [rng.normal(size=len(row)) for row in batch.responses]
    batch.returns = [rng.normal(size=len(row)) for row in batch.responses]
    names = Batch.__dataclass_fields__
    return Batch(**{name: getattr(batch, name)[:answers] for name in names})


def update(dtype, switches, *, answers=6, stop=lambda: False, adam=False):
    """Returns the gradients of all steps, as clipped, the parameters after them, and metrics."""
    policy, reference = small_policy(dtype), small_policy(dtype, seed=1)
    updater = Updater(policy, reference, replace(CONFIG, **switches), budget=8)
    if not adam:
        with_sgd(updater, 0.02)
    gradients = []
    updater.optimizer.register_step_pre_hook(
        lambda *_: gradients.append(torch.cat([p.grad.flatten() for p in policy.parameters()]))
    )
    metrics = updater.update(batch_of(policy, answers), np.random.default_rng(0), stop=stop)
    return {
        "gradients": torch.stack(gradients) if gradients else torch.zeros(0),
        "parameters": flat_parameters(policy),
        "metrics": metrics,
    }


def critic_update(dtype, learning_rate=0.1):
    """The same of a critic of its own, one pass."""
    policy = small_policy(dtype)
    critic = Critic.apart(policy, seed=0)
    trainer = CriticTrainer(critic, CONFIG, CriticConfig())
    trainer.optimizer = torch.optim.SGD(critic.parameters(), lr=learning_rate)
    trainer.scheduler = torch.optim.lr_scheduler.LambdaLR(trainer.optimizer, lambda step: 1.0)
    metrics = trainer.update(batch := batch_of(policy, 6), np.random.default_rng(0))
    values = torch.from_numpy(np.concatenate(trainer.values(batch)))
    return {"parameters": flat_parameters(critic), "values": values, "metrics": metrics}


def work(rank, folder):
    """What each of two processes does: every case, saved for the test to compare."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/init",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=60),
    )
    found = {}
    for name in CASES:
        for number, switches in enumerate(SWITCHES):
            found[f"{name} {number}"] = update(DTYPES[name], switches)
        found[f"{name} critic"] = critic_update(DTYPES[name])
    # One answer: process 0 has none of it.
    found["one answer"] = update(torch.float64, {}, answers=1)
    small = {"minibatch_size": 2, "updates_per_batch": 3, "max_ratio": None}
    found["many"] = update(torch.float64, small, adam=True)
    asked = []
    # Process 1 alone asks for a stop, before the third step.
    stop = lambda: rank == 1 and (asked.append(1) or len(asked) == 3)  # noqa: E731
    found["stopped"] = update(torch.float64, small, stop=stop)
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
