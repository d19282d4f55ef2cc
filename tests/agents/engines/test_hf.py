"""Engine hf: exact sampling, streams that do not depend on the batch, stops and budgets."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agents.core.streams import stream_key
from agents.engines.base import SamplingParams, make_engine
from agents.engines.hf import HFEngine, sample_inverse

V, EOS = 12, 2


class NoStops:
    """Nothing ends a response but its budget."""

    stop_candidates = frozenset()

    def finish(self, response):
        raise AssertionError("no id is a candidate")


class Stops:
    """EOS, and the sequence 5 6 as if it spelled a stop string."""

    stop_candidates = frozenset({EOS, 6})

    def finish(self, response):
        if response[-1] == EOS:
            return "stop_token"
        return "stop_string" if list(response[-2:]) == [5, 6] else None


@pytest.fixture(scope="module")
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=16, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
        )  # fmt: skip
        model = LlamaForCausalLM(config).eval().double()
        for parameter in model.parameters():
            if parameter.ndim > 1:  # far from uniform
                torch.nn.init.normal_(parameter, std=0.3)
        return model


def _sampling(prompts, n=1, budget=10, **changes):
    values = {"temperature": 1.0, "top_p": 1.0, "stop": Stops()} | changes
    streams = [[stream_key(p, j) for j in range(n)] for p in prompts]
    return SamplingParams(
        max_new_tokens=[budget] * len(prompts) if isinstance(budget, int) else budget,
        streams=streams, **values,
    )  # fmt: skip


def _slow(model, prompt, key, budget, temperature=1.0):
    """The same sample by full forward passes, one token at a time."""
    from agents.core.streams import uniforms

    tokens, log_probs = [], []
    for position in range(budget):
        logits = model(input_ids=torch.tensor([prompt + tokens])).logits[0, -1, :V].float()
        scores = torch.log_softmax(logits / temperature, -1)
        draw = uniforms(np.array([key], np.uint64), np.array(position, np.uint64))[0]
        token = int((scores.double().exp().cumsum(-1) <= draw).sum())
        tokens.append(token)
        log_probs.append(float(scores[token]))
        if Stops().finish(tokens):
            break
    return tokens, log_probs


PROMPTS = [[1], [1, 3, 4, 5, 7], [1, 3], [1, 9, 9, 9], [1, 3, 4]]


def test_equals_plain_forward_passes(model):
    """The oracle: padding, shared cache, compaction and n change nothing."""
    groups = HFEngine(model, V).generate(PROMPTS, _sampling(PROMPTS, n=7))
    reasons = set()
    with torch.no_grad():
        for prompt, group in zip(PROMPTS, groups, strict=True):
            for ordinal, completion in enumerate(group):
                tokens, log_probs = _slow(model, prompt, stream_key(prompt, ordinal), 10)
                assert completion.tokens == tokens
                np.testing.assert_allclose(completion.log_probs, log_probs, atol=1e-5)
                ended = Stops().finish(tokens) or "length"
                assert completion.finish_reason == ended
                reasons.add(ended)
    assert reasons == {"stop_token", "stop_string", "length"}, "the case must cover every end"


def test_a_sample_depends_neither_on_the_batch_nor_on_order(model):
    engine = HFEngine(model, V)
    together = engine.generate(PROMPTS, _sampling(PROMPTS, n=3))
    reverse = PROMPTS[::-1]
    backwards = engine.generate(reverse, _sampling(reverse, n=3))[::-1]
    assert [[c.tokens for c in g] for g in backwards] == [[c.tokens for c in g] for g in together]
    for prompt, group in zip(PROMPTS, together, strict=True):
        alone = engine.generate([prompt], _sampling([prompt], n=3))[0]
        assert [c.tokens for c in alone] == [c.tokens for c in group]
    small = HFEngine(model, V, max_rows=2).generate(PROMPTS, _sampling(PROMPTS, n=3))
    assert [[c.tokens for c in g] for g in small] == [[c.tokens for c in g] for g in together]


def test_every_prompt_has_its_own_budget(model):
    budgets = [1, 2, 3, 4, 10]
    groups = HFEngine(model, V).generate(PROMPTS, _sampling(PROMPTS, 4, budgets))
    for budget, group in zip(budgets, groups, strict=True):
        for completion in group:
            assert len(completion.tokens) <= budget
            if completion.finish_reason == "length":
                assert len(completion.tokens) == budget
    assert all(len(c.tokens) == 1 for c in groups[0])


def test_greedy_takes_the_most_likely_and_ignores_the_stream(model):
    sampling = _sampling([[1, 3]], n=2, temperature=0.0)
    first, second = HFEngine(model, V).generate([[1, 3]], sampling)[0]
    assert first.tokens == second.tokens
    with torch.no_grad():
        assert first.tokens[0] == int(model(torch.tensor([[1, 3]])).logits[0, -1, :V].argmax())


def test_ids_beyond_the_tokenizer_are_never_sampled(model):
    n = 400
    group = HFEngine(model, 4).generate([[1, 3]], _sampling([[1, 3]], n, 1, stop=NoStops()))[0]
    with torch.no_grad():
        scores = torch.log_softmax(model(torch.tensor([[1, 3]])).logits[0, -1, :4].float(), -1)
    counts = np.bincount([c.tokens[0] for c in group], minlength=4)
    expected = scores.exp().numpy() * n
    assert len(counts) == 4
    assert ((counts - expected) ** 2 / expected).sum() < 16.3  # 0.1 % point, 3 degrees of freedom
    assert {round(c.log_probs[0], 5) for c in group} <= {round(float(s), 5) for s in scores}


@pytest.mark.parametrize(
    ("top_p", "support"),
    [(0.3, {1}), (0.49, {1}), (0.51, {1, 0}), (0.81, {0, 1, 3}), (1.0, {0, 1, 3, 4})],
)
def test_top_p_keeps_the_smallest_set_that_reaches_the_mass(top_p, support):
    scores = torch.tensor([[0.3, 0.5, 0.0, 0.15, 0.05]]).log().expand(1000, -1)
    draws = torch.linspace(0, 1 - 1e-9, 1000, dtype=torch.float64)
    assert set(sample_inverse(scores, draws, top_p).tolist()) == support


def test_bad_values_are_refused(model):
    with pytest.raises(ValueError, match=r"temperature must be >= 0, got -1"):
        _sampling([[1]], temperature=-1.0)
    with pytest.raises(ValueError, match=r"top_p must be in \(0, 1\], got 0"):
        _sampling([[1]], top_p=0.0)
    with pytest.raises(ValueError, match=r"max_new_tokens must be >= 1, got 0"):
        _sampling([[1]], budget=0)
    with pytest.raises(ValueError, match="every prompt needs at least one stream"):
        _sampling([[1]], n=0)
    with pytest.raises(ValueError, match=r"unknown engine 'hff'\. Did you mean 'hf'\?"):
        make_engine("hff", model, V)
