"""The policy's pass: exact log-probabilities, whatever the padding and the chunking."""

import json

import numpy as np
import pytest
import torch

import agents.core.policy as policy_module
from agents.core.loading import load_policy, new_policy, pick_device
from agents.core.policy import Extras, Sequences
from lang_env.tokenizers import load_tokenizer

PROMPTS = [[1, 3, 4], [1], [1, 5, 5, 5, 6, 7]]
RESPONSES = [[5, 6, 2], [7, 7, 7, 7, 2], [2]]


def _batch(prompts=PROMPTS, responses=RESPONSES):
    return Sequences.of(prompts, responses, torch.device("cpu"))


def test_log_probs_and_entropy_equal_a_plain_computation(make_policy):
    policy, temperature = make_policy(), 0.7
    with torch.no_grad():
        stats = policy(_batch(), temperature)
        for row, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True)):
            logits = policy.model(torch.tensor([prompt + response])).logits[0, :, :12]
            scores = torch.log_softmax(logits / temperature, -1)[len(prompt) - 1 : -1]
            expected = scores[range(len(response)), response]
            entropy = -(scores.exp() * scores).sum(-1)
            torch.testing.assert_close(stats.log_probs[row, : len(response)], expected)
            torch.testing.assert_close(stats.entropy[row, : len(response)], entropy)
            assert stats.log_probs[row, len(response) :].tolist() == [0] * (5 - len(response))


def test_ids_beyond_the_tokenizer_take_no_mass(make_policy):
    policy = make_policy()
    with torch.no_grad():
        masses = [
            policy(_batch([[1, 3]], [[token]]), 1.0).log_probs.exp().item() for token in range(12)
        ]
    assert sum(masses) == pytest.approx(1.0, abs=1e-12)


def _gradient(policy, batch):
    policy.zero_grad()
    policy(batch, 1.0).log_probs.sum().backward()
    return torch.cat([p.grad.flatten() for p in policy.parameters()])


def test_padding_chunks_and_order_change_neither_value_nor_gradient(make_policy, monkeypatch):
    policy = make_policy()
    together = _gradient(policy, _batch())
    apart = sum(
        _gradient(policy, _batch([p], [r])) for p, r in zip(PROMPTS, RESPONSES, strict=True)
    )
    torch.testing.assert_close(together, apart, rtol=1e-10, atol=1e-12)
    wide = _batch([*PROMPTS, [1] * 20], [*RESPONSES, [3] * 9])
    wide = Sequences(wide.tokens[:3], wide.source[:3], wide.targets[:3], wide.mask[:3])
    torch.testing.assert_close(together, _gradient(policy, wide), rtol=1e-10, atol=1e-12)
    monkeypatch.setattr(policy_module, "LOGITS_AT_ONCE", 2 * policy.vocab_size)
    torch.testing.assert_close(together, _gradient(policy, _batch()), rtol=1e-10, atol=1e-12)


def test_extras_equal_a_plain_computation(make_policy):
    policy, reference, top_p = make_policy(), make_policy(seed=1), 0.6
    head = torch.nn.Linear(32, 1, dtype=torch.float64)
    with torch.no_grad():
        stats = policy(_batch(), 0.7, Extras(top_p, reference=reference, value_head=head))
        for row, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True)):
            tokens, places = torch.tensor([prompt + response]), slice(len(prompt) - 1, -1)
            values = head(policy.model.model(tokens)[0])[0, places, 0]
            torch.testing.assert_close(stats.values[row, : len(response)], values)
            new, old = (
                torch.log_softmax(model.model(tokens).logits[0, places, :12] / 0.7, -1)
                for model in (policy, reference)
            )
            kl = (new.exp() * (new - old)).sum(-1)
            torch.testing.assert_close(stats.kl[row, : len(response)], kl)
            for place, token in enumerate(response):
                mass, kept = 0.0, {token}
                for probability, index in zip(*new[place].exp().sort(descending=True), strict=True):
                    kept |= {int(index)} if mass < top_p else set()
                    mass += float(probability)
                p = new[place].exp()[sorted(kept)]
                assert stats.log_mass[row, place].exp().item() == pytest.approx(p.sum().item())
                p = p / p.sum()
                entropy = -(p * p.log()).sum().item()
                assert stats.entropy[row, place].item() == pytest.approx(entropy)


