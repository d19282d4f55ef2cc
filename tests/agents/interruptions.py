"""The runs of ``benchmarks/stopped_runs.py`` under a short name."""

from benchmarks.stopped_runs import (
    AGENTS,
    EXTRA,
    SETTINGS,
    SFT,
    Moments,
    command,
    left_by,
    resume,
    run,
    same,
)

__all__ = [
    "AGENTS", "EXTRA", "SETTINGS", "SFT", "Moments", "command", "left_by", "resume", "run", "same",
]  # fmt: skip
