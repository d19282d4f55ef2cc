"""What a comparison leaves: compare.json, compare.md and compare.png."""

from __future__ import annotations

import json
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

from agents.analysis.comparison import AXES, collapsed, times_to_peak
from agents.analysis.comparison_figure import draw_comparison
from agents.analysis.comparison_tables import (
    Table,
    VariantResult,
    accuracy_table,
    cost_table,
    differences,
    differences_table,
    peak_tables,
    search_table,
)
from agents.analysis.output import save_picture
from agents.analysis.variants import Run
from agents.core.disk import write_atomically
from agents.core.run_folder import plain_value


def write_comparison(
    folder: Path,
    results: Sequence[VariantResult],
    runs: Mapping[str, Sequence[Run]],
    scores: dict[str, dict[str, dict[str, float]]],
    *,
    command: str,
    window: int,
    search_seed: int,
    failed: Sequence[Run],
) -> list[Table]:
    """Writes the three files and returns the tables.

    Args:
        folder: Where they go.
        results: The variants that finished on every seed.
        runs: Their runs by label.
        scores: The search: variant, option, value: accuracy at the end.
        command: What the user typed.
        window: Evaluations averaged before a peak is looked for.
        search_seed: The seed of the search.
        failed: Runs that ended without a result.
    """
    tables = [accuracy_table(results), cost_table(results)]
    if len(results) > 1:
        tables += [differences_table(results), *peak_tables(results, window)]
    if scores:
        tables.append(search_table(scores, search_seed))
    first = next(iter(runs.values()))
    seeds = [run.config.seed for run in first]
    about = f"{first[0].config.env}, {len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"
    record: dict[str, Any] = {
        "command": command,
        "machine": machine(),
        "seeds": seeds,
        "search": {"seed": search_seed, "scores": scores},
        "variants": {o.label: _record(o, runs[o.label]) for o in results},
        "differences": {
            f"{one.label} - {other.label}": {
                axis: asdict(value) for axis, value in differences(one, other).items()
            }
            for one, other in combinations(results, 2)
        },
        "time_to_peak": {
            f"{one.label} to the peak of {other.label}": {
                axis: times_to_peak(one.curves, other.curves, axis, window) for axis in AXES
            }
            for one, other in permutations(results, 2)
        },
        "failed": [shlex.join(run.command) for run in failed],
    }
    text = json.dumps(plain_value(record), indent=1, allow_nan=False)
    write_atomically(folder / "compare.json", text + "\n")
    commands = "\n".join(shlex.join(runs[o.label][0].command) for o in results)
    parts = [
        f"# {about}\n",
        f"```\n{command}\n```\n",
        f"{machine()}\n",
        *(table.markdown() for table in tables),
        f"![accuracy](compare.png)\n\n### The first run of each\n\n```\n{commands}\n```\n",
    ]
    write_atomically(folder / "compare.md", "\n".join(parts))
    save_picture(draw_comparison(results, about), folder / "compare.png", colours=128)
    return tables


def machine() -> str:
    """Returns a line about the machine and the versions that matter."""
    import torch

    return (
        f"{platform.machine()}, {os.cpu_count()} CPUs, one thread a run, "
        f"Python {platform.python_version()}, PyTorch {torch.__version__}"
    )


def _record(result: VariantResult, runs: Sequence[Run]) -> dict[str, Any]:
    return {
        "agent": runs[0].agent,
        "searched": result.chosen,
        "commands": [shlex.join(run.command) for run in runs],
        "accuracy": result.final,
        "collapsed": [collapsed(curve.accuracy) for curve in result.curves],
        "cpu_seconds_by_phase": [run.cpu_seconds for run in result.runs],
        "curves": [
            {"accuracy": curve.accuracy, **{axis: curve.spent[axis] for axis in AXES}}
            for curve in result.curves
        ],
    }
