"""States by the environment's names: sound ones are unbiased, and share more than tokens do."""

import numpy as np
import pytest

from agents.analysis.exact import TableMDP, two_token_mdp
from agents.analysis.expectation import expectation
from agents.core.named_states import NamedStates
from agents.core.values import monte_carlo_values, state_keys
from agents.vineppo import VinePPO, VinePPOConfig, main
from benchmarks.exact_controls import cut_before_ones, forgetful_name, named_states
from benchmarks.exact_mdp import ROWS_BY_NAME
from lang_env.segmenters import Segmenter


def counting_mdp():
    """An MDP that remembers only how many tokens there were, and how many of them were ones."""

    def policy(prefix):
        one = 0.2 + 0.6 * np.random.default_rng([5, len(prefix), sum(prefix)]).random()
        return 1 - one, one

    return TableMDP(2, 3, policy, lambda answer: sum(answer) in (1, 3))


def test_a_sound_name_is_unbiased_and_needs_fewer_rollouts():
    mdp = counting_mdp()
    found = expectation(mdp, named_states, state_key=forgetful_name)
    by_tokens = expectation(mdp, ROWS_BY_NAME["VinePPO reuse K=1"].estimate)
    assert np.abs(mdp.gradient).max() > 0.1
    assert found.gradient_bias < 1e-12
    assert found.value_bias_given_answer < 1e-12
    assert found.fresh < by_tokens.fresh


def test_the_same_name_is_biased_where_it_forgets_something():
    mdp = two_token_mdp()
    found = expectation(mdp, named_states, state_key=forgetful_name)
    assert found.value_bias > 0.05
    assert found.gradient_bias > 0.05 * np.abs(mdp.gradient).max()


def test_without_a_name_the_tokens_are_it():
    mdp = two_token_mdp()
    nameless = expectation(mdp, named_states, state_key=lambda tokens: None)
    by_tokens = expectation(mdp, ROWS_BY_NAME["VinePPO reuse K=1"].estimate)
    assert nameless.gradient_bias < 1e-12
    assert nameless.fresh == pytest.approx(by_tokens.fresh)
    assert nameless.advantage_variance == pytest.approx(by_tokens.advantage_variance)


def test_borders_that_look_ahead_are_refused():
    segmenter = Segmenter("ahead", False, cut_before_ones)
    with pytest.raises(ValueError, match="needs a causal segmenter, and ahead looks ahead"):
        expectation(two_token_mdp(), named_states, segmenter=segmenter, state_key=forgetful_name)
    with pytest.raises(ValueError, match=r"has no state_key\. Set --state_key tokens"):
        expectation(two_token_mdp(), named_states)


def test_the_agent_refuses_what_has_no_names(tmp_path, capsys):
    with pytest.raises(ValueError, match="state_key=env and reuse=False"):
        VinePPOConfig(state_key="env", reuse=False)
    arguments = ["--env_kwargs", '{"problems": "word"}', "--state_key", "env"]
    with pytest.raises(SystemExit):
        main([*arguments, "--output_dir", str(tmp_path / "run")])
    assert "names its states" in capsys.readouterr().err


def test_the_embedded_policy_shares_more_by_name(tmp_path):
    """Fewer states for the same answers; each answer keeps K samples of each of its states."""
    config = VinePPOConfig(
        model="tiny", max_new_tokens=80, num_prompts=4, num_generations=4, temperature=1.0,
        top_p=1.0, eval_problems=0, threads=1, state_key="env",
    )  # fmt: skip
    agent = VinePPO(config, tmp_path)
    answers = agent.collect(1, lambda *counts: None)
    names = NamedStates(agent.env)
    named = monte_carlo_values(agent.sampler, answers, 2, iteration=1, named=True)
    distinct = {key for answer in answers for key in state_keys(answer)}
    assert named.metrics["vine/unique_states"] < len(distinct)
    assert 0 < named.metrics["vine/answered_without_rollout"] < 1
    for owner, answer in enumerate(answers):
        keys = names.keys(answer, answer.borders)
        assert len(set(keys)) == len(keys), "no answer passes the same name twice"
        assert len(named.values[owner]) == len(keys)
    assert named.metrics["vine/k_effective"] >= 2
