"""How noisy a gradient estimate is: pure statistics of gradients of independent groups.

A group is a prompt with its answers: the smallest part of a batch whose gradient does not depend
on the others. A batch averages the gradients of its groups, so that its noise is a group's over
how many there are. Nothing here keeps the gradients themselves: they are as long as the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from agents.core.advantages import FloatArray


def variance_trace(squares: ArrayLike, squared_total: float) -> float:
    """Returns the trace of the covariance of vectors that are not kept, with n - 1 below.

    Args:
        squares: Squared length of each of n >= 2 vectors, [n].
        squared_total: Squared length of their sum.

    Raises:
        ValueError: Fewer than two vectors.

    >>> variance_trace([1.0, 9.0], 16.0)  # the numbers 1 and 3
    2.0
    """
    lengths = _at_least_two(squares)
    return float((lengths.sum() - squared_total / len(lengths)) / (len(lengths) - 1))


def squared_mean(squares: ArrayLike, squared_total: float) -> float:
    """Returns the squared length of the expected vector, without the noise of the mean's.

    The mean over all pairs of different vectors of their inner product: unbiased, may be negative.

    Args:
        squares: Squared length of each of n >= 2 independent vectors, [n].
        squared_total: Squared length of their sum.

    >>> squared_mean([1.0, 9.0], 16.0)  # 1 * 3
    3.0
    """
    lengths = _at_least_two(squares)
    return float((squared_total - lengths.sum()) / (len(lengths) * (len(lengths) - 1)))


def batch_cosine(
    signal: float, trace: float, vectors: float, *, scale: float = 1.0, own: float | None = None
) -> float:
    """Returns the expected cosine between a batch's gradient and the true one.

    ``E<b, g> / (|g| sqrt(E|b|^2))`` for the batch's gradient b, with ``E|b|^2`` the squared length
    of its expectation plus its noise.

    Args:
        signal: Squared length of the true gradient g.
        trace: Trace of the covariance of one vector.
        vectors: How many independent vectors the batch averages; a fraction is meant as it says.
        scale: ``<E b, g> / |g|^2``: 1 for an unbiased estimator.
        own: Squared length of ``E b``; None: ``scale^2 |g|^2``, b points where g does.

    >>> batch_cosine(1.0, 3.0, 1), batch_cosine(1.0, 3.0, 1, scale=2.0, own=13.0)
    (0.5, 0.5)
    """
    if signal <= 0:
        return math.nan
    least = scale**2 * signal  # by Cauchy and Schwarz no expectation is shorter
    length = max(least, least if own is None else own)
    return scale * math.sqrt(signal / (length + trace / vectors))


@dataclass
class Moments:
    """What is kept of one estimator's gradients.

    Attributes:
        squares: Squared length of each gradient.
        dots: Inner product of each with a direction that does not depend on them.
        total: Their sum, [P].

    >>> moments = Moments()
    >>> for number in (1.0, 3.0):
    ...     moments.add(torch.tensor([number, 0.0]), torch.tensor([1.0, 1.0]))
    >>> moments.trace, moments.squared_mean, moments.dots
    (2.0, 3.0, [1.0, 3.0])
    """

    squares: list[float] = field(default_factory=list)
    dots: list[float] = field(default_factory=list)
    total: Tensor | None = None

    def add(self, gradient: Tensor, direction: Tensor) -> None:
        """Counts the gradient of one more group, [P]."""
        self.squares.append(_dot(gradient, gradient))
        self.dots.append(_dot(gradient, direction))
        self.total = gradient.clone() if self.total is None else self.total.add_(gradient)

    @property
    def squared_total(self) -> float:
        """Squared length of the sum."""
        return 0.0 if self.total is None else _dot(self.total, self.total)

    @property
    def trace(self) -> float:
        """Trace of the covariance of one group's gradient."""
        return variance_trace(self.squares, self.squared_total)

    @property
    def squared_mean(self) -> float:
        """Squared length of the expected gradient; unbiased."""
        return squared_mean(self.squares, self.squared_total)


