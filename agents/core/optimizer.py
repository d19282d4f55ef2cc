"""AdamW and its learning-rate schedule, the same for every training command."""

from __future__ import annotations

import math

import torch
from torch import nn

from agents.core.config import TrainingConfig


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
    module: nn.Module,
    config: TrainingConfig,
    total: int,
    *,
    learning_rate: float | None = None,
    head: nn.Module | None = None,
    head_learning_rate: float | None = None,
) -> tuple[torch.optim.AdamW, torch.optim.lr_scheduler.LambdaLR]:
    """Returns the optimizer of a network and its schedule over ``total`` updates.

    Args:
        module: What is trained.
        config: The ``adam_*``, ``weight_decay`` and learning-rate options are read.
        total: Updates of the whole run.
        learning_rate: Peak; None: ``config.learning_rate``.
        head: A second module, with a learning rate of its own.
        head_learning_rate: Its peak; None: that of ``module``.
    """
    peak = config.learning_rate if learning_rate is None else learning_rate
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [{"params": trained, "lr": peak}]
    if head is not None:
        head_peak = peak if head_learning_rate is None else head_learning_rate
        groups.append({"params": list(head.parameters()), "lr": head_peak})
    optimizer = torch.optim.AdamW(
        groups,
        lr=peak,
        betas=(config.adam_beta1, config.adam_beta2),
        weight_decay=config.weight_decay,
    )
    warmup = math.ceil(config.warmup_ratio * total)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, total, warmup, config.lr_scheduler)
    )
    return optimizer, scheduler
