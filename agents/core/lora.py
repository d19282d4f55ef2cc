"""LoRA through peft: small trained matrices beside frozen weights.

The reference policy is the same model with the adapters off, so that no second copy is kept. The
adapters are put into the model itself, whose class and interface stay as they are: engines and
critics need to know nothing of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from agents.core.policy import Policy, Sequences


def add_lora(policy: Policy, *, rank: int, alpha: int, seed: int) -> Policy:
    """Freezes a policy's weights, puts adapters beside its linear layers, and returns it.

    Args:
        policy: Changed in place; its outputs stay what they were, as adapters start at 0.
        rank: Inner size of the adapters (r).
        alpha: They are scaled by alpha / rank.
        seed: Of their weights; the global random state is left as it was.

    Raises:
        ValueError: peft is not installed.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise ValueError(
            "--lora_r needs peft, which is not installed. Run: pip install 'lang-env[lora]', or "
            "set --lora_r 0."
        ) from None
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear")
    policy.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, policy.model)
    policy.has_adapters = True
    return policy


class AdaptersOff(Policy):
    """The policy without its adapters: what it was before training."""

    def __init__(self, policy: Policy) -> None:
        """Shares the weights of ``policy``."""
        super().__init__(policy.model, policy.vocab_size)
        self.bf16 = policy.bf16

    def hidden(self, batch: Sequences) -> Tensor:
        """Returns the last hidden states of the frozen weights, [M, H]."""
        with _adapters_off(self.model):
            return super().hidden(batch)


def merged(model: Any) -> Any:
    """Returns a copy of a model with its adapters added to the weights, without a trace of peft."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    result = copy.deepcopy(model)
    layers = [(n, m) for n, m in result.named_modules() if isinstance(m, BaseTunerLayer)]
    for name, layer in layers:
        layer.merge()
        parent, _, child = name.rpartition(".")
        setattr(result.get_submodule(parent), child, layer.get_base_layer())
    return result


def adapter_state(policy: Policy) -> dict[str, Tensor]:
    """Returns the weights that are trained, by name."""
    named = policy.model.named_parameters()
    return {name: weight.detach() for name, weight in named if weight.requires_grad}


def load_adapter_state(policy: Policy, state: Mapping[str, Tensor]) -> None:
    """Gives the adapters the weights that ``adapter_state`` returned.

    Raises:
        KeyError: One of them is missing.
        RuntimeError: One of them has another shape.
    """
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if weight.requires_grad:
                weight.copy_(state[name])


@contextmanager
def _adapters_off(model: Any) -> Iterator[None]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)
