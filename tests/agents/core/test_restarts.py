"""Groups that start inside answers: the gradient that they estimate, and what they are made of."""

import json

import numpy as np
import pytest
from commands import SMALL, flags, metrics_of
from exact import MDP, ExactEngine, ExactEnv, outcomes, score

from agents.core.advantages import rloo_advantages
from agents.core.restarts import inner_starts
from agents.core.rollout import Sampler, start_of
from agents.grpo import GRPO, GRPOConfig, main

INNER = SMALL | {"restart": "inner"}


def _gradient_of_value(prefix):
    """Returns the gradient of V(prefix): a sum over answers, the prefix held fixed."""
    total = np.zeros_like(MDP.gradient)
    rests, chances = MDP.continuations(prefix)
    for rest, chance in zip(rests, chances, strict=True):
        answer = (*prefix, *rest)
        scores = sum(score(answer[:t], answer[t]) for t in range(len(prefix), len(answer)))
        total += chance * MDP.rewards[answer] * scores
    return total


def test_the_gradient_of_the_value_of_the_prompt_is_the_true_one():
    np.testing.assert_allclose(_gradient_of_value(()), MDP.gradient, atol=1e-15)


def test_the_gradient_is_that_of_the_mean_value_of_inner_states():
    """All joint outcomes: the first answer, which of its borders, and two answers from there."""
    env = ExactEnv(lambda response: [0, *(t for t in (1, 2) if response[t - 1] == 1)])

    def run(chooser):
        def pick(slot, borders):
            return chooser.choose((1 / borders,) * borders)

        sampler = Sampler(ExactEngine(chooser), env, 0, 1.0)
        starts, _ = inner_starts(sampler, [start_of(env, 0)], 1, pick)
        rows = sampler.sample(starts, 2, iteration=1, purpose="rollout")[0]
        advantages = rloo_advantages([[row.reward for row in rows]])[0]
        total = 0.0
        for row, advantage in zip(rows, advantages, strict=True):
            prefix = tuple(row.start.tokens[1:])
            for t, token in enumerate(row.response):
                total = total + advantage * score((*prefix, *row.response[:t]), token) / 2
        return total

    expected = sum(chance * gradient for chance, gradient in outcomes(run))
    truth = 0.0
    for answer in MDP.answers:
        borders = env.segmenter(answer, None)
        for border in borders:
            share = MDP.chance(answer) / len(borders)
            truth = truth + share * _gradient_of_value(answer[:border])
    assert np.abs(expected - truth).max() < 1e-12
    assert np.abs(truth - MDP.gradient).max() > 0.01, "not the gradient of the prompt's value"


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    return GRPO(GRPOConfig(**INNER), tmp_path_factory.mktemp("grpo"))


def test_a_group_shares_the_state_it_starts_from(agent):
    rows = agent.collect(1, lambda *_: None)
    groups = [rows[i : i + 4] for i in range(0, len(rows), 4)]
    assert any(group[0].start.written for group in groups)
    tokenizer = agent.env.tokenizer
    for group in groups:
        start = group[0].start
        assert all(row.start is start for row in group)
        written = start.tokens[len(start.tokens) - start.written :]
        assert list(start.snapshot.response) == written
        assert max(len(row.response) for row in group) <= start.budget
        text = tokenizer.decode(written)
        assert not text or text.endswith("\n"), "groups start at step borders"
    assert 0 < agent.collected["restart/depth"] < 1
    again = [row.response for row in agent.collect(1, lambda *_: None)]
    assert again == [row.response for row in rows]


def test_the_first_answers_are_counted_as_tokens_and_shown_as_written(tmp_path):
    assert main(flags(INNER, output_dir=tmp_path / "run")) == 0
    total = 0
    for line in metrics_of(tmp_path / "run"):
        answers = SMALL["num_prompts"] * SMALL["num_generations"]
        assert line["restart/tokens"] > 0
        total += line["completions/mean_length"] * answers + line["restart/tokens"]
        assert line["num_tokens"] == pytest.approx(total)
    samples = (tmp_path / "run/samples.jsonl").read_text().splitlines()
    assert all(json.loads(line)["steps"] for line in samples)


def test_restarts_refuse_resampling():
    with pytest.raises(ValueError, match="restart=inner and zero_spread=resample do not go"):
        GRPOConfig(**INNER, zero_spread="resample")
