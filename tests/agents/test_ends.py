"""The environment ends exactly where the engine stopped: EOS, stop string and budget, every mix."""

from itertools import product
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig

from agents.core.rollout import Sampler, start_of
from agents.engines.hf import HFEngine
from lang_env import Problem
from lang_env.env import TokenEnv

STOP = "ab"


class ScriptedModel(torch.nn.Module):
    """A model that says one sequence, whatever it is given."""

    device = torch.device("cpu")

    def __init__(self, script, vocab_size):
        super().__init__()
        self.config = LlamaConfig(num_hidden_layers=1)
        self.script, self.vocab_size, self.place = script, vocab_size, 0

    def forward(self, input_ids, cache=None, past_key_values=None, **kwargs):
        logits = torch.zeros(len(input_ids), 1, self.vocab_size)
        logits[:, :, self.script[self.place]] = 50.0
        self.place += 1
        return SimpleNamespace(logits=logits)


def _expected(env, script, budget):
    """Where and why an episode ends, by the definition in the design."""
    for length in range(1, budget + 1):
        if script[length - 1] == env.tokenizer.eos_token_id:
            return length, True
        if STOP in env.tokenizer.decode(script[:length]):
            return length, True
    return budget, False


@pytest.mark.parametrize("budget", [2, 3, 4])
@pytest.mark.parametrize("max_length", [None, 7])
def test_every_combination_of_the_last_two_tokens(budget, max_length):
    env = TokenEnv(
        [Problem("p", "q?", "1")], prompt="plain", max_prompt_tokens=8, max_new_tokens=budget,
        max_length=max_length, stop=(STOP,),
    )  # fmt: skip
    tokenizer = env.tokenizer
    (a,), (b,), (other,) = (tokenizer.encode(text) for text in "abz")
    eos, bos = tokenizer.eos_token_id, tokenizer.bos_token_id
    reasons = set()
    for last in product([a, b, other, eos, bos], repeat=2):
        for first in ([], [a], [other], [a, other])[: budget - 1]:
            script = [*first, *last, other, other][:budget]
            start = start_of(env, 0, index=0)
            assert start.budget == min(budget, (max_length or 99) - len(start.tokens))
            engine = HFEngine(ScriptedModel(script, len(tokenizer)), len(tokenizer))
            sampler = Sampler(engine, env, seed=0, temperature=0.0)
            ((trajectory,),) = sampler.sample([start], 1, iteration=1, purpose="test")
            length, terminated = _expected(env, script, start.budget)
            assert trajectory.response == script[:length]
            assert (trajectory.terminated, trajectory.truncated) == (terminated, not terminated)
            reasons.add((terminated, script[length - 1] == eos))
    assert reasons == {(True, True), (True, False), (False, False)}
