"""The command line of a training algorithm, from flags to exit status."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import torch

from agents.core.checkpoint import load_checkpoint
from agents.core.config import TrainingConfig, command_errors
from agents.core.distributed import joined, on_first, rank, world_size
from agents.core.interrupt import Interrupt
from agents.core.loading import TINY
from agents.core.lock import RunLock
from agents.core.loggers import resolve_logger
from agents.core.policy import Policy
from agents.core.reporting import Reporter
from agents.core.resume import launch, rewind
from agents.core.run_folder import remove_empty
from agents.core.update_log import Diverged
from agents.engines.base import EngineError

INTERRUPTED = 130
"""Exit status after Ctrl-C, as of a shell."""


class Trainer(Protocol):
    """What a command trains with."""

    policy: Policy

    def load_state(self, state: Mapping[str, Any], checkpoint: Path) -> None:
        """Takes over everything that a checkpoint holds."""
        ...

    def train(self, report: Reporter, interrupt: Interrupt) -> None:
        """Trains to the end, or until ``interrupt`` asks for it."""
        ...


class TrainerClass(Protocol):
    """How a Trainer is made."""

    @property
    def name(self) -> str:
        """What the algorithm is called in folders and reports."""
        ...

    def __call__(self, config: Any, folder: Path) -> Trainer:
        """Builds everything; raises ValueError where options do not fit together."""
        ...


def run_training(
    trainer_class: TrainerClass,
    config_class: type[TrainingConfig],
    *,
    tiny: str | None,
    description: str,
    argv: Sequence[str] | None = None,
) -> int:
    """Runs a training command and returns its exit status.

    Args:
        trainer_class: The algorithm.
        config_class: Its options.
        tiny: Name of the shipped config that is the base without ``--config`` and ``--model``.
        description: For ``--help``.
        argv: The command line; None: that of the process.
    """
    from transformers.utils import logging as transformers_logging

    # The run has its own view of progress.
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]

    name = trainer_class.name
    with joined(), ExitStack() as held:
        with command_errors():
            begun = on_first(
                lambda: launch(name, config_class, argv, tiny=tiny, description=description)
            )
            config, folder = begun.config, begun.folder
            if begun.finished:
                if rank() == 0:
                    sys.stderr.write(f"{folder} is finished: nothing to do\n")
                return 0
            on_first(lambda: _hold(folder, held))
            if config.threads:
                torch.set_num_threads(config.threads)
            state = None if begun.checkpoint is None else load_checkpoint(begun.checkpoint)
            if config.dry_run and not _fits(config):
                held.close()
                on_first(lambda: remove_empty(folder))
                return 1
            try:
                trainer = _built(trainer_class, config, folder)
            except BaseException:
                held.close()
                on_first(lambda: remove_empty(folder))  # nothing was run
                raise
            if config.dry_run:
                held.close()
                on_first(lambda: remove_empty(folder))
                return 0
            if state is not None and begun.checkpoint is not None:
                trainer.load_state(state, begun.checkpoint)
            first = on_first(lambda: rewind(folder, state, begun.checkpoint))
        with Interrupt() as interrupt:
            try:
                with Reporter(
                    folder, config, agent=name, first_iteration=first, writes=rank() == 0
                ) as report:
                    if state is not None:
                        report.load_state(state["report"])
                    report.header(_about(config, trainer, begun.checkpoint))
                    trainer.train(report, interrupt)
            except KeyboardInterrupt:
                sys.stderr.write(f"stopped at once; what was saved before is in {folder}\n")
                return interrupt.status or INTERRUPTED
            except (
                OSError,
                Diverged,
                EngineError,
            ) as error:  # a full disk, a folder that went away
                sys.stderr.write(f"error: {error}\n")
                return 1
        return interrupt.status


def _fits(config: TrainingConfig) -> bool:
    """Shows the memory plan; returns whether it fits."""
    from agents.core.envs import make_env
    from agents.core.memory_plan import plan_of

    env = make_env(config, "train")
    answer = int(getattr(env, "max_new_tokens", 0))
    plan = plan_of(config, int(getattr(env, "max_prompt_tokens", 0)) + answer, answer)
    if rank() == 0:
        sys.stdout.write(plan.text())
    return plan.peak <= plan.available


def _hold(folder: Path, held: ExitStack) -> None:
    held.enter_context(RunLock(folder))


def _built(trainer_class: TrainerClass, config: TrainingConfig, folder: Path) -> Trainer:
    """Returns the trainer, after a check that its logger is there."""
    own_logger = ":" in config.logger
    if not own_logger:
        resolve_logger(config.logger)
    trainer = trainer_class(config, folder)
    if own_logger:  # only now: what it imports may break an engine that is not built yet
        resolve_logger(config.logger)
    return trainer


def _about(config: TrainingConfig, trainer: Trainer, checkpoint: Path | None) -> dict[str, str]:
    policy = trainer.policy
    about = {
        "model": f"{config.model or 'tiny'}, {policy.num_parameters:,} parameters",
        "engine": f"{config.engine} on {policy.device}, {config.dtype}",
    }
    if getattr(config, "init", None):
        about["model"] = f"new, {policy.num_parameters:,} parameters"
    elif config.model in (None, TINY) and config.env.rpartition(":")[2] != "MathReason-v0":
        about["note"] = "the embedded policy knows MathReason-v0 only; --model names another"
    if world_size() > 1:
        about["processes"] = str(world_size())
    if checkpoint is not None:
        about["resumed"] = f"from {checkpoint}"
    return about
