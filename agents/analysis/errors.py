"""How far predicted values are from true ones that are themselves means of samples. Pure.

The truth of a state is the mean m of N rollouts, so that E[m] = V and Var(m) = s^2 / N. What is
squared below has that variance taken out again: it estimates the error against V, not against m.

Legend: S states, N rollouts of the truth; ``groups`` [S] says which problem a state belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Truth:
    """True values as rollouts give them.

    Attributes:
        mean: Mean reward, float64, [S].
        variance: Unbiased variance of one rollout's reward, float64, [S].
        n: Rollouts a state.
    """

    mean: FloatArray
    variance: FloatArray
    n: int

    @staticmethod
    def of(samples: FloatArray) -> Truth:
        """Returns the truth that rewards [S, N] give, N >= 2.

        >>> truth = Truth.of(np.array([[0.0, 1.0, 1.0, 0.0]]))
        >>> truth.mean.tolist(), truth.noise.round(4).tolist()
        ([0.5], [0.0833])
        """
        n = samples.shape[1]
        if n < 2:
            raise ValueError(f"the truth needs >= 2 rollouts a state, got {n} (paper: 256)")
        return Truth(samples.mean(1), samples.var(1, ddof=1), n)

    @property
    def noise(self) -> FloatArray:
        """Variance of each mean, [S]."""
        return self.variance / self.n

    def at(self, rows: IntArray | NDArray[np.bool_]) -> Truth:
        """Returns the truth of some of the states."""
        return Truth(self.mean[rows], self.variance[rows], self.n)


def mean_squared_error(predicted: FloatArray, truth: Truth) -> float:
    """Returns the mean of (p - V)^2, without the truth's noise; it may come out below 0.

    >>> truth = Truth(np.array([0.5, 1.0]), np.array([0.24, 0.0]), 4)
    >>> round(mean_squared_error(np.array([0.7, 1.0]), truth), 4)  # (0.04 - 0.06 + 0) / 2
    -0.01
    """
    return float(np.mean((predicted - truth.mean) ** 2 - truth.noise))


def mean_absolute_error(predicted: FloatArray, truth: Truth) -> float:
    """Returns the mean of |p - m|; the truth's noise stays in it.

    >>> mean_absolute_error(np.array([0.5, 1.0]), Truth(np.array([0.25, 1.0]), np.zeros(2), 9))
    0.125
    """
    return float(np.mean(np.abs(predicted - truth.mean)))


def mean_bias(predicted: FloatArray, truth: Truth) -> float:
    """Returns the mean of p - V: above 0 where values are overestimated.

    >>> mean_bias(np.array([0.5, 1.0]), Truth(np.array([0.25, 1.0]), np.zeros(2), 9))
    0.125
    """
    return float(np.mean(predicted - truth.mean))


def explained_variance(predicted: FloatArray, truth: Truth) -> float:
    """Returns 1 - Var(V - p) / Var(V), without the truth's noise; NaN if V does not vary.

    1: right up to a constant; 0: no better than a constant; below: worse.

    >>> truth = Truth(np.array([0.0, 0.5, 1.0]), np.zeros(3), 9)
    >>> explained_variance(np.array([0.1, 0.6, 1.1]), truth)
    1.0
    >>> explained_variance(np.array([0.5, 0.5, 0.5]), truth)
    0.0
    """
    if len(predicted) < 2:
        return math.nan
    noise = float(truth.noise.mean())
    whole = float(truth.mean.var(ddof=1)) - noise
    left = float((truth.mean - predicted).var(ddof=1)) - noise
    return 1.0 - left / whole if whole > 1e-12 else math.nan


def centred(values: FloatArray, groups: IntArray) -> FloatArray:
    """Returns values minus the mean of their group, [S].

    >>> centred(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 7])).tolist()
    [-1.0, 1.0, 0.0]
    """
    _, place = np.unique(groups, return_inverse=True)
    means = np.bincount(place, values) / np.bincount(place)
    return np.asarray(values - means[place])


def within_correlation(predicted: FloatArray, truth: Truth, groups: IntArray) -> float:
    """Returns the correlation of p and m inside problems, over all problems together.

    Differences between problems count for nothing: a predictor that knows only how hard a problem
    is gets NaN.

    >>> truth = Truth(np.array([0.1, 0.3, 0.9, 0.7]), np.zeros(4), 9)
    >>> groups = np.array([0, 0, 1, 1])
    >>> round(within_correlation(np.array([0.0, 0.5, 0.5, 0.0]), truth, groups), 6)
    1.0
    """
    x, y = centred(predicted, groups), centred(truth.mean, groups)
    size = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / size if size > 1e-12 else math.nan


def within_ceiling(truth: Truth, groups: IntArray, rollouts: int | None = None) -> float:
    """Returns the ``within_correlation`` that noise leaves to values that are right on average.

    Args:
        truth: Its noise lowers every correlation.
        groups: Problem of each state, [S].
        rollouts: Independent rollouts a state behind the prediction, whose noise counts too; None:
            a prediction without noise.

    >>> truth = Truth(np.array([0.0, 1.0]), np.array([0.25, 0.25]), 1)
    >>> round(within_ceiling(truth, np.array([0, 0])) ** 2, 6)  # (0.5 - 0.25) / 0.5
    0.5
    """
    _, place, counts = np.unique(groups, return_inverse=True, return_counts=True)
    share = 1.0 - 1.0 / counts[place]  # what centring leaves of independent noise
    total = float(np.sum(centred(truth.mean, groups) ** 2))
    signal = max(0.0, total - float(truth.noise @ share))
    noise = 0.0 if rollouts is None else float(truth.variance @ share) / rollouts
    size = math.sqrt((signal + noise) * total)
    return signal / size if size > 1e-12 else math.nan


def between_share(truth: Truth, groups: IntArray) -> float:
    """Returns which share of the variance of V lies between problems, without the noise.

    >>> truth = Truth(np.array([0.0, 0.0, 1.0, 1.0]), np.zeros(4), 9)
    >>> between_share(truth, np.array([0, 0, 1, 1]))
    1.0
    """
    _, place, counts = np.unique(groups, return_inverse=True, return_counts=True)
    inside = float(np.sum(centred(truth.mean, groups) ** 2))
    inside -= float(truth.noise @ (1.0 - 1.0 / counts[place]))
    total = float(np.sum((truth.mean - truth.mean.mean()) ** 2))
    total -= float(truth.noise.sum()) * (1.0 - 1.0 / len(groups))
    return 1.0 - max(0.0, inside) / total if total > 1e-12 else math.nan


def position_bins(relative: FloatArray, bins: int) -> IntArray:
    """Returns the bin of each relative position in [0, 1), [S].

    >>> position_bins(np.array([0.0, 0.49, 0.5, 0.99]), 2).tolist()
    [0, 0, 1, 1]
    """
    return np.minimum((relative * bins).astype(np.int64), bins - 1)


def interval(
    statistic: Callable[[IntArray], float],
    groups: IntArray,
    rng: np.random.Generator,
    *,
    draws: int = 200,
) -> tuple[float, float]:
    """Returns the 95 % bootstrap interval of a statistic, problems being drawn, not states.

    Args:
        statistic: Of some of the rows, with repetition.
        groups: Problem of each row, [S].
        rng: Draws the problems.
        draws: How many times.
    """
    rows = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    found = []
    for _ in range(draws):
        chosen = rng.integers(len(rows), size=len(rows))
        found.append(statistic(np.concatenate([rows[place] for place in chosen])))
    kept = np.asarray(found)[np.isfinite(found)]
    if not len(kept):
        return math.nan, math.nan
    low, high = np.quantile(kept, [0.025, 0.975])
    return float(low), float(high)
