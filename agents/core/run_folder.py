"""A run's folder: ``config.yaml``, ``metrics.jsonl``, ``samples.jsonl``, summary, logger."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from agents.core.config import save_yaml
from agents.core.disk import write_atomically
from agents.core.loggers import GuardedLogger
from agents.core.options import Options

_SIGNS_OF_A_RUN = ("config.yaml", "metrics.jsonl", "checkpoints", "summary.json")


def prepare_run_folder(config: Options, agent: str, *, root: str = "runs") -> Path:
    """Makes and returns the folder of a new run: ``output_dir``, or a new one under ``root``.

    Call it before anything costly: it finds out whether the folder can be written.

    Args:
        config: The run's configuration; ``output_dir``, ``env`` and ``seed`` are read.
        agent: The algorithm's name, for the folder's name.
        root: Where folders without ``output_dir`` go, relative to the working directory.

    Raises:
        ValueError: The folder already holds a run.
        OSError: The folder cannot be made or written.
    """
    output_dir = getattr(config, "output_dir", None)
    folder = Path(output_dir) if output_dir else _new_name(config, agent, Path(root))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = [name for name in _SIGNS_OF_A_RUN if (folder / name).exists()]
        probe = folder / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(
            f"cannot write the run folder {folder}: {error.strerror or error}. "
            "Pass another --output_dir."
        ) from error
    if held:
        raise ValueError(
            f"{folder} already holds a run ({', '.join(held)}). Pass another --output_dir, "
            "or move that folder away."
        )
    return folder


def remove_empty(folder: Path) -> None:
    """Removes a run's folder in which nothing was written."""
    with suppress(OSError):
        folder.rmdir()


def _new_name(config: Options, agent: str, root: Path) -> Path:
    env = re.sub(r"[^\w.-]+", "-", str(getattr(config, "env", ""))).strip("-.") or "env"
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    first = root / f"{agent}-{env}-s{getattr(config, 'seed', 0)}-{moment}"
    folder, count = first, 1
    while folder.exists():
        count += 1
        folder = first.with_name(f"{first.name}-{count}")
    return folder


def cut_back(folder: Path, iteration: int) -> None:
    """Takes back what a run wrote after an iteration: it is going to be written again.

    Lines of ``metrics.jsonl`` and ``samples.jsonl`` that a crash left half written go too.

    Args:
        folder: The run's folder.
        iteration: The last one that stays; 0: none does.

    Raises:
        OSError: The files cannot be written.
    """
    for name in ("metrics.jsonl", "samples.jsonl"):
        path = folder / name
        if not path.exists():
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        kept = "".join(line for line in lines if 1 <= _iteration_of(line) <= iteration)
        if kept != "".join(lines):
            write_atomically(path, kept)


def _iteration_of(line: str) -> int:
    """Returns the iteration of a line that is whole, else 0."""
    try:
        number = json.loads(line).get("iteration", 0) if line.endswith("\n") else 0
    except (json.JSONDecodeError, AttributeError):
        return 0
    return number if isinstance(number, int) else 0


def finished(folder: Path) -> bool:
    """Returns whether a run has come to its planned end."""
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError):
        return False
    return isinstance(summary, dict) and summary.get("interrupted") is False


class RunFiles:
    """The open files of one run; every line is flushed as soon as it is written.

    A folder that was cut back to a checkpoint is appended to.
    """

    def __init__(self, folder: Path, config: Options) -> None:
        """Writes ``config.yaml`` and opens the other files; raises OSError."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        save_yaml(config, folder / "config.yaml")
        self._metrics = (folder / "metrics.jsonl").open("a", encoding="utf-8")
        self._samples = (folder / "samples.jsonl").open("a", encoding="utf-8")
        name = getattr(config, "logger", "none")
        self._logger = GuardedLogger(name, folder, config)

    def metrics(self, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Appends one line to ``metrics.jsonl``, and gives the same numbers to the logger."""
        _write_line(self._metrics, {"iteration": iteration} | dict(metrics))
        self.scalars(iteration, metrics)

    def sample(self, iteration: int, sample: Mapping[str, Any]) -> None:
        """Appends one line to ``samples.jsonl``."""
        _write_line(self._samples, {"iteration": iteration} | dict(sample))

    def scalars(self, iteration: int, values: Mapping[str, Any]) -> None:
        """Gives finite numbers to the logger."""
        plain = {name: plain_value(value) for name, value in values.items()}
        numbers = {name: value for name, value in plain.items() if isinstance(value, int | float)}
        self._logger.write(iteration, numbers)

    def summary(self, summary: Mapping[str, Any]) -> None:
        """Writes ``summary.json``: complete or not at all."""
        text = json.dumps(plain_value(summary), indent=2, allow_nan=False) + "\n"
        write_atomically(self.folder / "summary.json", text)

    def close(self) -> None:
        """Closes all files; closing twice does nothing more."""
        self._metrics.close()
        self._samples.close()
        self._logger.close()


class NoFiles:
    """What another process than the first one writes: nothing."""

    def metrics(self, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Does nothing."""

    def sample(self, iteration: int, sample: Mapping[str, Any]) -> None:
        """Does nothing."""

    def scalars(self, iteration: int, values: Mapping[str, Any]) -> None:
        """Does nothing."""

    def summary(self, summary: Mapping[str, Any]) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


def plain_value(value: Any) -> Any:
    """Returns ``value`` as strict JSON can hold it: NaN and infinities become None.

    >>> plain_value({"kl": float("nan"), "sizes": (1, 2.5)})
    {'kl': None, 'sizes': [1, 2.5]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "item"):  # a scalar of NumPy or PyTorch
        return plain_value(value.item())
    return str(value)


def _write_line(file: TextIO, record: Mapping[str, Any]) -> None:
    file.write(json.dumps(plain_value(record), allow_nan=False) + "\n")
    file.flush()
    os.fsync(file.fileno())
