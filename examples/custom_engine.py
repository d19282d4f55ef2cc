"""An engine of your own: the shortest one that keeps the contract, without a key-value cache.

    cd examples
    python -m agents.rloo --engine custom_engine:PlainEngine --iterations 5

``--engine`` names a class (or function) that is called with the model and the vocabulary size. What
it returns must continue token ids with token ids: see ``agents/engines/base.py``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from agents.core.streams import uniforms
from agents.engines.base import Completion, SamplingParams
from agents.engines.hf import sample_inverse


class PlainEngine:
    """Computes the whole text again for every token."""

    def __init__(self, model: Any, vocab_size: int) -> None:
        """Keeps the model; ids from ``vocab_size`` on are never sampled."""
        self.model, self.vocab_size = model, vocab_size

    def sync_weights(self, model: Any) -> None:
        """Makes later calls use ``model``; an engine in another process would copy the weights."""
        self.model = model

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: SamplingParams
    ) -> list[list[Completion]]:
        """Returns a continuation for each random stream of each prompt, in their order."""
        groups = []
        for prompt, budget, streams in zip(
            prompts, sampling.max_new_tokens, sampling.streams, strict=True
        ):
            group = [self._continue(prompt, budget, stream, sampling) for stream in streams]
            sampling.progress(len(group), sum(len(completion.tokens) for completion in group))
            groups.append(group)
        return groups

    def _continue(
        self, prompt: Sequence[int], budget: int, stream: int, sampling: SamplingParams
    ) -> Completion:
        """Samples one continuation; its random numbers come from its own stream alone."""
        tokens: list[int] = []
        log_probs: list[float] = []
        while len(tokens) < budget:
            scores = self._scores([*prompt, *tokens], sampling.temperature or 1.0)
            if sampling.temperature == 0:
                chosen = int(scores.argmax())
            else:
                place = np.array([len(tokens)], np.uint64)
                draw = uniforms(np.array([stream], np.uint64), place)
                chosen = int(sample_inverse(scores[None], torch.from_numpy(draw), sampling.top_p))
            tokens.append(chosen)
            log_probs.append(float(scores[chosen]))
            if chosen in sampling.stop.stop_candidates:
                reason = sampling.stop.finish(tokens)
                if reason:
                    return Completion(tokens, log_probs, reason)
        return Completion(tokens, log_probs, "length")

    @torch.inference_mode()
    def _scores(self, tokens: list[int], temperature: float) -> torch.Tensor:
        """Returns the log-probabilities of the next id, [V]."""
        ids = torch.tensor([tokens], device=self.model.device)
        logits = self.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1]
        return torch.log_softmax(logits[: self.vocab_size].float() / temperature, dim=-1).cpu()
