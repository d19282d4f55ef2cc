"""Engine ``hf``: generation in process with a transformers model.

A prompt is computed once and its cache is shared out to its n continuations. Rows that have ended
leave the batch. Rows of one batch have prompts of similar length, so that little is padding.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agents.core.streams import uniforms
from agents.engines.base import Completion, SamplingParams

_MIN_ROWS = 128  # a batch this large is closed where the prompt length changes


@dataclass(slots=True)
class _Rows:
    """The rows of a batch that are still growing; all arrays have length B."""

    index: Tensor  # which row of the batch, long
    keys: np.ndarray[Any, np.dtype[np.uint64]]
    budgets: Tensor  # long
    mask: Tensor | None  # [B, S] where the prompt lengths differ
    positions: Tensor  # next position id, long [B]

    def keep(self, kept: Tensor) -> None:
        self.index, self.budgets = self.index[kept], self.budgets[kept]
        self.keys = self.keys[kept.cpu().numpy()]
        self.positions = self.positions[kept]
        self.mask = None if self.mask is None else self.mask[kept]


class HFEngine:
    """Continues prompts with a ``transformers`` causal language model in this process."""

    def __init__(self, model: Any, vocab_size: int, *, max_rows: int = 512) -> None:
        """Uses ``model`` in place: after an update no weights need to be copied.

        Args:
            model: A causal LM of transformers.
            vocab_size: Number of the tokenizer's ids; larger ids are never sampled.
            max_rows: Most continuations computed at the same time.
        """
        if max_rows < 1:
            raise ValueError(f"max_rows must be >= 1, got {max_rows}")
        self.model, self.vocab_size, self.max_rows = model, vocab_size, max_rows
        parameters = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"

    def sync_weights(self, model: Any) -> None:
        """Makes later calls use ``model``; free, as the weights are shared."""
        self.model = model

    @torch.inference_mode()
    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: SamplingParams, n: int = 1
    ) -> list[list[Completion]]:
        """Returns ``n`` continuations of each prompt, in the order of ``prompts``."""
        if n < 1:
            raise ValueError(f"n must be >= 1, got {n}")
        was_training = self.model.training
        self.model.eval()
        results: list[list[Completion]] = [[] for _ in prompts]
        for batch in self._batches(prompts, n):
            for place, completions in zip(
                batch, self._run(batch, prompts, sampling, n), strict=True
            ):
                results[place] = completions
        self.model.train(was_training)
        return results

    def _batches(self, prompts: Sequence[Sequence[int]], n: int) -> Iterator[list[int]]:
        """Yields the places of the prompts of each batch, prompts of like length together."""
        order = sorted(range(len(prompts)), key=lambda place: (len(prompts[place]), place))
        batch: list[int] = []
        for place in order:
            rows = len(batch) * n
            longer = batch and len(prompts[place]) != len(prompts[batch[-1]])
            if batch and (rows + n > self.max_rows or (rows >= _MIN_ROWS and longer)):
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    def _prefill(self, prompts: list[Sequence[int]]) -> tuple[Tensor, Any, Tensor | None, Tensor]:
        """Returns last logits [P, V], the cache, the mask [P, S] or None, next positions [P]."""
        device = self.model.device
        longest = max(len(prompt) for prompt in prompts)
        ids = torch.zeros((len(prompts), longest), dtype=torch.long)
        mask = torch.zeros((len(prompts), longest), dtype=torch.long)
        for row, prompt in enumerate(prompts):  # left padded: the last column is the last token
            ids[row, longest - len(prompt) :] = torch.tensor(list(prompt), dtype=torch.long)
            mask[row, longest - len(prompt) :] = 1
        padded = bool((mask == 0).any())
        extra: dict[str, Tensor] = {}
        if padded:
            positions = (mask.cumsum(-1) - 1).clamp(min=0)
            extra = {"attention_mask": mask.to(device), "position_ids": positions.to(device)}
        output = self.model(input_ids=ids.to(device), use_cache=True, logits_to_keep=1, **extra)
        lengths = mask.sum(-1).to(device)
        kept_mask = mask.to(device) if padded else None
        return output.logits[:, -1], getattr(output, self._cache_name), kept_mask, lengths

    def _run(
        self,
        batch: list[int],
        prompts: Sequence[Sequence[int]],
        sampling: SamplingParams,
        n: int,
    ) -> list[list[Completion]]:
        device = self.model.device
        logits, cache, mask, positions = self._prefill([prompts[place] for place in batch])
        if n > 1:
            cache.batch_repeat_interleave(n)
        budgets = torch.tensor([sampling.max_new_tokens[place] for place in batch], device=device)
        rows = _Rows(
            index=torch.arange(len(batch) * n, device=device),
            keys=np.array([sampling.streams[p][j] for p in batch for j in range(n)], np.uint64),
            budgets=budgets.repeat_interleave(n),
            mask=None if mask is None else mask.repeat_interleave(n, dim=0),
            positions=positions.repeat_interleave(n),
        )
        logits = logits.repeat_interleave(n, dim=0)
        longest = int(budgets.max())
        tokens = torch.zeros((len(batch) * n, longest), dtype=torch.long, device=device)
        log_probs = torch.zeros((len(batch) * n, longest), device=device)
        reasons = ["length"] * (len(batch) * n)
        lengths = [0] * (len(batch) * n)
        candidates = torch.zeros(self.vocab_size, dtype=torch.bool, device=device)
        candidates[list(sampling.stop.stop_candidates)] = True
        for step in range(longest):
            chosen, chosen_log_probs = self._sample(logits, rows.keys, step, sampling)
            tokens[rows.index, step] = chosen
            log_probs[rows.index, step] = chosen_log_probs
            ended = rows.budgets == step + 1
            for place in torch.nonzero(candidates[chosen]).flatten().tolist():
                row = int(rows.index[place])
                reason = sampling.stop.finish(tokens[row, : step + 1].tolist())
                if reason is not None:
                    reasons[row] = reason
                    ended[place] = True
            if bool(ended.any()):
                for row in rows.index[ended].tolist():
                    lengths[row] = step + 1
                kept = torch.nonzero(~ended).flatten()
                if len(kept) == 0:
                    break
                rows.keep(kept)
                chosen = chosen[kept]
                cache.batch_select_indices(kept)
            extra: dict[str, Tensor] = {}
            if rows.mask is not None:
                rows.mask = torch.cat([rows.mask, rows.mask.new_ones(len(chosen), 1)], dim=-1)
                extra = {
                    "attention_mask": rows.mask,
                    "position_ids": rows.positions.unsqueeze(-1),
                }
            output = self.model(
                input_ids=chosen.unsqueeze(-1),
                use_cache=True,
                **{self._cache_name: cache},
                **extra,
            )
            rows.positions = rows.positions + 1
            logits = output.logits[:, -1]
        all_tokens, all_log_probs = tokens.tolist(), log_probs.tolist()
        completions = [
            Completion(all_tokens[row][:length], all_log_probs[row][:length], reasons[row])
            for row, length in enumerate(lengths)
        ]
        return [completions[start : start + n] for start in range(0, len(completions), n)]

    def _sample(
        self,
        logits: Tensor,
        keys: np.ndarray[Any, np.dtype[np.uint64]],
        step: int,
        sampling: SamplingParams,
    ) -> tuple[Tensor, Tensor]:
        """Returns the chosen ids [B] and their log-probabilities [B]; logits are [B, >= V]."""
        temperature = sampling.temperature or 1.0
        scores = torch.log_softmax(logits[:, : self.vocab_size].float() / temperature, dim=-1)
        if sampling.temperature == 0:
            chosen = scores.argmax(-1)
        else:
            draws = torch.from_numpy(uniforms(keys, np.array(step, dtype=np.uint64)))
            chosen = sample_inverse(scores, draws.to(scores.device), sampling.top_p)
        return chosen, scores.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)


def sample_inverse(scores: Tensor, draws: Tensor, top_p: float = 1.0) -> Tensor:
    """Samples by inverting the cumulative distribution.

    Args:
        scores: Log-probabilities, float32, shape [B, V].
        draws: Uniform numbers in [0, 1), float64, shape [B].
        top_p: Nucleus mass: the smallest set of most likely ids whose mass reaches it is sampled.

    Returns:
        Ids, long, shape [B].

    >>> scores = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> [int(sample_inverse(scores, torch.tensor([u], dtype=torch.float64))) for u in (0.4, 0.7)]
    [0, 1]
    >>> int(sample_inverse(scores, torch.tensor([0.99], dtype=torch.float64), top_p=0.6))
    1
    """
    weights = scores.double().exp()
    if top_p < 1:
        ordered, order = weights.sort(dim=-1, descending=True, stable=True)
        before = ordered.cumsum(-1) - ordered
        ordered = torch.where(before < top_p, ordered, 0.0)
        weights = torch.zeros_like(weights).scatter_(-1, order, ordered)
    cumulative = weights.cumsum(-1)
    targets = draws * cumulative[:, -1]
    chosen = torch.searchsorted(cumulative, targets.unsqueeze(-1), right=True).squeeze(-1)
    last = scores.shape[-1] - 1 - (weights.flip(-1) > 0).long().argmax(-1)
    return torch.minimum(chosen, last)  # rounding must not reach an id of weight 0
