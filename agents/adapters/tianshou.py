"""Stock tianshou algorithms on our environments: an actor and a critic made of a causal LM.

    python examples/tianshou_ppo.py

tianshou asks for one action at a time, so every token costs a forward pass over the whole text, and
its buffer keeps two padded observations a token. That suits small vocabularies and small models;
the agents of this package are for language models proper.

tianshou's vector environments and Collector take our environments as they are::

    envs = DummyVectorEnv([lambda: BudgetEnds(gym.make(name)) for _ in range(16)])

``BudgetEnds`` matters: where an episode is truncated, tianshou's PPO goes on with what the critic
says of a state that no episode ever continues from, and the policy learns to run out of budget.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from tianshou.utils.net.common import ActionReprNet
from torch import Tensor, nn

from agents.core.critic import ValueHead
from agents.core.policy import Policy


def last_hidden(trunk: Any, observation: Any, device: torch.device) -> Tensor:
    """Returns the hidden state after the last token of each observation, [B, H].

    Args:
        trunk: A transformers model without its head.
        observation: Has ``tokens`` [B, L], right padded, and ``length`` [B, 1], each >= 1: a Batch
            of tianshou or anything with these two attributes.
        device: Where the trunk is.

    Raises:
        ValueError: There is nothing to go on from: a length is 0.
    """
    tokens = torch.as_tensor(observation.tokens, device=device, dtype=torch.long)  # [B, L]
    length = torch.as_tensor(observation.length, device=device, dtype=torch.long).reshape(-1)
    if int(length.min()) < 1:
        raise ValueError(
            "an observation of length 0 has no token to go on from; give the environment a prompt "
            "template or a tokenizer with a BOS token"
        )
    # The padding stands on the right, where a causal model never looks.
    hidden: Tensor = trunk(input_ids=tokens[:, : int(length.max())], use_cache=False)[0]
    return hidden[torch.arange(len(hidden), device=device), length - 1]


class BudgetEnds(gym.Wrapper[Any, Any, Any, Any]):
    """Ends an episode at its token budget for good: terminated, with the environment's reward.

    The budget is part of the task then, and the value of an answer that ran out of it is what the
    environment paid, ``unfinished_reward``.
    """

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps; never truncated."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated or truncated, False, info


class CausalLMActor(ActionReprNet[Any]):
    """Gives the logits of the next token; pass it to tianshou's ``DiscreteActorPolicy``.

    Ids beyond the tokenizer's have no logit, as everywhere in this package.
    """

    def __init__(self, policy: Policy, temperature: float = 1.0) -> None:
        """Wraps a policy.

        Args:
            policy: What is trained.
            temperature: Divides the logits.

        Raises:
            ValueError: The temperature is not above 0.
        """
        super().__init__()
        if temperature <= 0:
            raise ValueError(f"temperature must be > 0, got {temperature}")
        self.policy, self.temperature = policy, temperature

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[Tensor, Any]:
        """Returns logits [B, V], and the state as it came: there is none."""
        model = self.policy.model
        hidden = last_hidden(model.base_model, obs, self.policy.device)
        logits = model.get_output_embeddings()(hidden)[:, : self.policy.vocab_size]
        return logits.float() / self.temperature, state


class CausalLMCritic(nn.Module):
    """Gives the value of the state before the next token; pass it to tianshou's ``PPO``.

    Give it the actor's policy to share the trunk with it, or another to keep them apart.
    """

    def __init__(self, policy: Policy, seed: int = 0) -> None:
        """Wraps a policy and adds a value head; ``seed`` makes its weights."""
        super().__init__()
        self.policy, self.head = policy, ValueHead(policy.model, seed)

    def forward(self, obs: Any) -> Tensor:
        """Returns values, [B, 1]."""
        values: Tensor = self.head(
            last_hidden(self.policy.model.base_model, obs, self.policy.device)
        )
        return values.float()
