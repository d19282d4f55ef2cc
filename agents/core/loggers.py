"""Where a run's numbers go beside ``metrics.jsonl``: TensorBoard, wandb, or a logger of your own.

The interface is the part of tianshou's ``BaseLogger`` that a program calls by itself, so that every
tianshou logger fits. TensorBoard is written by torch's ``SummaryWriter`` and not by tianshou's
logger around it: on top of torch, transformers and TensorBoard, ``import tianshou.utils`` took 1.3
to 1.9 CPU seconds and 3.5 to 5.7 by the clock (``time.process_time`` and ``time.perf_counter``
around it, five times on a busy machine). PPO pays that anyway, for its advantages; the others need
not. Loggers are made after the engine, since numba imported before vLLM breaks it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from agents.core.options import Options
from graders.resolve import resolve

LOGGERS = {
    "tensorboard": "agents.core.loggers:TensorBoard",
    "wandb": "agents.adapters.loggers:wandb_logger",
    "none": "agents.core.loggers:Nothing",
}
"""Short names; ``pkg.mod:attr`` is called as ``attr(folder, config)``, ``config`` a dict."""

WRITES_EVENTS = ("tensorboard", "wandb")
"""Loggers after which TensorBoard has something to show."""

_LOG = logging.getLogger(__name__)


class MetricsLogger(Protocol):
    """What is used of tianshou's ``BaseLogger``."""

    def prepare_dict_for_logging(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Returns the data as ``write`` takes it."""
        ...

    def write(self, step_type: str, step: int, data: dict[str, Any]) -> None:
        """Writes numbers; ``step_type`` is "training/iteration" or "test/iteration"."""
        ...

    def finalize(self) -> None:
        """Closes whatever is open."""
        ...


class LoggerMaker(Protocol):
    """How a logger is made."""

    def __call__(self, folder: Path, config: dict[str, Any]) -> MetricsLogger:
        """Makes the logger of the run that lives in ``folder``."""
        ...


class Nothing:
    """Writes nothing: ``metrics.jsonl`` is enough."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        """Does nothing."""

    def prepare_dict_for_logging(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Returns the data as it is."""
        return log_data

    def write(self, step_type: str, step: int, data: dict[str, Any]) -> None:
        """Does nothing."""

    def finalize(self) -> None:
        """Does nothing."""


class TensorBoard(Nothing):
    """Writes TensorBoard events into the run folder, under the metrics' own names."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        """Opens the events file."""
        from torch.utils.tensorboard import SummaryWriter  # half a second to import

        # Of a resumed run, TensorBoard forgets what came after the checkpoint.
        metrics = folder / "metrics.jsonl"
        done = metrics.read_text(encoding="utf-8").count("\n") if metrics.exists() else 0
        self._writer = SummaryWriter(str(folder), purge_step=done + 1)

    def write(self, step_type: str, step: int, data: dict[str, Any]) -> None:
        """Writes scalars and flushes."""
        for name, value in data.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def finalize(self) -> None:
        """Closes the file."""
        self._writer.close()


def resolve_logger(name: str) -> LoggerMaker:
    """Returns what makes the logger of that name.

    Raises:
        ValueError: Unknown name, or a package is missing.
    """
    found = find_spec("wandb") if name == "wandb" else None
    # A folder called wandb, as wandb itself leaves behind, is found too, but has no origin.
    if name == "wandb" and (found is None or found.origin is None):
        raise ValueError(
            "logger=wandb needs the package wandb, which is not installed: "
            "pip install 'lang-env[wandb]', or set --logger tensorboard."
        )
    maker: LoggerMaker = resolve(name, LOGGERS, "logger")
    return maker


class GuardedLogger:
    """A logger that never stops a run: when it fails it is said once, and the run goes on."""

    def __init__(self, name: str, folder: Path, config: Options) -> None:
        """Makes the logger.

        Args:
            name: See ``LOGGERS``.
            folder: The run's.
            config: The run's options.

        Raises:
            ValueError: Unknown name, or a package is missing.
        """
        self._name = name
        maker = resolve_logger(name)
        self._logger: MetricsLogger | None = None
        try:
            self._logger = maker(folder, asdict(config))
        except Exception as error:
            self._give_up(error)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes an iteration's numbers; those under ``eval/`` as tianshou's test data."""
        scopes: dict[str, dict[str, Any]] = {"training": {}, "test": {}}
        for name, value in values.items():
            scopes["test" if name.startswith("eval/") else "training"][name] = value
        for scope, data in scopes.items():
            if data and self._logger is not None:
                try:
                    data = self._logger.prepare_dict_for_logging(data)
                    self._logger.write(f"{scope}/iteration", step, data)
                except Exception as error:
                    self._give_up(error)

    def close(self) -> None:
        """Closes the logger; closing twice does nothing more."""
        logger, self._logger = self._logger, None
        if logger is not None:
            try:
                logger.finalize()
            except Exception as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._logger = None
        _LOG.warning(
            "logger %s stopped working, the run goes on without it: %s: %s",
            self._name,
            type(error).__name__,
            error,
        )