def test_chunks_change_no_extra_and_no_gradient(make_policy, monkeypatch):
    policy, reference = make_policy(), make_policy(seed=1)
    extras = Extras(0.6, True, reference, torch.nn.Linear(32, 1, dtype=torch.float64))

    def gradient():
        policy.zero_grad()
        stats = policy(_batch(), 0.7, extras)
        parts = (stats.log_probs, stats.entropy, stats.log_mass, stats.kl, stats.values)
        sum(weight * part.sum() for weight, part in enumerate(parts, 1)).backward()
        return torch.cat([p.grad.flatten() for p in policy.parameters()])

    whole = gradient()
    monkeypatch.setattr(policy_module, "LOGITS_AT_ONCE", 2 * policy.vocab_size)
    torch.testing.assert_close(gradient(), whole, rtol=1e-6, atol=1e-9)
    assert torch.isfinite(whole).all()


def test_recomputed_layers_give_the_same_gradient_and_leave_dropout_off(make_policy, monkeypatch):
    policy = make_policy()
    plain, calls = _gradient(policy, _batch()), []
    for module in policy.model.modules():
        assert not module.training
    policy.save_memory(gradient_checkpointing=True)
    layer = policy.model.model.layers[0]
    layer.mlp.register_forward_pre_hook(lambda *_: calls.append(layer.mlp.training))
    torch.testing.assert_close(_gradient(policy, _batch()), plain, rtol=1e-10, atol=1e-12)
    assert calls == [False, False], "once forward, once more for the backward pass"
    with torch.no_grad():
        policy(_batch(), 1.0)
    assert len(calls) == 3
    assert not any(module.training for module in policy.model.modules())


def test_bf16_products_keep_float32_weights_and_results(make_policy):
    policy = make_policy(torch.float32)
    with torch.no_grad():
        full = policy(_batch(), 1.0).log_probs
        half = policy.save_memory(bf16=True)(_batch(), 1.0).log_probs
        assert torch.equal(policy.frozen_copy()(_batch(), 1.0).log_probs, half)
    assert half.dtype == torch.float32
    assert 1e-6 < (half - full).abs().max() < 0.2
    assert _gradient(policy, _batch()).dtype == torch.float32


def test_the_entropy_has_a_gradient_only_where_it_is_asked_for(make_policy):
    policy = make_policy()
    assert not policy(_batch(), 1.0).entropy.requires_grad
    assert policy(_batch(), 1.0, Extras(entropy_gradient=True)).entropy.requires_grad


def test_a_reference_stays_as_it_was(make_policy):
    policy = make_policy()
    reference = policy.frozen_copy()
    with torch.no_grad():
        before = reference(_batch(), 1.0).log_probs
        for parameter in policy.parameters():
            parameter.add_(1.0)
        assert torch.equal(reference(_batch(), 1.0).log_probs, before)
    assert not any(parameter.requires_grad for parameter in reference.parameters())


def test_a_new_model_is_reproducible_and_leaves_the_global_state_alone():
    tokenizer = load_tokenizer("builtin")
    init = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1,
            "intermediate_size": 32}  # fmt: skip
    state = torch.random.get_rng_state()
    first, second, other = (new_policy(init, tokenizer, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    weights = [p.model.get_input_embeddings().weight for p in (first, second, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert weights[0].shape[0] == len(tokenizer)
    assert first.model.config.eos_token_id == tokenizer.eos_token_id


def test_a_tokenizer_larger_than_the_model_is_refused(tmp_path):
    tokenizer = load_tokenizer("builtin")
    small = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1,
             "num_attention_heads": 1, "intermediate_size": 32}  # fmt: skip
    with pytest.raises(ValueError, match=rf"tokenizer has {len(tokenizer)} ids but the model only"):
        new_policy(small, tokenizer, seed=0)


@pytest.mark.parametrize("content", [None, "{}", "not json"])
def test_a_folder_without_a_model_gets_a_clear_error(tmp_path, content):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"cannot load model .*Pass a folder with"):
        load_policy(str(tmp_path), load_tokenizer("builtin"))


def test_pickled_weights_are_not_read(tmp_path, make_policy):
    policy = make_policy(torch.float32)
    policy.model.config.save_pretrained(tmp_path)
    torch.save(policy.model.state_dict(), tmp_path / "pytorch_model.bin")
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "llama"
    with pytest.raises(ValueError, match="cannot load model"):
        load_policy(str(tmp_path), load_tokenizer("builtin"))


def test_unknown_names():
    with pytest.raises(ValueError, match=r"unknown dtype 'float23'\. Did you mean 'float32'\?"):
        load_policy(None, load_tokenizer("builtin"), dtype="float23")
    assert pick_device("cpu") == torch.device("cpu")
    assert np.isscalar(str(pick_device("auto")))
