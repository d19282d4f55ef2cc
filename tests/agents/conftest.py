"""A small random model and a tokenizer stand-in, shared by the tests of the agents."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agents.core.policy import Policy

torch.set_num_threads(1)


@pytest.fixture
def make_policy():
    """Returns a function that makes a small policy with spread-out logits."""

    def make(dtype=torch.float64, vocab_size=12, seed=0) -> Policy:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            config = LlamaConfig(
                vocab_size=16,  # wider than the tokenizer, as real models are
                hidden_size=32,
                intermediate_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                num_key_value_heads=1,
                max_position_embeddings=64,
            )
            model = LlamaForCausalLM(config).eval()
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    torch.nn.init.normal_(parameter, std=0.3)
        return Policy(model.to(dtype), vocab_size)

    return make
