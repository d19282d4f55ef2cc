"""The picture of the analysis ``ranking``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agents.analysis.output import COLOURS, MARKERS, label, new_figure

_STYLES = ("-", "--", ":", "-.")


def draw(results: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws top-1 and pairwise accuracy, over training where there are several checkpoints.

    Args:
        results: One of each checkpoint, with ``label``, ``iteration`` and ``predictors``.
    """
    figure, axes = new_figure(1, 2, width=4.8, height=3.6)
    curves = len({result["iteration"] for result in results}) > 1
    for place, (key, title) in enumerate(
        (("top_1", "Best of the steps found"), ("pairwise", "Order of two steps"))
    ):
        (_over_training if curves else _compared)(axes[place], results, key, title)
    return figure


def _chance(result: Mapping[str, Any], key: str) -> float:
    return float(result["random_top_1"]) if key == "top_1" else 0.5


def _compared(axes: Axes, results: Sequence[Mapping[str, Any]], key: str, title: str) -> None:
    names = list(results[0]["predictors"])
    for place, result in enumerate(results):
        shift = 0.12 * (place - (len(results) - 1) / 2)
        found = [result["predictors"][name][key] for name in names if name in result["predictors"]]
        axes.errorbar(
            [row + shift for row in range(len(found))],
            [one["mean"] for one in found],
            yerr=[
                [one["mean"] - one["low"] for one in found],
                [one["high"] - one["mean"] for one in found],
            ],
            fmt=MARKERS[place % len(MARKERS)],
            color=COLOURS[place % len(COLOURS)],
            markersize=5,
            linewidth=1,
            label=result["label"] if len(results) > 1 else "accuracy, 95 % interval",
        )
        axes.axhline(
            _chance(result, key),
            color=COLOURS[place % len(COLOURS)],
            linewidth=1,
            linestyle="--",
            label="by chance" if place == 0 else None,
        )
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(0, 1.02)
    label(axes, title, "predictor", "accuracy", legend=False)
    axes.legend(fontsize=8, frameon=False, loc="lower right")


def _over_training(axes: Axes, results: Sequence[Mapping[str, Any]], key: str, title: str) -> None:
    labels = list(dict.fromkeys(result["label"] for result in results))
    names = list(dict.fromkeys(name for result in results for name in result["predictors"]))
    for style, subject in zip(_STYLES, labels, strict=False):
        mine = [result for result in results if result["label"] == subject]
        for place, name in enumerate(names):
            rows = [row for row in mine if name in row["predictors"]]
            axes.plot(
                [row["iteration"] for row in rows],
                [row["predictors"][name][key]["mean"] for row in rows],
                style,
                marker=MARKERS[place % len(MARKERS)],
                markersize=4,
                color=COLOURS[place % len(COLOURS)],
                label=name if len(labels) == 1 else f"{name}, {subject}",
            )
        axes.plot(
            [row["iteration"] for row in mine],
            [_chance(row, key) for row in mine],
            style,
            color="#606060",
            linewidth=1,
            label="by chance" if subject == labels[0] else None,
        )
    axes.set_ylim(0, 1.02)
    label(axes, title, "iteration", "accuracy")
