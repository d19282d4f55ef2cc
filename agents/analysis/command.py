"""The command line of an analysis, from flags to exit status."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import torch

from agents.analysis.output import Outcome, write_outcome
from agents.analysis.subject import AnalysisConfig, Subject, UnsuitableError, subjects_of
from agents.core.command import INTERRUPTED
from agents.core.config import command_errors
from agents.core.flags import parse_flags

ConfigT = TypeVar("ConfigT", bound=AnalysisConfig)
Say = Callable[[str], None]
"""Tells the user how far an analysis is: a line on stderr."""


def run_analysis(
    name: str,
    config_class: type[ConfigT],
    analyse: Callable[[ConfigT, list[Subject], Say], Outcome],
    *,
    about: str,
    argv: Sequence[str] | None = None,
) -> int:
    """Runs an analysis, writes ``NAME.json`` and ``NAME.png`` and prints a line.

    Args:
        name: What it is called.
        config_class: Its options.
        analyse: The analysis; raises UnsuitableError where the subject does not suit it.
        about: For ``--help``.
        argv: The command line; None: that of the process.

    Returns:
        The exit status.
    """
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with command_errors():
        flags = parse_flags(
            config_class,
            argv,
            shared=AnalysisConfig,
            shared_title="options of every analysis",
            description=about,
            epilog=f"Writes {name}.json and {name}.png into --output_dir. Without --model and "
            "--run the policy is the embedded one.",
        )
        config, subjects = subjects_of(config_class, flags)
        folder = Path(config.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        if config.threads:
            torch.set_num_threads(config.threads)
    started = time.perf_counter()
    try:
        outcome = analyse(config, subjects, _say)
        head = {
            "config": asdict(config),
            "subjects": [subject.about() for subject in subjects],
            "seconds": time.perf_counter() - started,
        }
        paths = write_outcome(folder, name, head, outcome)
    except KeyboardInterrupt:
        sys.stderr.write("stopped; nothing was written\n")
        return INTERRUPTED
    except (UnsuitableError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"{outcome.line}\nwrote {' and '.join(map(str, paths))}\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
