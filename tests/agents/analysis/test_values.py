"""The analysis ``values``: on an MDP whose values are known, and from the command line."""

import json
import math

import numpy as np
import pytest
from commands import flags
from toy import PROMPT, ToyEngine, ToyEnv, exact_value

from agents.analysis.__main__ import main
from agents.analysis.predictors import predictions
from agents.analysis.states import border_starts, sample_rewards, sample_states
from agents.analysis.value_report import measures, report
from agents.core.rollout import Sampler, start_of


@pytest.fixture
def sampler():
    return Sampler(ToyEngine(), ToyEnv(), 3, 1.0)


@pytest.fixture
def states(sampler):
    starts = [start_of(sampler.env, slot, index=slot) for slot in range(4)]
    return sample_states(sampler, starts, 3)


def _exact(states):
    return np.array([exact_value(start.tokens[len(PROMPT) :]) for start in states.starts])


def test_the_states_are_the_borders_of_the_first_answers(states):
    expected = [
        list(PROMPT) + answer.response[:border]
        for answer in states.answers
        for border in answer.borders
    ]
    assert [start.tokens for start in states.starts] == expected
    assert [states.problem.tolist().count(place) for place in range(4)] == [
        len(answer.borders) for answer in states.answers
    ]
    assert all(
        start.budget == answer.start.budget - border
        for answer in states.answers
        for border, start in zip(answer.borders, border_starts(answer), strict=True)
    )
    assert states.relative[states.problem == 0][0] == 0.0 and states.relative.max() < 1


def test_the_truth_is_the_truth(sampler, states):
    samples, tokens = sample_rewards(sampler, states.starts, 600, "truth")
    error = np.abs(samples.mean(1) - _exact(states))
    assert error.max() < 4 * math.sqrt(0.25 / 600)
    assert tokens >= samples.size


def test_rollouts_of_the_truth_are_none_of_a_predictors(sampler, states):
    truth, _ = sample_rewards(sampler, states.starts, 200, "truth")
    other, _ = sample_rewards(sampler, states.starts, 200, "other")
    again, _ = sample_rewards(sampler, states.starts[::-1], 200, "truth")
    np.testing.assert_array_equal(truth, again[::-1])
    random = truth.std(1) > 0.1
    shared = [np.corrcoef(truth[row], other[row])[0, 1] for row in np.flatnonzero(random)]
    assert np.abs(shared).max() < 5 / math.sqrt(200)


def test_many_rollouts_predict_the_truth(sampler, states):
    found = predictions(sampler, states, [1, 300])
    assert list(found) == ["mc 1", "mc 300", "reuse 1", "reuse 300", "group mean",
                           "leave one out"]  # fmt: skip
    for name in ("mc 300", "reuse 300"):
        assert np.abs(found[name].values - _exact(states)).max() < 4 * math.sqrt(0.25 / 300)
    assert found["mc 1"].rollouts == 1 and found["reuse 1"].rollouts is None
    # Of a state with T tokens left in all, K rollouts of the paper's estimator cost K times that.
    assert found["mc 300"].tokens_per_state == pytest.approx(
        300 * found["mc 1"].tokens_per_state, rel=0.3
    )
    assert 0 < found["reuse 300"].tokens_per_state < found["mc 300"].tokens_per_state


def test_group_means_by_hand(sampler, states):
    found = predictions(sampler, states, [1])
    rewards = [[answer.reward for answer in group] for group in states.groups]
    for place, row in enumerate(rewards):
        at = states.problem == place
        assert set(found["group mean"].values[at]) == {sum(row) / 3}
        assert set(found["leave one out"].values[at]) == {sum(row[1:]) / 2}


def test_answers_of_another_policy_say_nothing_about_this_one(sampler, states):
    assert list(predictions(sampler, states, [2], on_policy=False)) == ["mc 2"]


def test_unsettled_states_are_picked_by_other_rollouts_than_measure_them(sampler, states):
    # The first half of the rollouts says "settled" for all but one state, the second half is 0.5.
    size = len(states.starts)
    samples = np.tile([1.0, 1.0, 0.0, 1.0], (size, 1))
    samples[2, :2] = [0.0, 1.0]
    predicted = predictions(sampler, states, [1])
    result = report(states, samples, predicted, positions=2, rng=np.random.default_rng(0))
    assert (result["states"], result["unsettled_states"]) == (size, 1)
    found = result["predictors"]["mc 1"]["unsettled"]
    assert found["states"] == 1
    assert found["mae"] == 0.5  # |0 or 1 - 0.5|
    none = measures(predicted["mc 1"], None, states.problem, None, np.zeros(size, bool))
    assert none == {"states": 0}


def test_from_the_command_line_with_a_critic_over_training(run_folder, tmp_path, capsys):
    settings = {"run": run_folder, "num_problems": 2, "truth_rollouts": 4, "threads": 1,
                "num_generations": 2, "diverse_temperature": 2.0}  # fmt: skip
    argv = ["values", *flags(settings), "--num_rollouts", "1", "--output", str(tmp_path)]
    assert main(argv) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("values: MSE at ")
    found = json.loads((tmp_path / "values.json").read_text())["results"]["policies"]
    assert [(row["iteration"], row["answers"]) for row in found] == [
        (iteration, answers) for iteration in (0, 1, 2) for answers in ("on-policy", "diverse")
    ]
    assert "critic" not in found[0]["predictors"], "the policy before training has none"
    assert list(found[-1]["predictors"]) == ["mc 1", "critic"]
    for row in found:
        assert row["problems"] == 2
        for predictor in row["predictors"].values():
            assert predictor["all"]["states"] == row["states"]
            assert len(predictor["by_position"]) == 5
    assert (tmp_path / "values.png").stat().st_size > 10_000


def test_the_same_seed_gives_the_same_numbers(tmp_path, capsys):
    found = []
    for name in "ab":
        argv = ["values", "--num_problems", "1", "--truth_rollouts", "4", "--num_rollouts", "1",
                "--num_generations", "2", "--split", "train", "test",
                "--output", str(tmp_path / name)]  # fmt: skip
        assert main(argv) == 0
        found.append(json.loads((tmp_path / name / "values.json").read_text())["results"])
    assert found[0] == found[1]
    assert [row["label"] for row in found[0]["policies"]] == ["train", "test"]
