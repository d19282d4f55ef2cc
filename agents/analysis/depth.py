"""Numbers by depth: where in an answer a step or a token stands, from 0 (start) to 1 (end)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from agents.core.advantages import FloatArray

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def bins_of(length: int, bins: int) -> list[int]:
    """Returns the bin of each of ``length`` places: place i stands at (i + 1/2) / length.

    >>> bins_of(4, 2), bins_of(1, 4)
    ([0, 0, 1, 1], [2])
    """
    return [min(bins - 1, int((i + 0.5) / length * bins)) for i in range(length)]


def by_depth(rows: Sequence[ArrayLike], bins: int) -> list[FloatArray]:
    """Returns the numbers of all rows that stand in each bin.

    Args:
        rows: One array an answer, each [S_i], S_i >= 1.
        bins: How many parts an answer is cut into, >= 1.

    >>> [part.tolist() for part in by_depth([[1.0, 2.0], [5.0]], 2)]
    [[1.0], [2.0, 5.0]]
    """
    if bins < 1:
        raise ValueError(f"bins must be >= 1, got {bins}")
    parts: list[list[float]] = [[] for _ in range(bins)]
    for row in rows:
        numbers = np.asarray(row, dtype=np.float64).tolist()
        for place, number in zip(bins_of(len(numbers), bins), numbers, strict=True):
            parts[place].append(number)
    return [np.array(part) for part in parts]


def summary_of(numbers: ArrayLike, *, near: float = 0.05) -> dict[str, float | int | None]:
    """Returns n, mean, deviation, quantiles, mean size, and the share within ``near`` of 0.

    Quantiles are None where there are no numbers.

    >>> found = summary_of([-1.0, 0.0, 0.0, 1.0])
    >>> found["n"], found["mean"], found["q50"], found["mean_size"], found["near_zero"]
    (4, 0.0, 0.0, 0.5, 0.5)
    """
    array = np.asarray(numbers, dtype=np.float64)
    names = [f"q{100 * quantile:02.0f}" for quantile in _QUANTILES]
    if array.size == 0:
        return {"n": 0, **dict.fromkeys(["mean", "std", *names, "mean_size", "near_zero"])}
    quantiles = np.quantile(array, _QUANTILES).tolist()
    return {
        "n": int(array.size),
        "mean": float(array.mean()),
        "std": float(array.std()),
        **dict(zip(names, quantiles, strict=True)),
        "mean_size": float(np.abs(array).mean()),
        "near_zero": float((np.abs(array) < near).mean()),
    }
