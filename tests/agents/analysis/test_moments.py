"""Variances and cosines of vectors whose distribution is known."""

import math

import numpy as np
import pytest
import torch

from agents.analysis.moments import (
    Moments,
    Signal,
    batch_cosine,
    limit_of_many,
    ratio_interval,
    variance_trace,
)

MEAN = np.array([0.3, -0.2, 0.1, 0.0])
DEVIATION = np.array([1.0, 2.0, 0.5, 0.1])
TRACE = float(np.square(DEVIATION).sum())


def vectors(count, seed):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(MEAN + DEVIATION * rng.normal(size=(count, 4)))


def test_a_known_variance_and_direction_are_found():
    moments = Moments()
    for vector in vectors(20_000, 0):
        moments.add(vector, torch.from_numpy(MEAN))
    assert moments.trace == pytest.approx(TRACE, rel=0.03)
    assert moments.squared_mean == pytest.approx(float(MEAN @ MEAN), rel=0.1)
    assert np.mean(moments.dots) == pytest.approx(float(MEAN @ MEAN), rel=0.15)


def test_the_trace_is_numpys():
    sample = vectors(50, 1).numpy()
    found = variance_trace(np.square(sample).sum(1), float(np.square(sample.sum(0)).sum()))
    assert found == pytest.approx(float(sample.var(axis=0, ddof=1).sum()), rel=1e-12)


def test_the_signals_length_has_no_noise_in_it_and_its_error_is_honest():
    """200 small batches: the mean is right though noise is 20 times the signal, the error too."""
    found = []
    for seed in range(200):
        signal = Signal(blocks=8)
        for vector in vectors(64, seed):
            signal.add(vector)
        found.append(signal.squared())
    estimates, errors = np.array(found).T
    naive = float(MEAN @ MEAN) + TRACE / 64
    standard_error = estimates.std() / math.sqrt(200)
    assert abs(estimates.mean() - float(MEAN @ MEAN)) < 3 * standard_error
    assert abs(estimates.mean() - naive) > 5 * standard_error
    assert errors.mean() == pytest.approx(estimates.std(), rel=0.3)


def test_blocks_of_uneven_size_give_the_mean_of_all():
    signal = Signal(blocks=4)
    for number in range(7):
        signal.add(torch.tensor([float(number)]))
    assert signal.mean().tolist() == [3.0]


def test_the_cosine_is_that_of_simulated_batches():
    batches = vectors(64 * 4000, 2).reshape(4000, 64, 4).mean(1).numpy()
    simulated = (batches @ MEAN).mean() / np.sqrt(
        float(MEAN @ MEAN) * np.square(batches).sum(1).mean()
    )
    assert batch_cosine(float(MEAN @ MEAN), TRACE, 64) == pytest.approx(simulated, abs=0.01)


def test_a_biased_direction_lowers_the_cosine_of_a_batch_without_noise():
    truth, biased = np.array([1.0, 0.0]), np.array([1.0, 1.0])
    assert batch_cosine(1.0, 0.0, 1, scale=float(biased @ truth), own=2.0) == pytest.approx(
        1 / math.sqrt(2)
    )
    assert math.isnan(batch_cosine(0.0, 1.0, 1))


def test_the_interval_of_a_ratio_holds_it_and_shrinks_with_groups():
    rng = np.random.default_rng(0)
    first = rng.exponential(2.0, size=1000)
    second = rng.exponential(1.0, size=1000)
    low, high = ratio_interval(first, second, rng)
    assert low < 2.0 < high
    few_low, few_high = ratio_interval(first[:50], second[:50], rng)
    assert few_high - few_low > 2 * (high - low)


def test_constants_are_taken_off_both_means():
    low, high = ratio_interval(
        [5.0, 5.0], [3.0, 3.0], np.random.default_rng(0), above_less=1.0, below_less=1.0
    )
    assert (low, high) == (2.0, 2.0)


def test_too_little_is_refused_with_the_number():
    with pytest.raises(ValueError, match="two groups or more, got 1"):
        variance_trace([1.0], 1.0)
    with pytest.raises(ValueError, match="blocks must be >= 2, got 1"):
        Signal(blocks=1)
    with pytest.raises(ValueError, match=r"two different K, got \[4, 4\]"):
        limit_of_many([4, 4], [1.0, 1.0])
