"""Runs of ordinary commands as subprocesses: some at a time, finished ones kept, a clean stop."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.analysis.variants import Run, options_of
from agents.core.config_files import load_yaml
from agents.core.interrupt import Interrupt

_POLL = 0.2  # seconds
_PATIENCE = 60.0  # seconds that a run has to end after Ctrl-C


@dataclass
class Job:
    """One run that is under way.

    Attributes:
        run: What runs.
        process: Its process, in a process group of its own.
        started: ``time.monotonic()`` at the start.
    """

    run: Run
    process: subprocess.Popen[bytes]
    started: float = field(default_factory=time.monotonic)

    @property
    def iterations(self) -> int:
        """Iterations that the run has written down so far."""
        with suppress(OSError):
            return (self.run.folder / "metrics.jsonl").read_bytes().count(b"\n")
        return 0


@dataclass(frozen=True)
class Progress:
    """Where a batch of runs stands.

    Attributes:
        done: Runs finished, those found finished included.
        total: Runs of the batch.
        running: What is under way.
        ended: The run that has just ended and whether it finished, or None.
    """

    done: int
    total: int
    running: tuple[Job, ...]
    ended: tuple[Run, bool] | None = None


def summary_of(run: Run) -> dict[str, Any] | None:
    """Returns a run's summary, or None where it has not run to the end with just these options."""
    try:
        summary = json.loads((run.folder / "summary.json").read_text(encoding="utf-8"))
        cls = type(run.config)
        held = cls(**load_yaml(cls, str(run.folder / "config.yaml")))
    except (OSError, ValueError):
        return None
    same = options_of(held) == options_of(run.config)
    done = isinstance(summary, dict) and summary.get("iterations") == run.config.iterations
    return summary if same and done else None


def run_all(
    runs: Sequence[Run],
    *,
    jobs: int,
    logs: Path,
    interrupt: Interrupt,
    show: Callable[[Progress], None],
) -> list[Run]:
    """Runs what is not finished yet and returns the runs that failed.

    A run that was begun and not finished is started over. Ctrl-C ends the running ones as it would
    end them alone, and starts no more.

    Args:
        runs: In the order in which to start them.
        jobs: How many at a time.
        logs: Folder for what each run prints.
        interrupt: Knows of Ctrl-C.
        show: Called often with the state of things.
    """
    waiting = [run for run in runs if summary_of(run) is None]
    done, failed = len(runs) - len(waiting), []
    running: list[Job] = []
    logs.mkdir(parents=True, exist_ok=True)
    try:
        while (waiting or running) and not interrupt.requested():
            while waiting and len(running) < jobs:
                running.append(_start(waiting.pop(0), logs))
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                finished = summary_of(job.run) is not None
                done += finished
                if not finished and not interrupt.requested():
                    failed.append(job.run)
                show(Progress(done, len(runs), tuple(running), (job.run, finished)))
            show(Progress(done, len(runs), tuple(running)))
            if running:
                time.sleep(_POLL)
    finally:
        _stop(running)
    return failed


def log_of(run: Run, logs: Path) -> Path:
    """Returns the file with what a run printed."""
    return logs / f"{run.folder.name}.log"


def _start(run: Run, logs: Path) -> Job:
    if run.folder.exists():
        shutil.rmtree(run.folder)  # a half run
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with log_of(run, logs).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *run.command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches it through us, once
        )
    return Job(run, process)


def _stop(running: Sequence[Job]) -> None:
    """Asks each running process to end, then ends it."""
    for job in running:
        if job.process.poll() is None:
            job.process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + _PATIENCE
    for job in running:
        try:
            job.process.wait(max(0.0, deadline - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            job.process.kill()
            job.process.wait()
