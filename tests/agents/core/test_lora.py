"""LoRA: starts as the policy was, trains adapters alone, and is saved as a plain model."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import SMALL, flags, metrics_of
from transformers import AutoModelForCausalLM
from updates import CONFIG, flat_parameters, small_batch

from agents.core.checkpoint import save_model
from agents.core.lora import add_lora
from agents.core.update import Updater
from agents.grpo import main
from lang_env.tokenizers import load_tokenizer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what peft's imports warn about is not ours to mend
    pytest.importorskip("peft", reason="peft is not installed (pip install '.[lora]')")


def _log_probs(policy, batch):
    updater = Updater(policy, None, CONFIG)
    return np.concatenate(updater.log_probs(policy, batch))


def test_adapters_start_as_the_policy_was_and_the_reference_stays_there(make_policy):
    policy = make_policy()
    batch, weights = small_batch(policy), flat_parameters(policy)
    before = np.concatenate(batch.engine_log_probs)
    add_lora(policy, rank=4, alpha=8, seed=0)
    reference = policy.frozen_copy()
    np.testing.assert_allclose(_log_probs(policy, batch), before, rtol=1e-12)
    updater = Updater(policy, reference, replace(CONFIG, updates_per_batch=3, learning_rate=0.05))
    metrics = updater.update(batch, np.random.default_rng(0))
    assert metrics["updates"] > 0
    assert np.abs(_log_probs(policy, batch) - before).max() > 1e-3
    np.testing.assert_allclose(_log_probs(reference, batch), before, rtol=1e-12)
    frozen = [p for name, p in policy.named_parameters() if "lora" not in name]
    assert torch.equal(torch.cat([p.detach().flatten() for p in frozen]), weights)
    trained = {name for name, p in policy.named_parameters() if p.requires_grad}
    assert trained
    assert all("lora" in name for name in trained), "also after the reference's pass"


def test_a_seed_makes_the_adapters_and_leaves_the_global_state_alone(make_policy):
    state = torch.random.get_rng_state()
    first, again, other = (
        flat_parameters(add_lora(make_policy(), rank=4, alpha=8, seed=seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_checkpoint_holds_the_sum_and_nothing_of_peft(make_policy, tmp_path):
    policy = add_lora(make_policy(torch.float32), rank=4, alpha=8, seed=0)
    batch = small_batch(policy)
    config = replace(CONFIG, beta=0.0, learning_rate=0.05)
    Updater(policy, None, config).update(batch, np.random.default_rng(0))
    save_model(policy, load_tokenizer("builtin"), tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert not any("lora" in name for name, _ in loaded.named_parameters())
    tokens = torch.tensor([[1, 3, 5, 7]])
    with torch.no_grad():
        torch.testing.assert_close(
            loaded(tokens).logits, policy.model(tokens).logits, rtol=1e-4, atol=1e-4
        )
    assert any("lora" in name for name, _ in policy.named_parameters()), "the policy keeps them"


def test_the_command_trains_adapters(tmp_path):
    settings = SMALL | {"lora_r": 4, "beta": 0.01, "gradient_checkpointing": "true", "bf16": "true"}
    assert main(flags(settings, output_dir=tmp_path / "run")) == 0
    lines = metrics_of(tmp_path / "run")
    assert lines[0]["kl"] < 1e-4, "the reference is the policy's start"
    # The engine computes in float32: what bfloat16 costs is logged, and small.
    assert lines[0]["sampling/sampling_logp_difference/mean"] < 0.05
    AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "checkpoints" / "step-2")
