"""The numbers of the analysis ``values``, from samples and predictions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.analysis.errors import (
    FloatArray,
    IntArray,
    Truth,
    between_share,
    explained_variance,
    interval,
    mean_absolute_error,
    mean_bias,
    mean_squared_error,
    position_bins,
    within_ceiling,
    within_correlation,
)
from agents.analysis.predictors import Prediction
from agents.analysis.states import States

MIDDLE = (0.05, 0.95)
"""Values between these are not settled yet."""


def report(
    states: States,
    samples: FloatArray,
    predicted: Mapping[str, Prediction],
    *,
    positions: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Returns the errors of each predictor: at all states, at unsettled ones, and by position.

    Which states are unsettled is decided by one half of the rollouts, and the errors there are
    measured against the other half: picked and measured by the same noise, they would be biased.

    Args:
        states: S states.
        samples: Rewards of the rollouts that make the truth, [S, N], N >= 4.
        predicted: By name.
        positions: Into how many parts of an answer the errors are split.
        rng: Of the bootstrap intervals.
    """
    truth, half = Truth.of(samples), samples.shape[1] // 2
    picked = samples[:, :half].mean(1)
    middle = (picked > MIDDLE[0]) & (picked < MIDDLE[1])
    rest = Truth.of(samples[:, half:])
    bins = position_bins(states.relative, positions)
    return {
        "states": len(states.starts),
        "unsettled_states": int(middle.sum()),
        "problems": len(states.groups),
        "accuracy": float(np.mean([t.reward for group in states.groups for t in group])),
        "truth": {
            "rollouts": truth.n,
            "mean": float(truth.mean.mean()),
            "noise_variance": float(truth.noise.mean()),
            "share_of_variance_between_problems": between_share(truth, states.problem),
            "within_ceiling": within_ceiling(truth, states.problem),
        },
        "predictors": {
            name: {
                "tokens_per_state": prediction.tokens_per_state,
                "all": measures(prediction, truth, states.problem, rng),
                "unsettled": measures(prediction, rest, states.problem, rng, middle),
                "by_position": by_position(prediction.values, truth, bins, positions),
            }
            for name, prediction in predicted.items()
        },
        "points": {
            "problem": states.problem.tolist(),
            "relative": states.relative.round(4).tolist(),
            "truth": truth.mean.round(5).tolist(),
            **{name: found.values.round(5).tolist() for name, found in predicted.items()},
        },
    }


def measures(
    prediction: Prediction,
    truth: Truth,
    groups: IntArray,
    rng: np.random.Generator,
    chosen: NDArray[np.bool_] | None = None,
) -> dict[str, Any]:
    """Returns the errors of one predictor, with 95 % intervals over problems.

    Args:
        prediction: Of S states.
        truth: Of the same states.
        groups: Problem of each state, [S].
        rng: Of the bootstrap.
        chosen: Which states to look at, [S]; None: all.
    """
    rows = np.arange(len(groups)) if chosen is None else np.flatnonzero(chosen)
    if not len(rows):
        return {"states": 0}
    values, truth, groups = prediction.values[rows], truth.at(rows), groups[rows]

    def with_interval(statistic: Any) -> dict[str, float]:
        low, high = interval(lambda at: statistic(values[at], truth.at(at)), groups, rng)
        return {"mean": statistic(values, truth), "low": low, "high": high}

    return {
        "states": len(rows),
        "mae": mean_absolute_error(values, truth),
        "mse": with_interval(mean_squared_error),
        "bias": with_interval(mean_bias),
        "explained_variance": explained_variance(values, truth),
        "within_correlation": within_correlation(values, truth, groups),
        "within_ceiling": within_ceiling(truth, groups, prediction.rollouts),
    }


def by_position(
    values: FloatArray, truth: Truth, bins: IntArray, positions: int
) -> list[dict[str, Any]]:
    """Returns the errors in each part of the answers, first part first."""
    found = []
    for part in range(positions):
        rows = np.flatnonzero(bins == part)
        entry: dict[str, Any] = {
            "from": part / positions,
            "to": (part + 1) / positions,
            "states": len(rows),
        }
        if len(rows):
            entry["mae"] = mean_absolute_error(values[rows], truth.at(rows))
            entry["mse"] = mean_squared_error(values[rows], truth.at(rows))
        found.append(entry)
    return found
