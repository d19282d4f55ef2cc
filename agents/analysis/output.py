"""Results of an analysis: a JSON file, a PNG and a line of text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from agents.core.disk import write_atomically
from agents.core.run_folder import plain_value

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C8C")
"""Okabe and Ito's palette without its yellow: told apart with every kind of colour vision."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""So that lines are told apart without colour, too."""
_DPI = 110


@dataclass(frozen=True)
class Outcome:
    """What an analysis found.

    Attributes:
        results: JSON values; numbers that are not finite are written as null.
        figure: What the PNG shows.
        line: One sentence with the main numbers.
    """

    results: Mapping[str, Any]
    figure: Figure
    line: str


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 4.6, height: float = 3.4
) -> tuple[Figure, list[Axes]]:
    """Returns a figure and its axes, row by row; nothing global is touched.

    Args:
        rows: Rows of axes.
        columns: Columns of axes.
        width: Of each axes, in inches; ``height`` likewise.
        height: See ``width``.
    """
    figure = Figure(figsize=(width * columns, height * rows), dpi=_DPI, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    return figure, [axes for row in grid for axes in row]


def label(axes: Axes, title: str, x: str, y: str, *, legend: bool = True) -> None:
    """Gives axes their texts, a light grid and, if asked and there is any, a legend."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(True, color="#E0E0E0", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, frameon=False)


def write_outcome(folder: Path, name: str, head: Mapping[str, Any], outcome: Outcome) -> list[Path]:
    """Writes ``NAME.json`` and ``NAME.png`` and returns their paths.

    Args:
        folder: Exists; files of the same names are replaced.
        name: The analysis.
        head: JSON values that come before the results.
        outcome: What was found.
    """
    document = plain_value({"analysis": name, **head, "results": outcome.results})
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    paths = [folder / f"{name}.json", folder / f"{name}.png"]
    write_atomically(paths[0], text)
    save_picture(outcome.figure, paths[1])
    return paths


def save_picture(figure: Figure, path: Path, *, colours: int = 64) -> None:
    """Writes a figure as PNG with a small palette: a third of the size of a plain one.

    Args:
        figure: What to draw.
        path: The file; replaced where it exists.
        colours: Of the palette, at most 256; figures with shaded areas need more.
    """
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(colours).save(path, optimize=True)
