"""Errors against a noisy truth: hand-computed cases, and synthetic data whose truth is known."""

import math

import numpy as np
import pytest

from agents.analysis.errors import (
    Truth,
    between_share,
    centred,
    explained_variance,
    interval,
    mean_absolute_error,
    mean_bias,
    mean_squared_error,
    position_bins,
    within_ceiling,
    within_correlation,
)

PROBLEMS, PER_PROBLEM, N = 4000, 5, 8


@pytest.fixture(scope="module")
def world():
    """Known values, a truth of few coin flips, and a predictor with a known error."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(PROBLEMS), PER_PROBLEM)
    level = rng.uniform(0.2, 0.8, PROBLEMS)[groups]
    values = np.clip(level + rng.normal(0, 0.15, len(groups)), 0.02, 0.98)
    samples = (rng.random((len(groups), N)) < values[:, None]).astype(float)
    predicted = values + 0.03 + rng.normal(0, 0.1, len(groups))
    return values, Truth.of(samples), predicted, groups, rng


def test_the_noise_of_the_truth_is_taken_out_of_squared_errors(world):
    values, truth, predicted, _, _ = world
    real = float(np.mean((predicted - values) ** 2))
    naive = float(np.mean((predicted - truth.mean) ** 2))
    assert mean_squared_error(predicted, truth) == pytest.approx(real, abs=0.001)
    assert naive > real + 0.02, "uncorrected it is far off"
    assert mean_squared_error(values, truth) == pytest.approx(0.0, abs=0.001)


def test_the_noise_of_the_truth_is_taken_out_of_explained_variance(world):
    values, truth, predicted, _, _ = world
    real = 1 - (predicted - values).var() / values.var()
    assert explained_variance(predicted, truth) == pytest.approx(real, abs=0.02)
    assert explained_variance(values, truth) == pytest.approx(1.0, abs=0.02)


def test_bias_is_that_of_the_predictor(world):
    _, truth, predicted, _, _ = world
    assert mean_bias(predicted, truth) == pytest.approx(0.03, abs=0.005)


@pytest.mark.parametrize("k", [None, 1, 4])
def test_the_ceiling_is_what_right_values_reach(world, k):
    values, truth, _, groups, rng = world
    said = values if k is None else rng.binomial(k, values) / k
    reached = within_correlation(said, truth, groups)
    assert reached == pytest.approx(within_ceiling(truth, groups, k), abs=0.015)
    assert reached < 0.9


def test_the_share_between_problems_is_that_of_the_values(world):
    values, truth, _, groups, _ = world
    real = 1 - centred(values, groups).var() / values.var()
    assert between_share(truth, groups) == pytest.approx(real, abs=0.02)


def test_knowing_only_the_problem_correlates_with_nothing_inside(world):
    values, truth, _, groups, _ = world
    means = values - centred(values, groups)
    assert math.isnan(within_correlation(means, truth, groups))


def test_the_interval_draws_problems_and_not_states():
    groups = np.repeat(np.arange(50), 20)
    values = np.random.default_rng(1).normal(size=50)[groups]
    low, high = interval(lambda at: float(values[at].mean()), groups, np.random.default_rng(2))
    width = 2 * 1.96 * values.std() / math.sqrt(50)
    assert high - low == pytest.approx(width, rel=0.25)
    assert low < values.mean() < high


def test_by_hand():
    truth = Truth.of(np.array([[0.0, 1.0], [1.0, 1.0]]))
    assert truth.mean.tolist() == [0.5, 1.0]
    assert truth.variance.tolist() == [0.5, 0.0]
    assert truth.noise.tolist() == [0.25, 0.0]
    predicted = np.array([1.0, 0.5])
    assert mean_absolute_error(predicted, truth) == 0.5
    assert mean_squared_error(predicted, truth) == pytest.approx((0.25 - 0.25 + 0.25) / 2)
    assert position_bins(np.array([0.0, 0.2, 0.99]), 5).tolist() == [0, 1, 4]


def test_one_rollout_is_no_truth():
    with pytest.raises(ValueError, match="got 1"):
        Truth.of(np.zeros((3, 1)))


def test_nothing_to_explain_is_nan():
    truth = Truth(np.array([0.5, 0.5]), np.zeros(2), 4)
    assert math.isnan(explained_variance(np.array([0.4, 0.5]), truth))
    assert math.isnan(explained_variance(np.array([0.4]), truth.at(np.array([0]))))
