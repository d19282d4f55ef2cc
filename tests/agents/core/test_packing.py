"""Packed rows: the numbers that examples have alone, and a refusal where a model's differ."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import MambaConfig, MambaForCausalLM

from agents.core.lora import add_lora
from agents.core.packing import check_packing, pack, packed
from agents.core.policy import Policy, Sequences

PROMPTS = [[1, 4, 5], [2], [7, 3], [9, 9, 1, 2], [5]]
RESPONSES = [[6, 2], [8, 3, 4, 2], [1], [10, 11, 2], [3]]
ROWS = [[3, 1], [0, 2, 4]]  # of unlike lengths, so that one is padded


def _results(policy, batch):
    """Log-probabilities of all response tokens and the gradient of a weighted sum of them."""
    log_probs = policy(batch, 0.8).log_probs[batch.mask]
    (log_probs * batch.targets[batch.mask].add(1).sqrt()).sum().backward()
    gradient = torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])
    policy.zero_grad()
    return log_probs.detach(), gradient


def _apart():
    order = [i for row in ROWS for i in row]
    cpu = torch.device("cpu")
    return Sequences.of([PROMPTS[i] for i in order], [RESPONSES[i] for i in order], cpu)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("prepare", ["plain", "checkpointing", "lora"])
def test_packed_examples_have_the_numbers_that_they_have_alone(
    make_policy, dtype, bound, attention, prepare
):
    policy = make_policy(dtype)
    policy.model.set_attn_implementation(attention)
    if prepare == "lora":
        add_lora(policy, rank=2, alpha=4, seed=0)
    policy.save_memory(gradient_checkpointing=prepare == "checkpointing")
    check_packing(policy)
    log_probs, gradient = _results(policy, _apart())
    together, other = _results(policy, packed(PROMPTS, RESPONSES, ROWS, torch.device("cpu")))
    assert (together - log_probs).norm() <= bound * log_probs.norm()
    assert (other - gradient).norm() <= bound * gradient.norm()


def test_positions_are_what_keeps_examples_apart(make_policy):
    """Without them the bound above is missed by far."""
    policy = make_policy()
    batch = packed(PROMPTS, RESPONSES, ROWS, torch.device("cpu"))
    leaking = Sequences(batch.tokens, batch.source, batch.targets, batch.mask)
    apart, together = (_results(policy, x)[0] for x in (_apart(), leaking))
    assert (together - apart).norm() > 0.01 * apart.norm()


def test_rows_of_one_example_are_the_unpacked_batch():
    batch = packed(PROMPTS, RESPONSES, [[1], [0]], torch.device("cpu"))
    assert batch.positions is None
    assert batch.tokens.tolist() == [[2, 8, 3, 4, 2], [1, 4, 5, 6, 2]]


def test_a_recurrent_model_is_refused():
    config = MambaConfig(vocab_size=16, hidden_size=8, state_size=4, num_hidden_layers=1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        policy = Policy(MambaForCausalLM(config).eval(), 16)
    with pytest.raises(ValueError, match="packing is not exact for MambaForCausalLM"):
        check_packing(policy)


@given(st.lists(st.integers(1, 12)), st.integers(1, 20))
def test_rows_hold_every_example_once_within_the_limit(lengths, limit):
    rows = pack(lengths, limit)
    assert sorted(i for row in rows for i in row) == list(range(len(lengths)))
    assert all(len(row) == 1 or sum(lengths[i] for i in row) <= limit for row in rows)
