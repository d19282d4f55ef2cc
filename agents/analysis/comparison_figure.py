"""The figure of a comparison: accuracy against what was spent, small multiples with bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agents.analysis.comparison import band
from agents.analysis.comparison_tables import VariantResult
from agents.analysis.output import COLOURS, label, new_figure

_STYLES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
_PANELS = {
    "iterations": ("iterations", 1.0),
    "tokens": ("generated tokens, thousands (value rollouts too)", 1000.0),
    "seconds": ("training seconds (wall-clock, no evaluation)", 1.0),
    "cpu_seconds": ("training CPU seconds", 1.0),
}


def draw_comparison(results: Sequence[VariantResult], title: str) -> Figure:
    """Returns the figure: a panel for each of iterations, tokens, seconds, CPU seconds.

    Lines are means over seeds, bands their extremes; a curve ends where the variant's first run
    ends.

    Args:
        results: At least one variant.
        title: Above the figure.
    """
    figure, panels = new_figure(2, 2, width=4.0, height=2.9)
    for axes, (axis, (name, unit)) in zip(panels, _PANELS.items(), strict=True):
        _draw_panel(axes, results, axis, unit)
        label(axes, "", name, "held-out accuracy, %", legend=False)
    low = min(axes.get_ylim()[0] for axes in panels)
    high = max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        axes.set_ylim(low, high)
    figure.suptitle(title, fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    columns = 4 if sum(map(len, labels)) < 80 else 2
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9
    )
    return figure


def _draw_panel(axes: Axes, results: Sequence[VariantResult], axis: str, unit: float) -> None:
    for place, result in enumerate(results):
        curve = band(result.curves, axis)
        colour, style = COLOURS[place % len(COLOURS)], _STYLES[place % len(_STYLES)]
        x = curve.x / unit
        axes.fill_between(x, 100 * curve.low, 100 * curve.high, color=colour, alpha=0.13, lw=0)
        axes.plot(x, 100 * curve.mean, color=colour, ls=style, lw=1.8, label=result.label)
    axes.set_xlim(left=0)
