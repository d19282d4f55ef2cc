"""The analysis ``ranking``: its statistics by hand, its Q on a known MDP, and the command."""

import json
import math

import numpy as np
import pytest
from commands import flags
from toy import PROMPT, ToyEngine, ToyEnv, exact_value, finished

from agents.analysis.__main__ import main
from agents.analysis.alternatives import chosen_states, sample_alternatives
from agents.analysis.ranking import ranking_report, sampled_q
from agents.analysis.ranks import best_of, clearly_above, pair_counts, top_1
from agents.analysis.states import sample_states
from agents.core.rollout import Sampler, start_of


def _response(alternative):
    rollout = alternative.rollout
    end = rollout.borders[1] if len(rollout.borders) > 1 else len(rollout.response)
    return (*rollout.start.tokens[len(PROMPT) :], *rollout.response[:end])


@pytest.fixture
def sampler():
    return Sampler(ToyEngine(), ToyEnv(), 3, 1.0)


@pytest.fixture
def found(sampler):
    states = sample_states(sampler, [start_of(sampler.env, s, index=s) for s in range(4)], 1)
    return states, sample_alternatives(sampler, states.starts, 2, 40)


def test_alternatives_are_distinct_next_steps(found):
    states, alternatives = found
    for start, options in zip(states.starts, alternatives, strict=True):
        steps = [_response(option) for option in options]
        assert len(set(steps)) == len(steps) == 2, "three ids are possible, two are asked for"
        assert all(list(PROMPT) + list(step[:-1]) == start.tokens for step in steps)
        for step, option in zip(steps, options, strict=True):
            assert (option.after is None) == finished(step)
            if option.after is not None:
                assert option.after.tokens == [*PROMPT, *step]
                assert option.after.snapshot[1] == step


def test_the_q_of_a_step_is_reward_plus_value(sampler, found):
    steps = [option for options in found[1] for option in options]
    rewards, tokens = sampled_q(sampler, steps, 400, "truth")
    exact = np.array([exact_value(_response(step)) for step in steps])
    assert np.abs(rewards.mean(1) - exact).max() < 4 * math.sqrt(0.25 / 400)
    ended = [step.after is None for step in steps]
    assert any(ended) and tokens > 0
    np.testing.assert_array_equal(rewards.mean(1)[ended], exact[ended])


def test_a_true_order_must_stand_out_of_the_noise():
    mean, noise = np.array([0.9, 0.8, 0.2]), np.array([0.005, 0.005, 0.0])
    above = clearly_above(mean, noise)
    assert above.astype(int).tolist() == [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert best_of(above, mean).tolist() == [True, True, False]
    exact = clearly_above(np.array([0.5, 0.5]), np.zeros(2))
    assert not exact.any(), "equal values have no order"


def test_predicted_ties_are_broken_by_chance():
    best = np.array([True, False, False, False])
    assert top_1(np.full(4, 0.3), best) == 0.25
    assert top_1(np.array([0.3, 0.3, 0.1, 0.0]), best) == 0.5
    above = clearly_above(np.array([1.0, 0.5, 0.0]), np.zeros(3))
    assert pair_counts(np.array([0.6, 0.6, 0.7]), above) == (0, 1, 3)


def test_the_report_by_hand():
    # State 0: 1.0 > 0.5 = 0.5. State 1: all equal, so that nothing can be ranked.
    truth, noise = np.array([1.0, 0.5, 0.5, 0.2, 0.2]), np.zeros(5)
    predicted = {
        "right": np.array([0.9, 0.1, 0.2, 0.0, 1.0]),
        "same": np.full(5, 0.5),
        "wrong": np.array([0.0, 0.1, 0.2, 0.0, 1.0]),
    }
    rng = np.random.default_rng(0)
    result = ranking_report([3, 2], np.array([0, 1]), truth, noise, predicted, rng)
    assert result["states"] == 2 and result["states_without_order"] == 1
    assert (result["pairs"], result["pairs_with_order"]) == (4, 2)
    assert result["random_top_1"] == pytest.approx(1 / 3)
    rows = {
        name: (row["top_1"]["mean"], row["pairwise"]["mean"], row["pairwise_ties_wrong"],
               row["predicted_ties"])
        for name, row in result["predictors"].items()
    }  # fmt: skip
    assert rows["right"] == (1.0, 1.0, 1.0, 0.0)
    assert rows["same"] == (pytest.approx(1 / 3), 0.5, 0.0, 1.0)
    assert rows["wrong"] == (0.0, 0.0, 0.0, 0.0)


def test_without_any_order_there_is_no_accuracy():
    rng = np.random.default_rng(0)
    result = ranking_report([2], np.array([0]), np.ones(2), np.zeros(2), {"x": np.ones(2)}, rng)
    assert result["states_without_order"] == 1
    assert math.isnan(result["predictors"]["x"]["top_1"]["mean"])
    assert math.isnan(result["predictors"]["x"]["pairwise"]["mean"])


def test_states_with_too_few_steps_are_left_out():
    found = [[1, 2, 3], [1], [1, 2], [1, 2, 3]]
    chosen = {"least": 2, "per_problem": 1, "rng": np.random.default_rng(0)}
    rows = chosen_states(found, [0, 0, 0, 1], **chosen)
    assert len(rows) == 2 and rows[0] in (0, 2) and rows[1] == 3
    assert chosen_states(found, [0, 0, 0, 1], **chosen | {"least": 4}) == []


def test_from_the_command_line_with_a_critic(run_folder, tmp_path, capsys):
    settings = {"run": run_folder, "num_problems": 3, "truth_rollouts": 4, "threads": 1,
                "tries": 12, "least_alternatives": 2, "num_rollouts": 1,
                "start": "false"}  # fmt: skip
    assert main(["ranking", *flags(settings), "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("ranking: top-1 (pairwise) at ")
    found = json.loads((tmp_path / "ranking.json").read_text())["results"]["policies"]
    assert [row["iteration"] for row in found] == [1, 2]
    assert all(list(row["predictors"]) == ["mc 1", "critic"] for row in found)
    assert all(2 <= row["alternatives"] <= 5 for row in found)
    assert (tmp_path / "ranking.png").stat().st_size > 5_000


def test_a_policy_without_alternatives_is_one_line(tmp_path, capsys):
    argv = ["ranking", "--num_problems", "1", "--tries", "2", "--least_alternatives", "3"]
    assert main([*argv, "--output", str(tmp_path)]) == 2
    assert "Raise --tries or --temperature" in capsys.readouterr().err
