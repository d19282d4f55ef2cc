"""A finished run's folder as a learning curve and what each phase took."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from agents.analysis.comparison import Curve


@dataclass(frozen=True)
class FinishedRun:
    """What a comparison keeps of a run.

    Attributes:
        curve: Accuracy against what had been spent.
        cpu_seconds: CPU seconds of the whole run by phase.
    """

    curve: Curve
    cpu_seconds: Mapping[str, float]


def read_run(folder: Path, summary: Mapping[str, Any]) -> FinishedRun:
    """Returns what a comparison keeps of a run; see ``read_curve``."""
    phases = {str(name): float(seconds) for name, seconds in summary["cpu_seconds"].items()}
    return FinishedRun(read_curve(folder, summary), phases)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Returns the lines of a run's ``metrics.jsonl``.

    Raises:
        ValueError: A line is no JSON object; says which.
    """
    path, rows = folder / "metrics.jsonl", []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        row = json.loads(line) if line.startswith("{") else None
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number}: no JSON object; run it again")
        rows.append(row)
    return rows


def read_curve(folder: Path, summary: Mapping[str, Any]) -> Curve:
    """Returns accuracy at the last kind of decoding against what training had spent.

    Seconds are those of collecting, values and updates; evaluation, start-up and saving are left
    out.

    Args:
        folder: The run's folder.
        summary: Its ``summary.json``.

    Raises:
        ValueError: The run was not evaluated before and after training.
    """
    accuracy = summary.get("accuracy", {})
    if not accuracy.get("before") or not accuracy.get("after"):
        raise ValueError(f"{folder} has no accuracy before and after; set eval_problems above 0")
    label = list(accuracy["after"])[-1]
    rows = read_metrics(folder)
    totals = {
        "iterations": [float(row["iteration"]) for row in rows],
        "tokens": [float(row["num_tokens"]) for row in rows],
        "seconds": list(accumulate(float(row["step_time"]) for row in rows)),
        "cpu_seconds": list(accumulate(float(row["step_cpu_seconds"]) for row in rows)),
    }
    seen = [
        (place, float(row[f"eval/{label}"]))
        for place, row in enumerate(rows)
        if f"eval/{label}" in row
    ]
    seen.append((len(rows) - 1, float(accuracy["after"][label]["mean"])))
    return Curve(
        (float(accuracy["before"][label]["mean"]), *(height for _, height in seen)),
        {axis: (0.0, *(amounts[place] for place, _ in seen)) for axis, amounts in totals.items()},
    )
