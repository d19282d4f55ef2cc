"""An engine of one's own: the same answers as the built-in one, and usable from the command."""

import importlib

import numpy as np
import pytest
import torch
from commands import SMALL, flags, metrics_of
from transformers import LlamaConfig, LlamaForCausalLM

from agents.engines.base import SamplingParams
from agents.engines.hf import HFEngine


class Stops:
    stop_candidates = frozenset({3, 5})

    def finish(self, response):
        return "stop_token" if response[-1] == 5 else None


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = {"vocab_size": 16, "hidden_size": 32, "intermediate_size": 32}
        heads = {"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 32}
        return LlamaForCausalLM(LlamaConfig(**sizes, **heads)).eval()


@pytest.fixture
def engine_class():
    return importlib.import_module("custom_engine").PlainEngine


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 0.8), (0.0, 1.0)])
def test_it_gives_what_the_built_in_engine_gives(model, engine_class, temperature, top_p):
    told = []
    sampling = SamplingParams(
        temperature, top_p, [4, 9], [[1, 2, 3], [4, 5]], Stops(), lambda *news: told.append(news)
    )
    prompts = [[1, 2, 3], [7]]
    expected = HFEngine(model, 12).generate(prompts, sampling)
    told.clear()
    found = engine_class(model, 12).generate(prompts, sampling)
    for group, same in zip(found, expected, strict=True):
        for one, other in zip(group, same, strict=True):
            assert (one.tokens, one.finish_reason) == (other.tokens, other.finish_reason)
            np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-5)
    assert sum(count for count, _ in told) == 5
    assert sum(tokens for _, tokens in told) == sum(len(c.tokens) for group in found for c in group)


def test_the_command_takes_it(tmp_path):
    settings = SMALL | {"iterations": 1, "num_prompts": 1, "num_generations": 2, "eval_problems": 0}
    settings |= {"engine": "custom_engine:PlainEngine", "max_new_tokens": 12}
    main = importlib.import_module("agents.rloo").main
    assert main(flags(settings, output_dir=tmp_path / "run")) == 0
    (line,) = metrics_of(tmp_path / "run")
    assert line["sampling/sampling_logp_difference/max"] < 1e-3
