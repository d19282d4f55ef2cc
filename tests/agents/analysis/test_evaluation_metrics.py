"""Measures of an evaluation, by hand and by brute force."""

from itertools import combinations

import numpy as np
import pytest

from agents.analysis.evaluation_metrics import (
    Scored,
    bootstrap,
    majority,
    majority_at_k,
    measures_of,
    same_answer_of,
)
from agents.analysis.spread import pass_at_k
from graders import get_grader


def votes(*answers, right="4"):
    return [Scored(a, float(a == right), "correct" if a == right else "wrong", 3) for a in answers]


def equal(first, second):
    return first == second


@pytest.mark.parametrize("n", [1, 3, 6])
def test_pass_at_k_is_the_mean_over_all_subsets(n):
    for right in range(n + 1):
        samples = [1] * right + [0] * (n - right)
        for k in range(1, n + 1):
            brute = np.mean([max(chosen) for chosen in combinations(samples, k)])
            assert pass_at_k(n, right, k) == pytest.approx(brute, abs=1e-12)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("4", "4", "5"), 1.0),
        (("4", "5", "5"), 0.0),
        (("4", "5"), 0.5),
        (("5", "4", "6"), 1 / 3),
        (("4", "", "", ""), 1.0),
        (("", ""), 0.0),
    ],
)
def test_majority_by_hand(answers, expected):
    assert majority(votes(*answers), equal) == pytest.approx(expected)


def test_equal_answers_vote_together_as_the_grader_says():
    samples = [Scored(a, right, "", 1) for a, right in (("0.5", 1), ("7", 0), (r"\frac12", 1))]
    assert majority(samples, same_answer_of(get_grader("math"))) == 1.0
    assert majority(samples, equal) == pytest.approx(2 / 3)
    assert same_answer_of(get_grader("gsm8k"))("1,200", "1200")


def test_majority_at_k_takes_disjoint_blocks():
    assert majority_at_k(votes("4", "4", "5", "5", "4"), 2, equal) == 0.5


def test_shares_by_hand():
    group = [
        Scored("4", 1.0, "correct", 2),
        Scored("", 0.0, "unfinished", 8),
        Scored("", 0.0, "wrong", 4),
        Scored("x", 0.0, "undecided", 2),
    ]
    found = {name: interval.mean for name, interval in measures_of([group], equal, seed=0).items()}
    assert found == {
        "pass@1": 0.25, "pass@2": 0.5, "pass@4": 1.0, "maj@4": 0.5,
        "unfinished": 0.25, "no_answer": 0.25, "undecided": 0.25, "tokens": 4.0,
    }  # fmt: skip


def test_the_bootstrap_covers_the_truth_as_often_as_it_says():
    rng, trials, truth = np.random.default_rng(0), 400, 0.4
    hits = 0
    for trial in range(trials):
        rates = rng.beta(2, 3, size=60)  # the problems' own success rates, mean 0.4
        found = bootstrap(rng.binomial(4, rates) / 4, seed=trial, draws=500)
        hits += found.low <= truth <= found.high
    # 95 % nominal; the percentile bootstrap of 60 problems covers a little less; 3 sigma = 3.3 %.
    assert 0.91 <= hits / trials <= 0.985


def test_the_bootstrap_is_seeded_and_chunks_do_not_change_it(monkeypatch):
    scores = list(np.linspace(0, 1, 37))
    first = bootstrap(scores, seed=3)
    assert first == bootstrap(scores, seed=3)
    assert first != bootstrap(scores, seed=4)
    monkeypatch.setattr("agents.analysis.evaluation_metrics._AT_ONCE", 100)
    assert bootstrap(scores, seed=3) == first
    with pytest.raises(ValueError, match="at least one problem"):
        bootstrap([], seed=0)