class Signal:
    """The large-batch gradient: sums in a few blocks, so that its own noise can be taken out.

    >>> signal = Signal(blocks=2)
    >>> for number in (1.0, 2.0, 3.0, 4.0):
    ...     signal.add(torch.tensor([number]))
    >>> signal.mean().tolist(), signal.squared()[0]  # the blocks' means are 2 and 3
    ([2.5], 6.0)
    """

    def __init__(self, blocks: int = 8) -> None:
        """Starts empty; more ``blocks`` (>= 2) take more memory: each is as long as the model."""
        if blocks < 2:
            raise ValueError(f"blocks must be >= 2, got {blocks}: pairs of them are compared")
        self.blocks, self.count = blocks, 0
        self._sums: list[Tensor] = []

    def add(self, gradient: Tensor) -> None:
        """Counts the gradient of one more group, [P]."""
        place = self.count % self.blocks
        if place == len(self._sums):
            self._sums.append(gradient.clone())
        else:
            self._sums[place].add_(gradient)
        self.count += 1

    def mean(self) -> Tensor:
        """Returns the mean gradient, [P]."""
        return torch.stack(self._sums).sum(0) / self.count

    def squared(self) -> tuple[float, float]:
        """Returns the squared length of the expected gradient, unbiased, and its standard error.

        The error is the jackknife's over the blocks; NaN where there are fewer than three.
        """
        counts = [len(range(b, self.count, self.blocks)) for b in range(len(self._sums))]
        means = [total / count for total, count in zip(self._sums, counts, strict=True)]
        gram = np.array([[_dot(a, b) for a in means] for b in means])
        estimate, n = _pairs_mean(gram), len(gram)
        if n < 3:
            return estimate, math.nan
        without = [np.delete(np.delete(gram, b, 0), b, 1) for b in range(n)]
        left = np.array([_pairs_mean(part) for part in without])
        return estimate, float(np.sqrt((n - 1) / n * np.square(left - left.mean()).sum()))


def ratio_interval(
    above: ArrayLike,
    below: ArrayLike,
    rng: np.random.Generator,
    *,
    above_less: float = 0.0,
    below_less: float = 0.0,
    draws: int = 1000,
) -> tuple[float, float]:
    """Returns the 95 % bootstrap interval of (mean(above) - a) / (mean(below) - b), paired.

    Args:
        above: One number a group, [n].
        below: One number for each of the same groups, [n].
        rng: Draws the groups again.
        above_less: a, a constant.
        below_less: b, a constant.
        draws: How often.

    >>> low, high = ratio_interval([2.0, 4.0], [1.0, 2.0], np.random.default_rng(0))
    >>> round(low, 6), round(high, 6)  # in every group twice as much
    (2.0, 2.0)
    """
    first, second = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    weights = rng.multinomial(len(first), np.full(len(first), 1 / len(first)), size=draws)
    means = weights @ np.stack([first, second], axis=1) / len(first)  # [draws, 2]
    ratios = (means[:, 0] - above_less) / (means[:, 1] - below_less)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


def limit_of_many(samples: Sequence[float], traces: Sequence[float]) -> float:
    """Returns a of the least-squares fit ``trace = a + b / samples``: what many samples leave.

    Args:
        samples: K of each estimator, at least two different ones.
        traces: Variance of each.

    Raises:
        ValueError: Fewer than two different K.

    >>> round(limit_of_many([2, 4], [1.5, 1.25]), 12)
    1.0
    """
    if len(set(samples)) < 2:
        raise ValueError(f"the fit over K needs two different K, got {list(samples)}")
    design = np.stack([np.ones(len(samples)), 1 / np.asarray(samples, dtype=np.float64)], axis=1)
    solution = np.linalg.lstsq(design, np.asarray(traces, dtype=np.float64), rcond=None)[0]
    return float(solution[0])


def _pairs_mean(gram: FloatArray) -> float:
    n = len(gram)
    return float((gram.sum() - np.trace(gram)) / (n * (n - 1)))


def _at_least_two(squares: ArrayLike) -> FloatArray:
    lengths = np.asarray(squares, dtype=np.float64)
    if lengths.size < 2:
        raise ValueError(f"a variance needs two groups or more, got {lengths.size}")
    return lengths


def _dot(a: Tensor, b: Tensor) -> float:
    return float(torch.dot(a.double(), b.double()))
