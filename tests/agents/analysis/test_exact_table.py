"""Every estimator that claims to be unbiased is, and every broken one fails the same check."""

from functools import cache

import numpy as np
import pytest

from agents.analysis.choices import Dice
from agents.analysis.exact import TableEnv, random_mdp, two_token_mdp
from agents.analysis.expectation import expectation, gradient_of, play
from agents.core.streams import generator
from benchmarks import exact_controls
from benchmarks.exact_mdp import (
    CONTROLS,
    ESTIMATORS,
    ROWS_BY_NAME,
    at_equal_fresh,
    segmenters,
    shared,
)

MDP = two_token_mdp()
SLOW = {"VinePPO reuse K=2", "VinePPO paper K=2", "VinePPO paper K=3"}
UNBIASED = [
    pytest.param(row, id=row.name, marks=[pytest.mark.slow] if row.name in SLOW else [])
    for row in ESTIMATORS
    if row.unbiased
]
LARGEST = np.abs(MDP.gradient).max()


@cache
def _expectation(name):
    return expectation(MDP, ROWS_BY_NAME[name].estimate, **ROWS_BY_NAME[name].settings)


@pytest.mark.parametrize("row", UNBIASED)
def test_unbiased(row):
    found = _expectation(row.name)
    assert found.gradient_bias < 1e-12 < 0.1 < LARGEST
    if row.name.startswith(("VinePPO", "exact")):
        assert found.value_bias < 1e-12
        assert found.value_bias_given_answer < 1e-12


@pytest.mark.parametrize("row", CONTROLS, ids=lambda row: row.name)
def test_a_broken_rule_is_seen(row):
    assert _expectation(row.name).gradient_bias > 0.05 * LARGEST


def test_where_the_values_themselves_are_wrong():
    found = {row.name: _expectation(row.name) for row in CONTROLS}
    own = found["own outcome kept"]
    assert own.value_bias < 1e-12, "a value is right on average ..."
    assert own.value_bias_given_answer > 0.1, "... but follows the answer's own luck"
    for name in (
        "left out by content",
        "siblings at own borders only",
        "stop by confidence",
        "states named forgetfully",
    ):
        assert found[name].value_bias > 0.02
    assert found["borders that look ahead"].value_bias_given_answer < 1e-12


def test_scaled_gradients_still_point_the_right_way():
    found = {row.name: _expectation(row.name) for row in ESTIMATORS if row.name.startswith("GRPO")}
    for numbers in found.values():
        assert numbers.gradient_bias > 0.1 * LARGEST
        assert numbers.cosine == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("row", segmenters(), ids=lambda row: row.name)
def test_causal_segmenters_are_unbiased_and_the_others_are_not(row):
    found = expectation(random_mdp(3, 4), row.estimate, **row.settings)
    assert found.value_bias_given_answer < 1e-12
    if row.unbiased:
        assert found.gradient_bias < 1e-12
    else:
        assert found.gradient_bias > 0.01


def test_reuse_is_better_at_equal_fresh_rollouts():
    found = {row.name: _expectation(row.name) for row in ESTIMATORS if row.name.endswith("K=1")}
    exact = expectation(MDP, exact_controls.exact_values)
    papers = found["VinePPO paper K=1"]
    assert at_equal_fresh(papers, papers, exact) == pytest.approx([1, 1])
    assert max(at_equal_fresh(found["VinePPO reuse K=1"], papers, exact)) < 0.5
    assert exact.gradient_variance < papers.gradient_variance


def _projections(estimate, count):
    """Each group's gradient along the true one, whose mean must be 1."""
    mdp = random_mdp(3, 4)
    env, dice = TableEnv(mdp), Dice(generator(1))
    groups = [gradient_of(*play(env, estimate, dice, lump="none")) for _ in range(count)]
    return np.array(groups) @ mdp.gradient / (mdp.gradient @ mdp.gradient)


def test_reuse_is_unbiased_on_a_larger_mdp_too():
    """Three ids, four tokens, K = 2, by sampling: within 4 standard errors."""
    found = _projections(shared(2).estimate, 1000)
    assert abs(found.mean() - 1) < 4 * found.std() / np.sqrt(len(found)) < 0.4


def test_sampling_would_see_a_broken_rule():
    found = _projections(exact_controls.own_outcome_kept, 1000)
    assert abs(found.mean() - 1) > 5 * found.std() / np.sqrt(len(found))
