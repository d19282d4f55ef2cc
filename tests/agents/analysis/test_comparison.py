"""The statistics of a comparison against cases computed by hand."""

import numpy as np
import pytest

from agents.analysis.comparison import (
    Curve,
    band,
    best_setting,
    collapsed,
    first_reach,
    median_time,
    paired_difference,
    shared_end,
    smoothed,
    times_to_peak,
)


def curve(accuracy, tokens=None, cpu=None):
    steps = tuple(float(step) for step in range(len(accuracy)))
    spent = {"iterations": steps, "tokens": tokens or steps, "cpu_seconds": cpu or steps}
    return Curve(tuple(accuracy), spent)


def test_smoothing_looks_back_only():
    assert smoothed([0.0, 0.0, 0.9, 0.0], 3) == pytest.approx([0.0, 0.0, 0.3, 0.3])
    assert smoothed([0.2, 0.4], 1) == [0.2, 0.4]
    with pytest.raises(ValueError, match="window must be >= 1, got 0"):
        smoothed([1.0], 0)


def test_a_target_is_reached_between_evaluations_at_the_start_or_never():
    assert first_reach([0, 4, 8], [0.5, 0.6, 1.0], 0.7) == 5.0
    assert first_reach([0, 4, 8], [0.5, 0.6, 1.0], 0.5) == 0.0
    assert first_reach([0, 4, 8], [0.5, 0.9, 0.6], 0.95) is None


def test_a_censored_time_is_later_than_all_and_no_survivors_are_averaged():
    assert median_time([5.0, None, 1.0]) == 5.0
    assert median_time([5.0, None, None, 1.0]) is None
    assert median_time([5.0, 9.0, None, 1.0]) == 9.0


def test_collapse():
    assert collapsed([0.5, 0.2])
    assert collapsed([0.5, 0.9, 0.44])
    assert not collapsed([0.5, 0.9, 0.46])
    assert not collapsed([0.0, 0.0])


def test_the_bootstrap_of_two_pairs_by_hand():
    # Means of the four resamples of (0.1, 0.3): 0.1, 0.2, 0.2, 0.3; each end has a quarter.
    found = paired_difference([0.6, 0.8], [0.5, 0.5])
    assert (found.mean, found.n) == (pytest.approx(0.2), 2)
    np.testing.assert_allclose([found.low, found.high], [0.1, 0.3])


def test_the_bootstrap_of_four_pairs_leaves_out_the_rarest_resamples():
    # 256 resamples; the sums 0, 1, 2 of (0, 0, 0, 1) drawn four times: 81, 108, 54, then 12 and 1.
    found = paired_difference([0.0, 0.0, 0.0, 1.0], [0.0] * 4)
    assert (found.mean, found.low, found.high) == (0.25, 0.0, 0.75)


def test_the_bootstrap_keeps_pairs_together():
    hard_and_easy = np.linspace(0.1, 0.9, 5)
    found = paired_difference(list(hard_and_easy + 0.05), list(hard_and_easy))
    assert found.low == pytest.approx(0.05)
    assert found.high == pytest.approx(0.05)


def test_the_drawn_bootstrap_covers_a_known_mean_and_repeats_itself():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        differences = list(rng.normal(0.1, 0.2, size=30))
        found = paired_difference(differences, [0.0] * 30, resamples=500)
        covered += found.low <= 0.1 <= found.high
    assert found == paired_difference(differences, [0.0] * 30, resamples=500)
    assert 0.88 <= covered / 200 <= 0.99


def test_pairs_must_match():
    with pytest.raises(ValueError, match="got 2 and 1"):
        paired_difference([1.0, 2.0], [1.0])


def test_a_band_ends_where_the_first_run_ends():
    curves = [curve([0.0, 1.0], tokens=(0, 10)), curve([0.0, 1.0], tokens=(0, 20))]
    found = band(curves, "tokens", points=3)
    assert list(found.x) == [0.0, 5.0, 10.0]
    assert list(found.low) == [0.0, 0.25, 0.5]
    assert list(found.high) == [0.0, 0.5, 1.0]
    assert list(found.mean) == [0.0, 0.375, 0.75]
    assert shared_end(curves, "tokens") == 10


def test_time_to_a_peak_is_by_seed_and_on_the_asked_axis():
    ours = [curve([0.0, 0.8], cpu=(0, 8)), curve([0.0, 0.2], cpu=(0, 8))]
    theirs = [curve([0.0, 0.4, 0.2]), curve([0.0, 0.4, 0.2])]
    assert times_to_peak(ours, theirs, "cpu_seconds", 1) == [4.0, None]
    assert times_to_peak(ours, theirs, "iterations", 1) == [0.5, None]
    # Smoothed over two, their peak is 0.3; ours at the end is 0.4 and 0.1.
    assert times_to_peak(ours, theirs, "iterations", 2) == [pytest.approx(0.75), None]


def test_a_search_takes_the_best_end_and_the_first_of_equals():
    assert best_setting({"a": [0.9, 0.1, 0.2], "b": [0.1, 0.3, 0.3]}, 2) == "b"
    assert best_setting({"a": [0.5, 0.3], "b": [0.5, 0.3]}, 1) == "a"
    assert best_setting({"broke": (0.0, 0.0), "b": [0.5, 0.1]}, 3) == "b"
