"""Measured gradients against an enumerable MDP, against the updater, against the agents."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import SMALL, collected
from exact import ExactEngine, ExactEnv, outcomes, score, true_gradient
from updates import small_batch, with_sgd

from agents.analysis.choices import Dice
from agents.analysis.estimators import estimator_of
from agents.analysis.measure import first_step, measure, policy_gradients
from agents.analysis.noise import noise_table
from agents.core.rollout import Sampler, Start, Trajectory, mark_states, start_of
from agents.core.update import Updater
from agents.grpo import GRPO, GRPOConfig
from agents.rloo import RLOO, RLOOConfig
from agents.vineppo import VinePPO, VinePPOConfig

GROUP = 2


def sampler_with(chooser):
    return Sampler(ExactEngine(chooser), ExactEnv(), 0, 1.0)


def answers_of(sampler):
    rows = sampler.sample([start_of(sampler.env, 0)], GROUP, iteration=1, purpose="x")[0]
    for row in rows:
        mark_states(sampler.env, row)
    return rows


def group_gradient(rows, arrays):
    """The table policy's own score function in place of a network."""
    total = 0.0
    for row, numbers in zip(rows, arrays, strict=True):
        for t, token in enumerate(row.response):
            total = total + numbers[t] * score(row.response[:t], token)
    return total / len(rows)


def exact_moments(name):
    """Returns E g and the trace of the covariance of a group's gradient, by enumeration."""
    estimator = estimator_of(name)

    def run(chooser):
        sampler = sampler_with(chooser)
        rows = answers_of(sampler)
        return group_gradient(rows, estimator.credit(sampler, rows, GROUP, 1).advantages)

    mean, square = 0.0, 0.0
    for chance, gradient in outcomes(run):
        mean, square = mean + chance * gradient, square + chance * float(gradient @ gradient)
    return mean, square - float(mean @ mean)


@pytest.fixture(scope="module")
def measured():
    names = ("rloo", "grpo", "reuse:1", "paper:1")
    sampler = sampler_with(Dice(np.random.default_rng(0)))

    def gradient_of(rows, advantages):
        return [torch.from_numpy(group_gradient(rows, arrays)) for arrays in advantages]

    signal, results = measure(
        [estimator_of(name) for name in names],
        lambda iteration: answers_of(sampler),
        lambda row: mark_states(sampler.env, row),
        sampler,
        gradient_of,
        group=GROUP,
        baseline=estimator_of("rloo"),
        reference=range(800),
        iterations=range(800, 2000),
    )
    table = noise_table(signal, results, GROUP, np.random.default_rng(0))
    return table, {entry["name"]: entry for entry in table["estimators"]}


def test_the_signal_is_the_true_gradients_length(measured):
    found = measured[0]["signal"]
    truth = float(true_gradient() @ true_gradient())
    assert abs(found["squared"] - truth) < 3 * found["standard_error"]


@pytest.mark.parametrize("name", ["rloo", "reuse:1"])
def test_variance_is_that_of_the_enumeration(measured, name):
    mean, trace = exact_moments(name)
    assert np.abs(mean - true_gradient()).max() < 1e-12
    found = measured[1][name]["noise"] * measured[0]["signal"]["squared"]
    assert found == pytest.approx(GROUP * trace, rel=0.1)


def test_the_interval_of_the_gain_holds_the_true_one(measured):
    truth = exact_moments("rloo")[1] / exact_moments("reuse:1")[1]
    entry = measured[1]["reuse:1"]
    assert entry["gain_low"] < truth < entry["gain_high"]
    assert entry["gain"] == pytest.approx(truth, rel=0.1)


def test_a_biased_estimator_is_measured_at_its_own_scale(measured):
    """A group of two has advantages +-0.5 or 0 with RLOO +-1: GRPO's are 1/sqrt(2) of those."""
    grpo = measured[1]["grpo"]
    assert not grpo["unbiased"]
    assert grpo["projection"] == pytest.approx(1 / np.sqrt(2), rel=1e-3)
    assert grpo["gain"] == pytest.approx(1.0, rel=1e-3)


def test_value_rollouts_count_as_tokens(measured):
    assert measured[1]["rloo"]["tokens"] == 3.0
    assert measured[1]["rloo"]["tokens_ratio"] == 1.0
    # Fresh rollouts of 3, 2 and 1 tokens; the siblings' prompt is one state, others may be.
    assert 1.5 < measured[1]["paper:1"]["tokens_ratio"] < 3.0
    assert measured[1]["reuse:1"]["tokens_ratio"] < measured[1]["paper:1"]["tokens_ratio"]


def test_measured_iterations_may_not_be_in_the_large_batch():
    with pytest.raises(ValueError, match="must not share"):
        measure([], None, None, None, None, group=2, baseline=None, reference=[1], iterations=[1])


def trajectories_of(batch):
    pairs = zip(batch.prompts, batch.responses, batch.engine_log_probs, strict=True)
    return [
        Trajectory(start_like(prompt), response, log_probs, 0.0, True, False, {})
        for prompt, response, log_probs in pairs
    ]


def start_like(prompt):
    return Start(None, prompt, 8, 0, "p")


@pytest.mark.parametrize("micro", [2, 6])
def test_gradients_are_those_of_the_updater(make_policy, micro):
    """One SGD step with learning rate 1 moves the weights by the gradient."""
    policy = make_policy(torch.float64)
    config = replace(first_step(0.8, micro_batch_size=micro), max_grad_norm=float("inf"))
    batch = small_batch(policy)
    other = [2 * array for array in batch.advantages]
    found, doubled = policy_gradients(
        policy, trajectories_of(batch), [batch.advantages, other], config
    )
    before = torch.cat([p.detach().flatten() for p in policy.parameters()])
    updater = with_sgd(Updater(policy, None, config, budget=1))
    updater.update(batch, np.random.default_rng(0))
    after = torch.cat([p.detach().flatten() for p in policy.parameters()])
    assert torch.norm(found) > 1e-3
    assert torch.norm(before - after - found) < 1e-10 * torch.norm(found)
    assert torch.norm(doubled - 2 * found) < 1e-10 * torch.norm(found)


@pytest.mark.parametrize(
    ("agent_class", "config_class", "more", "name"),
    [
        (RLOO, RLOOConfig, {"beta": 0.0}, "rloo"),
        (GRPO, GRPOConfig, {"beta": 0.0}, "grpo"),
        (VinePPO, VinePPOConfig, {"num_rollouts": 2, "reuse": False}, "paper:2"),
        (VinePPO, VinePPOConfig, {"num_rollouts": 2}, "reuse:2"),
    ],
)
def test_advantages_are_the_agents_own(tmp_path, agent_class, config_class, more, name):
    agent = agent_class(config_class(model="tiny", **SMALL | {"num_prompts": 2} | more), tmp_path)
    answers, credit = collected(agent)
    if estimator_of(name).values_states:
        for answer in answers:
            mark_states(agent.env, answer)
    found = estimator_of(name).credit(agent.sampler, answers, SMALL["num_generations"], 1)
    for ours, theirs in zip(found.advantages, credit.tokens, strict=True):
        assert np.array_equal(ours, theirs)
    assert found.tokens == credit.metrics.get("vine/tokens", 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rlo", "Did you mean 'rloo'"),
        ("paper:x", "whole number >= 1, got 'x'"),
        ("ppo", "ppo needs a critic"),
    ],
)
def test_a_wrong_estimator_is_named(name, message):
    with pytest.raises(ValueError, match=message):
        estimator_of(name)
