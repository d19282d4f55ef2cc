"""Curves over training: one colour a run, one shade a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes

from agents.analysis.output import COLOURS, MARKERS


def shade(number: int, count: int) -> tuple[float, float, float, float]:
    """Returns the colour of checkpoint ``number`` of ``count``: light to dark, of any vision.

    >>> shade(0, 3) != shade(2, 3), shade(0, 1) == shade(2, 3)
    (True, True)
    """
    place = 1.0 if count < 2 else number / (count - 1)
    red, green, blue, alpha = colormaps["viridis"](0.88 * (1.0 - place))
    return float(red), float(green), float(blue), float(alpha)


def run_name(subject: dict[str, Any], subjects: Sequence[dict[str, Any]]) -> str:
    """Returns a subject's name, with its split where several are compared.

    >>> run_name({"name": "a", "split": "test"}, [{"split": "test"}, {"split": "train"}])
    'a, test'
    """
    several = len({other["split"] for other in subjects}) > 1
    return f"{subject['name']}, {subject['split']}" if several else str(subject["name"])


def plot_runs(
    ax: Axes,
    subjects: Sequence[dict[str, Any]],
    x: Callable[[dict[str, Any]], float],
    y: Callable[[dict[str, Any]], float],
    *,
    line: str = "-",
    legend: bool = True,
) -> None:
    """Draws a curve through the checkpoints of each subject, its own colour and marker.

    Args:
        ax: Where.
        subjects: Each with "name", "split" and "checkpoints".
        x: Of a checkpoint; ``y`` likewise.
        y: See ``x``.
        line: Matplotlib's line style.
        legend: Whether the curves have labels.
    """
    for number, subject in enumerate(subjects):
        rows = subject["checkpoints"]
        ax.plot(
            [x(row) for row in rows],
            [y(row) for row in rows],
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            linestyle=line,
            label=run_name(subject, subjects) if legend else None,
        )
