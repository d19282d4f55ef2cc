"""How well predictions order alternatives whose true values are means of samples. Pure.

Two alternatives whose true values differ by no more than noise are a true tie: no order of them is
right or wrong. A predicted tie is half right; the paper's code counts it as wrong.

Legend: A alternatives of a state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.analysis.errors import FloatArray

_Z = 2.0  # a difference counts from so many standard errors on
BoolArray = NDArray[np.bool_]


def clearly_above(mean: FloatArray, noise: FloatArray) -> BoolArray:
    """Returns whether alternative i is truly better than j, [A, A].

    Args:
        mean: True values as measured, [A].
        noise: Variance of each mean, [A]; 0 where the value is exact.

    >>> clearly_above(np.array([0.5, 0.4, 0.0]), np.array([0.01, 0.01, 0.0])).astype(int).tolist()
    [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
    """
    difference = mean[:, None] - mean[None, :]
    spread = np.sqrt(noise[:, None] + noise[None, :])
    return np.asarray((difference > _Z * spread) & (difference > 1e-9))


def best_of(above: BoolArray, mean: FloatArray) -> BoolArray:
    """Returns which alternatives are not clearly below the one with the highest mean, [A].

    >>> mean = np.array([0.5, 0.4, 0.0])
    >>> best_of(clearly_above(mean, np.array([0.01, 0.01, 0.0])), mean).tolist()
    [True, True, False]
    """
    return np.asarray(~above[int(np.argmax(mean))])


def top_1(predicted: FloatArray, best: BoolArray) -> float:
    """Returns how likely the top prediction is one of the best, ties broken by chance.

    >>> top_1(np.array([0.7, 0.7, 0.1]), np.array([True, False, False]))
    0.5
    """
    top = predicted >= predicted.max() - 1e-9
    return float(best[top].mean())


def pair_counts(predicted: FloatArray, above: BoolArray) -> tuple[int, int, int]:
    """Returns (right, tied, all) of the pairs that have a true order.

    >>> above = np.array([[False, True, True], [False, False, False], [False, False, False]])
    >>> pair_counts(np.array([0.5, 0.5, 0.2]), above)
    (1, 1, 2)
    """
    difference = predicted[:, None] - predicted[None, :]
    tied = above & (np.abs(difference) <= 1e-9)
    right = above & (difference > 1e-9)
    return int(right.sum()), int(tied.sum()), int(above.sum())
