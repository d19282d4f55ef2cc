"""The picture of the analysis ``values``: scatters, error by position, errors compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agents.analysis.output import COLOURS, MARKERS, label, new_figure

_STYLES = ("-", "--", ":", "-.")


def shown_predictors(names: Sequence[str]) -> list[str]:
    """Returns the four predictors that a picture has room for.

    >>> shown_predictors(["mc 1", "mc 9", "reuse 1", "reuse 9", "group mean", "leave one out"])
    ['mc 1', 'mc 9', 'reuse 1', 'leave one out']
    """
    rollouts = [name for name in names if name.startswith("mc ")]
    chosen = [*rollouts[:1], *rollouts[1:][-1:]]
    chosen += [name for name in names if name.startswith("reuse ")][:1]
    others = [name for name in ("critic", "leave one out") if name in names]
    return [*chosen[:3], "critic"] if "critic" in names else (chosen + others)[:4]


def draw(results: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws the results of every subject and checkpoint.

    Args:
        results: Each with ``label``, ``iteration``, ``predictors`` and ``points``. The scatters
            show the last one of the first label.
    """
    labels = list(dict.fromkeys(result["label"] for result in results))
    newest = {name: _of(results, name)[-1] for name in labels}
    first = newest[labels[0]]
    names = shown_predictors(list(first["predictors"]))
    figure, axes = new_figure(2, 3, width=4.0, height=3.4)
    for place, name in zip((0, 1, 3, 4), names, strict=False):
        _scatter(axes[place], first, name, COLOURS[names.index(name)])
    for place in (0, 1, 3, 4)[len(names) :]:
        axes[place].set_visible(False)
    _errors_by_position(axes[2], newest, names)
    if any(len(_of(results, name)) > 1 for name in labels):
        _over_training(axes[5], results, labels, names)
    else:
        _compared(axes[5], newest)
    return figure


def _of(results: Sequence[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    return [result for result in results if result["label"] == name]


def _scatter(axes: Axes, result: Mapping[str, Any], name: str, colour: str) -> None:
    truth, said = np.array(result["points"]["truth"]), np.array(result["points"][name])
    axes.plot([0, 1], [0, 1], color="#404040", linewidth=0.8)
    axes.plot(truth, said, "o", color=colour, markersize=3, alpha=0.35, markeredgewidth=0)
    found = result["predictors"][name]["all"]
    text = f"{name}: MSE {found['mse']['mean']:.3f}"
    if np.isfinite(found["within_correlation"]):
        text += f", r within {found['within_correlation']:.2f}"
    axes.set_xlim(-0.04, 1.04)
    label(axes, text, "true value", "predicted value", legend=False)


def _errors_by_position(
    axes: Axes, newest: Mapping[str, Mapping[str, Any]], names: Sequence[str]
) -> None:
    for style, (subject, result) in zip(_STYLES, newest.items(), strict=False):
        for place, name in enumerate(names):
            if name not in result["predictors"]:
                continue
            parts = [p for p in result["predictors"][name]["by_position"] if p["states"]]
            axes.plot(
                [(part["from"] + part["to"]) / 2 for part in parts],
                [part["mae"] for part in parts],
                style,
                marker=MARKERS[place],
                markersize=4,
                color=COLOURS[place],
                label=name if len(newest) == 1 else f"{name}, {subject}",
            )
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    label(axes, "Error by position", "steps before the state / all steps", "mean |error|")
    axes.legend(fontsize=6 if len(newest) > 1 else 7, frameon=False)


def _compared(axes: Axes, newest: Mapping[str, Mapping[str, Any]]) -> None:
    names = list(next(iter(newest.values()))["predictors"])
    for place, (subject, result) in enumerate(newest.items()):
        middle = 0.7 * (place - (len(newest) - 1) / 2) / len(newest)
        for part, colour, side in (("all", COLOURS[0], -1), ("unsettled", COLOURS[1], 1)):
            at, means, spans = [], [], []
            height = middle + side * 0.15 / len(newest)
            for row, name in enumerate(names):
                found = result["predictors"].get(name, {}).get(part, {}).get("mse")
                if found:
                    at.append(row + height)
                    means.append(found["mean"])
                    spans.append((found["mean"] - found["low"], found["high"] - found["mean"]))
            axes.errorbar(
                means,
                at,
                xerr=np.clip(np.array(spans).T, 0, None) if spans else None,
                fmt=MARKERS[place],
                color=colour,
                markersize=4,
                linewidth=1,
                label=f"{part} states" if len(newest) == 1 else f"{part}, {subject}",
            )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", nbins=5)
    label(axes, "Error with 95 % interval", "MSE without the truth's noise", "", legend=False)
    axes.legend(fontsize=8, frameon=False, loc="center right")


def _over_training(
    axes: Axes,
    results: Sequence[Mapping[str, Any]],
    labels: Sequence[str],
    names: Sequence[str],
) -> None:
    for style, subject in zip(_STYLES, labels, strict=False):
        for place, name in enumerate(names):
            rows = [row for row in _of(results, subject) if name in row["predictors"]]
            axes.plot(
                [row["iteration"] for row in rows],
                [row["predictors"][name]["all"]["mse"]["mean"] for row in rows],
                style,
                marker=MARKERS[place],
                markersize=4,
                color=COLOURS[place],
                label=name if len(labels) == 1 else f"{name}, {subject}",
            )
    axes.set_ylim(bottom=0)
    label(axes, "Error over training", "iteration", "MSE without the truth's noise", legend=False)
