"""Diversity of samples and numbers by depth, by hand."""

from itertools import combinations

import numpy as np
import pytest

from agents.analysis.depth import by_depth, summary_of
from agents.analysis.spread import diversity_of, pass_at_k, powers_up_to, repeats


@pytest.mark.parametrize("right", [0, 2, 5])
def test_pass_at_k_is_the_share_of_all_draws(right):
    answers = [place < right for place in range(5)]
    for k in range(1, 6):
        draws = [any(draw) for draw in combinations(answers, k)]
        assert pass_at_k(5, right, k) == pytest.approx(np.mean(draws))


def test_pass_at_more_than_there_are_is_refused():
    with pytest.raises(ValueError, match=r"k must be in 1\.\.4 .* got 5"):
        pass_at_k(4, 1, 5)


def test_repeats_is_the_chance_that_two_samples_agree():
    items = ["a", "b", "a", "c", "a"]
    pairs = [first == second for first, second in combinations(items, 2)]
    assert repeats(items) == pytest.approx(np.mean(pairs))


def test_diversity_is_a_mean_over_problems():
    found = diversity_of(
        [["1", "2", "1", "1"], ["5", "6", "7", "8"]],
        [["a", "b", "a", "c"], ["d", "e", "f", "g"]],
        [[True, False, True, True], [False, False, True, False]],
    )
    assert found["distinct_answers"] == (2 + 4) / 2
    assert found["distinct_solutions"] == (3 + 4) / 2
    assert found["distinct_right_solutions"] == (2 + 1) / 2
    assert found["same_answer"] == pytest.approx((0.5 + 0.0) / 2)
    assert found["same_solution"] == pytest.approx((1 / 6 + 0.0) / 2)
    assert found["majority"] == (1.0 + 0.25) / 2  # the second problem's four answers tie
    assert found["pass_at"] == {1: (0.75 + 0.25) / 2, 2: (1.0 + 0.5) / 2, 4: 1.0}
    assert powers_up_to(4) == list(found["pass_at"])


def test_depth_is_relative_to_the_answers_own_length():
    parts = by_depth([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0]], 2)
    assert [part.tolist() for part in parts] == [[1.0, 2.0, 10.0], [3.0, 4.0, 20.0]]
    with pytest.raises(ValueError, match="bins must be >= 1, got 0"):
        by_depth([[1.0]], 0)


def test_every_number_is_in_one_bin():
    rows = [np.arange(n, dtype=float) for n in range(1, 40)]
    for bins in (1, 3, 8):
        assert sum(len(part) for part in by_depth(rows, bins)) == sum(map(len, rows))


def test_a_summary_by_hand():
    found = summary_of([-0.04, 0.0, 0.04, 1.0], near=0.05)
    assert found["near_zero"] == 0.75
    assert found["mean"] == pytest.approx(0.25)
    assert found["mean_size"] == pytest.approx(0.27)
    assert found["q50"] == pytest.approx(0.02)
    assert summary_of([]) == {
        "n": 0, "mean": None, "std": None, "q05": None, "q25": None, "q50": None, "q75": None,
        "q95": None, "mean_size": None, "near_zero": None,
    }  # fmt: skip
