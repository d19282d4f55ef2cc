"""The sweep of engine hf samples what level after level of ``generate`` would sample."""

import copy

import numpy as np
import pytest
import torch
from policies import small_policy
from toy import by_levels
from transformers import MistralConfig, MistralForCausalLM

from agents.core.streams import stream_key
from agents.engines.base import SamplingParams, SweepEngine
from agents.engines.hf import HFEngine

V, EOS = 12, 2
PROMPTS = {0: [1], 1: [1, 3, 4, 5, 7], 2: [1, 3], 7: [1, 3]}
"""By tree; two trees have the same prompt."""


class Stops:
    """EOS, and a 6 after another 6 or a 5 of the response, as if they spelled stop strings."""

    stop_candidates = frozenset({EOS, 6})

    def finish(self, response):
        if response[-1] == EOS:
            return "stop_token"
        return "stop_string" if list(response[-2:]) in ([5, 6], [6, 6]) else None


@pytest.fixture(scope="module")
def model():
    return small_policy().model  # float64, two query heads share a key and value head


def _states(model, budget=12, answers=3):
    """States on the paths of sampled answers: (tree, tokens, what is left of the budget)."""
    prompts = list(PROMPTS.items())
    sampling = SamplingParams(
        1.0, 1.0, [budget] * len(prompts),
        [[stream_key("answer", tree, j) for j in range(answers)] for tree, _ in prompts], Stops(),
    )  # fmt: skip
    groups = HFEngine(model, V).generate([prompt for _, prompt in prompts], sampling)
    found = {}
    for (tree, prompt), group in zip(prompts, groups, strict=True):
        for row in group:
            for border in range(0, len(row.tokens), 2):
                found[tree, (*prompt, *row.tokens[:border])] = budget - border
    return [(tree, list(tokens), left) for (tree, tokens), left in sorted(found.items())]


def _sampling(states, lacks, progress=None, **changes):
    values = {"temperature": 1.0, "top_p": 1.0} | changes
    return SamplingParams(
        max_new_tokens=[left for _, _, left in states],
        streams=[
            [stream_key(tree, tokens, j) for j in range(lack)]
            for (tree, tokens, _), lack in zip(states, lacks, strict=True)
        ],
        stop=Stops(),
        written=[len(tokens) - len(PROMPTS[tree]) for tree, tokens, _ in states],
        **({"progress": progress} if progress else {}),
        **values,
    )


def _levels(engine, states, sampling):
    return by_levels(engine, [row[1] for row in states], [row[0] for row in states], sampling)


def _sweep(engine, states, sampling):
    return engine.sweep(
        [tokens for _, tokens, _ in states], [tree for tree, _, _ in states], sampling
    )


def _tokens(groups):
    return [[(c.tokens, c.finish_reason) for c in group] for group in groups]


@pytest.mark.parametrize("changes", [{}, {"top_p": 0.8}, {"temperature": 0.7}])
@pytest.mark.parametrize("most", [1, 9])
def test_samples_what_level_after_level_would(model, most, changes):
    states = _states(model)
    rng = np.random.default_rng(most)
    sampling = _sampling(states, rng.integers(1, most + 1, len(states)), **changes)
    engine = HFEngine(model, V)
    groups, expected = _sweep(engine, states, sampling), _levels(engine, states, sampling)
    assert _tokens(groups) == _tokens(expected)
    for group, other in zip(groups, expected, strict=True):
        for one, two in zip(group, other, strict=True):
            np.testing.assert_allclose(one.log_probs, two.log_probs, atol=1e-5)
    counts = [len(group) for group in groups]
    assert sum(counts) < sum(map(len, sampling.streams)), "some states were served from above"
    if most == 9 and not changes:
        reasons = {c.finish_reason for group in groups for c in group}
        assert reasons == {"stop_token", "stop_string", "length"}, "the case covers every end"


def test_the_batch_changes_nothing(model):
    states = _states(model)
    sampling = _sampling(states, [3] * len(states))
    whole = _sweep(HFEngine(model, V), states, sampling)
    split = _sweep(HFEngine(model, V, max_rows=1), states, sampling)
    assert _tokens(split) == _tokens(whole)
    order = np.random.default_rng(0).permutation(len(states)).tolist()
    shuffled = _sweep(HFEngine(model, V), [states[i] for i in order], sampling.of(order))
    assert _tokens(shuffled) == _tokens([whole[i] for i in order])


def test_a_prompt_alone_is_generated(model):
    states = [(0, [1], 9)]
    sampling = _sampling(states, [4])
    engine = HFEngine(model, V)
    assert _tokens(_sweep(engine, states, sampling)) == _tokens(engine.generate([[1]], sampling))


def test_a_stop_string_may_begin_before_the_state(model):
    """5 is response already, so a 6 ends it; where 5 is prompt, it does not."""
    sampling = SamplingParams(1.0, 1.0, [4], [list(range(300))], Stops(), written=[1])
    engine = HFEngine(model, V)
    for groups in (engine.generate([[1, 5]], sampling), engine.sweep([[1, 5]], [0], sampling)):
        began = [c for c in groups[0] if c.tokens[0] == 6]
        assert began
        assert all(c.tokens == [6] and c.finish_reason == "stop_string" for c in began)
    prompt = SamplingParams(1.0, 1.0, [4], [list(range(300))], Stops())
    assert any(
        len(c.tokens) > 1 for c in engine.sweep([[1, 5]], [0], prompt)[0] if c.tokens[0] == 6
    )


def test_progress_is_told_of_every_rollout_and_may_stop_the_sweep(model):
    states, told = _states(model), []
    sampling = _sampling(states, [2] * len(states), lambda *counts: told.append(counts))
    model.train()
    groups = _sweep(HFEngine(model, V), states, sampling)
    assert model.training
    rows = [row for group in groups for row in group]
    assert np.sum(told, 0).tolist() == [len(rows), sum(len(row.tokens) for row in rows)]

    def stop(*counts):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _sweep(HFEngine(model, V), states, _sampling(states, [2] * len(states), stop))
    assert model.training, "the mode comes back"
    model.eval()


def test_models_that_forget_tokens_cannot_sweep(model):
    config = MistralConfig(
        vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, sliding_window=4,
    )  # fmt: skip
    engine = HFEngine(MistralForCausalLM(config), V)
    assert isinstance(engine, SweepEngine)
    assert not engine.can_sweep()
    assert HFEngine(model, V).can_sweep()


def test_half_precision_models_sweep(model):
    half = copy.deepcopy(model).to(torch.bfloat16)
    states = _states(model)
    groups = _sweep(HFEngine(half, V), states, _sampling(states, [2] * len(states)))
    assert sum(map(len, groups)) > 0
