"""A small policy with spread-out logits; importable, so that spawned processes make the same."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agents.core.policy import Policy


def small_policy(dtype=torch.float64, vocab_size=12, seed=0) -> Policy:
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
