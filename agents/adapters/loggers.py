"""tianshou's loggers for our runs; ``agents/core/loggers.py`` says when each is used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tianshou.utils import TensorboardLogger, WandbLogger


def tensorboard_logger(folder: Path, config: dict[str, Any]) -> TensorboardLogger:
    """Returns tianshou's own logger for TensorBoard, whose names have a scope: training/reward.

    Use it as ``--logger agents.adapters.loggers:tensorboard_logger``.
    """
    from tianshou.utils import TensorboardLogger
    from torch.utils.tensorboard import SummaryWriter

    return TensorboardLogger(SummaryWriter(str(folder)))


def wandb_logger(folder: Path, config: dict[str, Any]) -> WandbLogger:
    """Returns tianshou's logger for wandb, which writes TensorBoard events too.

    wandb's own environment variables hold: WANDB_PROJECT (else ``lang-env``), WANDB_MODE=offline,
    WANDB_ENTITY. The run is called as its folder is.
    """
    from tianshou.utils import WandbLogger
    from torch.utils.tensorboard import SummaryWriter

    logger = WandbLogger(
        project=os.environ.get("WANDB_PROJECT", "lang-env"),
        name=folder.name,
        config=config,
        log_dir=str(folder),
    )
    logger.load(SummaryWriter(str(folder)))  # after wandb began to watch TensorBoard
    return logger
