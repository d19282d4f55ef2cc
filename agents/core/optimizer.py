"""AdamW and its learning-rate schedule, the same for every training command."""

from __future__ import annotations

import math

import torch

from agents.core.config import TrainingConfig
from agents.core.policy import Policy


def learning_rate_factor(step: int, total: int, warmup: int, scheduler: str) -> float:
    """Returns what multiplies the peak learning rate at update ``step`` (from 0).

    Linear warm-up over the first ``warmup`` updates, then constant or linear down to 0.

    >>> [round(learning_rate_factor(step, 6, 2, "linear"), 2) for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step < warmup:
        return (step + 1) / warmup
    if scheduler == "constant":
        return 1.0
    return max(0.0, (total - step) / max(1, total - warmup))


def make_optimizer(
    policy: Policy, config: TrainingConfig, total: int
) -> tuple[torch.optim.AdamW, torch.optim.lr_scheduler.LambdaLR]:
    """Returns the optimizer of a policy and its schedule over ``total`` updates."""
    optimizer = torch.optim.AdamW(
        policy.parameters(),
        lr=config.learning_rate,
        betas=(config.adam_beta1, config.adam_beta2),
        weight_decay=config.weight_decay,
    )
    warmup = math.ceil(config.warmup_ratio * total)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, total, warmup, config.lr_scheduler)
    )
    return optimizer, scheduler
