"""How engine ``vllm`` samples: with the random streams of ours, inside vLLM.

vLLM asks its logits processors before it picks a token. Ours picks the token itself, as engine
``hf`` does, and leaves no other choice. So a continuation depends on its prompt, its stream and the
weights alone, whatever vLLM batches, chunks or preempts, and its log-probabilities are those of the
whole distribution before top-p.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from agents.core.streams import uniforms
from agents.engines.hf import sample_inverse

Sink = dict[int, dict[int, float]]
"""Number of a continuation -> position -> log-probability of the token chosen there."""


class StreamSampler(LogitsProcessor):
    """Picks the tokens; a subclass for each engine says where the log-probabilities go.

    Attributes:
        sink: Gets the log-probabilities.
        vocab_size: Number of the tokenizer's ids; larger ids are never sampled.
    """

    sink: Sink
    vocab_size: int

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        """Starts with an empty batch."""
        self._rows: dict[int, tuple[dict[str, Any], list[int]]] = {}

    def is_argmax_invariant(self) -> bool:
        """Returns False: also greedy requests, as ours all are, must be asked about."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follows which request stands at which row of the batch."""
        if batch_update is None:
            return
        for index in batch_update.removed:
            self._rows.pop(index, None)
        for index, params, _, output in batch_update.added:
            self._rows.pop(index, None)
            if params.extra_args:
                self._rows[index] = (params.extra_args, output)
        for source, target, how in batch_update.moved:
            moved, there = self._rows.pop(source, None), self._rows.pop(target, None)
            if moved is not None:
                self._rows[target] = moved
            if there is not None and how is MoveDirectionality.SWAP:
                self._rows[source] = there

    def apply(self, logits: Tensor) -> Tensor:
        """Returns logits [B, >= V] in which each row of ours has one token left."""
        places = [place for place in sorted(self._rows) if place < len(logits)]
        if not places:
            return logits
        jobs = [self._rows[place] for place in places]
        first = jobs[0][0]  # one call of the engine has one temperature
        temperature = first["temperature"] or 1.0
        index = torch.tensor(places, device=logits.device)
        scores = torch.log_softmax(logits[index, : self.vocab_size].float() / temperature, dim=-1)
        if first["temperature"] == 0:
            chosen = scores.argmax(-1)
        else:
            keys = np.array([job["stream"] for job, _ in jobs], np.uint64)
            positions = np.array([len(output) for _, output in jobs], np.uint64)
            draws = torch.from_numpy(uniforms(keys, positions)).to(scores.device)
            chosen = sample_inverse(scores, draws, first["top_p"])
        log_probs = scores.gather(-1, chosen.unsqueeze(-1)).squeeze(-1).tolist()
        for (job, output), log_prob in zip(jobs, log_probs, strict=True):
            self.sink.setdefault(job["number"], {})[len(output)] = log_prob
        logits[index] = -torch.inf
        logits[index, chosen] = 0.0
        return logits
