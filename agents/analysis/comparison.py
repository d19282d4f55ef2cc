"""Statistics of a comparison: curves, smoothing, time to a peak, collapse, paired bootstrap.

Everything here is pure. A run that ended in collapse stays in every mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
AXES = ("iterations", "tokens", "seconds", "cpu_seconds")
"""What a curve can be drawn against; tokens hold value rollouts, seconds no evaluation."""

_EXACT = 50_000  # resamples up to which a bootstrap lists all of them


@dataclass(frozen=True)
class Curve:
    """One run's accuracy on held-out problems, and what had been spent at each evaluation.

    Attributes:
        accuracy: Accuracies, fractions, [E]; the first before training.
        spent: For each of ``AXES`` the amount at each evaluation, [E], rising from 0.
    """

    accuracy: tuple[float, ...]
    spent: Mapping[str, tuple[float, ...]]

    def at(self, axis: str, amount: float) -> float:
        """Returns the accuracy at an amount spent, linear between evaluations.

        >>> Curve((0.4, 0.8), {"tokens": (0.0, 100.0)}).at("tokens", 25.0)
        0.5
        """
        return float(np.interp(amount, self.spent[axis], self.accuracy))


@dataclass(frozen=True)
class Difference:
    """A mean of paired differences with its 95 % bootstrap interval.

    Attributes:
        mean: The mean difference.
        low: Lower end of the interval.
        high: Upper end of the interval.
        n: Pairs.
    """

    mean: float
    low: float
    high: float
    n: int


def smoothed(values: Sequence[float], window: int) -> list[float]:
    """Returns the mean of each value and the ones before it, ``window`` in all.

    It looks back only, so that a smoothed curve never reaches a height before the raw one could.

    Args:
        values: Numbers in order, [E].
        window: How many to average, >= 1; fewer at the start.

    Raises:
        ValueError: ``window`` is below 1.

    >>> smoothed([0.0, 1.0, 0.5, 0.5], 2)
    [0.0, 0.5, 0.75, 0.5]
    """
    if window < 1:
        raise ValueError(f"window must be >= 1, got {window} (1: no smoothing)")
    pieces = [values[max(0, end - window) : end] for end in range(1, len(values) + 1)]
    return [math.fsum(piece) / len(piece) for piece in pieces]


def first_reach(spent: Sequence[float], accuracy: Sequence[float], target: float) -> float | None:
    """Returns what had been spent when ``accuracy`` first reached ``target``, linear in between.

    Args:
        spent: The amount at each evaluation, [E], rising.
        accuracy: The (smoothed) accuracies, [E].
        target: The height.

    Returns:
        The amount, or None: never reached within the run (censored at its end).

    >>> first_reach([0, 10, 20], [0.2, 0.4, 0.8], 0.6)
    15.0
    >>> first_reach([0, 10, 20], [0.2, 0.4, 0.8], 0.9) is None
    True
    """
    for place, height in enumerate(accuracy):
        if height < target:
            continue
        if place == 0:
            return float(spent[0])
        below = accuracy[place - 1]
        part = (target - below) / (height - below)
        return float(spent[place - 1] + part * (spent[place] - spent[place - 1]))
    return None


def median_time(times: Sequence[float | None]) -> float | None:
    """Returns the median with None as "later than all": None where the middle one is censored.

    With an even number the later of the two in the middle counts.

    >>> median_time([3.0, None, 1.0]), median_time([None, 2.0, None]), median_time([1.0, None])
    (3.0, None, None)
    """
    if not times:
        raise ValueError("a median needs at least one time")
    ordered = sorted(times, key=lambda time: math.inf if time is None else time)
    return ordered[len(ordered) // 2]


def collapsed(accuracy: Sequence[float]) -> bool:
    """Returns whether a run fell apart: it ended below half of its start or half of its peak.

    >>> collapsed([0.5, 0.6, 0.2]), collapsed([0.5, 0.9, 0.4]), collapsed([0.5, 0.6, 0.5])
    (True, True, False)
    """
    return accuracy[-1] < max(accuracy) / 2


def paired_difference(
    ours: Sequence[float], theirs: Sequence[float], *, resamples: int = 20_000, seed: int = 0
) -> Difference:
    """Returns the mean of ``ours - theirs`` over seeds and its 95 % bootstrap interval.

    Pairs are drawn with replacement; the interval runs from the 2.5 to the 97.5 percentile. Up to
    six pairs all resamples are listed, so that nothing is random. With few seeds such an interval
    is too narrow: with three pairs it covers about three of four cases, not 95 %.

    Args:
        ours: One number a seed, [n].
        theirs: Of the same seeds in the same order, [n].
        resamples: How many to draw with more than six pairs.
        seed: Of those draws.

    Raises:
        ValueError: No pair, or lists of different length.

    >>> paired_difference([0.75, 1.0], [0.5, 0.5])
    Difference(mean=0.375, low=0.25, high=0.5, n=2)
    """
    if not ours or len(ours) != len(theirs):
        raise ValueError(
            f"paired differences need as many numbers on both sides, got {len(ours)} and "
            f"{len(theirs)}"
        )
    differences = np.subtract(ours, theirs)
    n = len(differences)
    if n**n <= _EXACT:
        rows = np.array(list(product(range(n), repeat=n)))
    else:
        rows = np.random.default_rng(seed).integers(n, size=(resamples, n))
    means = differences[rows].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5], method="inverted_cdf")
    return Difference(float(differences.mean()), float(low), float(high), n)


@dataclass(frozen=True)
class Band:
    """Curves of several seeds on one axis.

    Attributes:
        x: The amounts, [P].
        mean: Mean accuracy over seeds, [P]; ``low`` and ``high`` likewise the extremes.
        low: See ``mean``.
        high: See ``mean``.
    """

    x: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


def band(curves: Sequence[Curve], axis: str, *, points: int = 100) -> Band:
    """Returns mean and extremes over seeds, up to where the first of the runs ends.

    Beyond that a mean would be one over the runs that are left.

    Args:
        curves: One a seed.
        axis: One of ``AXES``.
        points: Places at which the curves are read off.
    """
    x = np.linspace(0.0, min(curve.spent[axis][-1] for curve in curves), points)
    rows = np.array([np.interp(x, curve.spent[axis], curve.accuracy) for curve in curves])
    return Band(x, rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0))


def shared_end(curves: Sequence[Curve], axis: str) -> float:
    """Returns the amount that every run has spent: the smallest end of all.

    >>> shared_end([Curve((0, 1), {"tokens": (0, 9)}), Curve((0, 1), {"tokens": (0, 7)})], "tokens")
    7
    """
    return min(curve.spent[axis][-1] for curve in curves)


def times_to_peak(
    ours: Sequence[Curve], theirs: Sequence[Curve], axis: str, window: int
) -> list[float | None]:
    """Returns for each seed when our smoothed curve reached the peak of theirs of that seed.

    Args:
        ours: One curve a seed.
        theirs: Of the same seeds in the same order.
        axis: One of ``AXES``.
        window: Evaluations averaged, see ``smoothed``.
    """
    return [
        first_reach(
            our.spent[axis], smoothed(our.accuracy, window), max(smoothed(their.accuracy, window))
        )
        for our, their in zip(ours, theirs, strict=True)
    ]


def best_setting(scores: Mapping[str, Sequence[float]], window: int) -> str:
    """Returns the setting of a search whose last ``window`` evaluations were best on average.

    The start is not averaged in. Among equals the first wins.

    Args:
        scores: For each setting the accuracies of its run, the first before training.
        window: Evaluations averaged.

    >>> best_setting({"1e-4": [0.5, 0.6, 0.7], "1e-3": [0.5, 0.9, 0.3]}, 2)
    '1e-4'
    """
    return max(scores, key=lambda setting: smoothed(scores[setting][1:], window)[-1])
