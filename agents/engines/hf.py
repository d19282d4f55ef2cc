"""Engine ``hf``: generation in process with a transformers model.

A prompt is computed once and its cache is shared out to its n continuations. Rows that have ended
leave the batch. Rows of one batch have prompts of similar length, so that little is padding.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import Cache

from agents.core.streams import uniforms
from agents.engines.base import Completion, SamplingParams
from agents.engines.cache import forking_cache, only_plain_layers, plain_cache, reserved_cache
from agents.engines.sweep import Sweep
from agents.engines.tree import StateTree

_MIN_ROWS = 128  # a batch this large is closed where the prompt length changes
_MAX_RESERVE = 256  # tokens that the cache makes room for at first
_ENDED_SHARE = 0.2  # ended rows leave the batch when they make up this share of it

Finish = Callable[[int, list[int]], str | None]
"""(row, its new tokens) -> why it ends at the last of them, or None."""


class _Rows:
    """The growing rows of one batch; tensors of length B, or [B, longest budget]."""

    def __init__(self, keys: NDArray[np.uint64], budgets: Tensor, device: torch.device) -> None:
        count, longest = len(keys), int(budgets.max())
        self.keys, self.budgets = keys, budgets
        self.index = torch.arange(count, device=device)  # row of the batch at each place
        self.growing = torch.ones(count, dtype=torch.bool, device=device)
        self.tokens = torch.zeros((count, longest), dtype=torch.long, device=device)
        self.log_probs = torch.zeros((count, longest), device=device)
        self.lengths = [0] * count
        self.reasons = ["length"] * count

    def record(self, step: int, chosen: Tensor, log_probs: Tensor) -> None:
        self.tokens[self.index, step] = chosen
        self.log_probs[self.index, step] = log_probs

    def end(self, step: int, chosen: Tensor, candidates: Tensor, finish: Finish) -> None:
        """Marks the rows that ``chosen`` ended."""
        ended = (self.budgets[self.index] == step + 1) & self.growing
        for place in torch.nonzero(candidates[chosen] & self.growing).flatten().tolist():
            row = int(self.index[place])
            reason = finish(row, self.tokens[row, : step + 1].tolist())
            if reason is not None:
                self.reasons[row] = reason
                ended[place] = True
        for row in self.index[ended].tolist():
            self.lengths[row] = step + 1
        self.growing &= ~ended

    def crowded(self) -> bool:
        """Returns whether enough rows have ended to make the others move together."""
        return int(self.growing.sum()) <= (1 - _ENDED_SHARE) * len(self.growing)

    def compact(self) -> Tensor:
        """Drops the ended rows; returns the places that stay."""
        kept = torch.nonzero(self.growing).flatten()
        self.index, self.growing = self.index[kept], self.growing[kept]
        return kept

    def completions(self) -> list[Completion]:
        tokens, log_probs = self.tokens.tolist(), self.log_probs.tolist()
        return [
            Completion(tokens[row][:length], log_probs[row][:length], self.reasons[row])
            for row, length in enumerate(self.lengths)
        ]


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
        self, prompts: Sequence[Sequence[int]], sampling: SamplingParams
    ) -> list[list[Completion]]:
        """Returns the continuations of each prompt, in the order of ``prompts``."""
        results: list[list[Completion]] = [[] for _ in prompts]
        with self._evaluating():
            for batch in self._batches(prompts, sampling):
                groups = self._run([prompts[place] for place in batch], batch, sampling)
                for place, completions in zip(batch, groups, strict=True):
                    results[place] = completions
                num_tokens = sum(len(row.tokens) for group in groups for row in group)
                sampling.progress(sum(map(len, groups)), num_tokens)
        return results

    def can_sweep(self) -> bool:
        """Returns whether the model's cache can be forked: it keeps every token in every layer."""
        return only_plain_layers(self.model)

    @torch.inference_mode()
    def sweep(
        self, prompts: Sequence[Sequence[int]], trees: Sequence[int], sampling: SamplingParams
    ) -> list[list[Completion]]:
        """Returns continuations of each prompt; one serves the prompts that it passes through."""
        results: list[list[Completion]] = [[] for _ in prompts]
        with self._evaluating():
            for batch in self._tree_batches(prompts, trees, sampling):
                states = [prompts[place] for place in batch]
                tree = StateTree(states, [trees[place] for place in batch])
                prefixes = self._computed(tree.paths, int(tree.lengths.min()))
                sweep = Sweep(states, tree, forking_cache(self.model, prefixes), sampling.of(batch))
                groups = sweep.run(
                    lambda ids, cache: self._forward(ids, cache, {}),
                    lambda logits, keys, steps: self._sample(logits, keys, steps, sampling),
                    self.model.device,
                )
                for place, completions in zip(batch, groups, strict=True):
                    results[place] = completions
        return results

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        was_training = self.model.training
        self.model.eval()
        try:
            yield
        finally:  # progress may raise, to stop
            self.model.train(was_training)

    def _tree_batches(
        self, prompts: Sequence[Sequence[int]], trees: Sequence[int], sampling: SamplingParams
    ) -> Iterator[list[int]]:
        """Yields the places of the prompts of each batch: whole trees, the shallow ones first."""
        places: dict[int, list[int]] = {}
        for place, tree in enumerate(trees):
            places.setdefault(tree, []).append(place)
        batch: list[int] = []
        rows = 0
        for group in sorted(places.values(), key=lambda g: min(len(prompts[p]) for p in g)):
            more = sum(len(sampling.streams[place]) for place in group)
            if batch and rows + more > self.max_rows:
                yield batch
                batch, rows = [], 0
            batch.extend(group)
            rows += more
        if batch:
            yield batch

    def _computed(self, paths: Sequence[Sequence[int]], shared: int) -> Cache:
        """Returns the cache of the paths, right padded: what stands left never sees padding.

        The first ``shared`` tokens are computed once for all paths that have the same there.
        """
        cache = plain_cache(self.model)
        longest = max(len(path) for path in paths)
        beginnings = dict.fromkeys(tuple(path[:shared]) for path in paths)
        columns = 0
        if len(beginnings) < len(paths):
            columns = shared
            self._extend(cache, list(beginnings), columns)
            numbers = {tokens: number for number, tokens in enumerate(beginnings)}
            rows = torch.tensor([numbers[tuple(path[:shared])] for path in paths])
            cache.batch_select_indices(rows.to(self.model.device))
        if longest > columns:
            self._extend(cache, [path[columns:] for path in paths], longest - columns)
        return cache

    def _extend(self, cache: Cache, rows: Sequence[Sequence[int]], width: int) -> None:
        ids = torch.zeros((len(rows), width), dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row, dtype=torch.long)
        self._forward(ids.to(self.model.device), cache, {"logits_to_keep": 1})

    def _batches(
        self, prompts: Sequence[Sequence[int]], sampling: SamplingParams
    ) -> Iterator[list[int]]:
        """Yields the places of the prompts of each batch, prompts of like length together."""
        batch: list[int] = []
        rows = 0
        for place in sorted(range(len(prompts)), key=lambda place: (len(prompts[place]), place)):
            more = len(sampling.streams[place])
            longer = bool(batch) and len(prompts[place]) != len(prompts[batch[-1]])
            if batch and (rows + more > self.max_rows or (rows >= _MIN_ROWS and longer)):
                yield batch
                batch, rows = [], 0
            batch.append(place)
            rows += more
        if batch:
            yield batch

    def _prefill(
        self, prompts: list[Sequence[int]], reserve: int
    ) -> tuple[Tensor, Cache, Tensor | None, Tensor]:
        """Returns last logits [P, V], the cache, the mask [P, S] or None, next positions [P]."""
        device = self.model.device
        longest = max(len(prompt) for prompt in prompts)
        ids = torch.zeros((len(prompts), longest), dtype=torch.long)
        mask = torch.zeros((len(prompts), longest), dtype=torch.long)
        for row, prompt in enumerate(prompts):  # left padded: the last column is the last token
            ids[row, longest - len(prompt) :] = torch.tensor(list(prompt), dtype=torch.long)
            mask[row, longest - len(prompt) :] = 1
        ids, mask = ids.to(device), mask.to(device)
        padded = bool((mask == 0).any())
        extra: dict[str, Any] = {"logits_to_keep": 1}
        if padded:
            positions = (mask.cumsum(-1) - 1).clamp(min=0)
            extra |= {"attention_mask": mask, "position_ids": positions}
        cache = reserved_cache(self.model, min(reserve, _MAX_RESERVE))
        logits = self._forward(ids, cache, extra)
        return logits, cache, mask if padded else None, mask.sum(-1)

    def _forward(self, ids: Tensor, cache: Cache, extra: dict[str, Any]) -> Tensor:
        """Returns the logits of the last position, [B, V]; the cache grows."""
        inputs = {"input_ids": ids, "use_cache": True, self._cache_name: cache, **extra}
        logits: Tensor = self.model(**inputs).logits[:, -1]
        return logits

    def _run(
        self, prompts: list[Sequence[int]], places: list[int], sampling: SamplingParams
    ) -> list[list[Completion]]:
        """Continues the prompts of one batch."""
        device = self.model.device
        counts = [len(sampling.streams[place]) for place in places]
        source = torch.arange(len(places)).repeat_interleave(torch.tensor(counts)).to(device)
        budgets = torch.tensor([sampling.max_new_tokens[place] for place in places], device=device)
        longest = int(budgets.max())
        logits, cache, mask, positions = self._prefill(prompts, longest)
        if len(source) > len(places):
            cache.batch_select_indices(source)
            logits, positions = logits[source], positions[source]
            mask = None if mask is None else mask[source]
        keys = np.array([key for place in places for key in sampling.streams[place]], np.uint64)
        rows = _Rows(keys, budgets[source], device)
        candidates = torch.zeros(self.vocab_size, dtype=torch.bool, device=device)
        candidates[list(sampling.stop.stop_candidates)] = True
        sources = source.tolist()

        def finish(row: int, tokens: list[int]) -> str | None:
            place = places[sources[row]]
            return sampling.stop.finish(sampling.response_of(place, prompts[sources[row]], tokens))

        for step in range(longest):
            steps = np.array(step, dtype=np.uint64)
            chosen, log_probs = self._sample(logits, keys, steps, sampling)
            rows.record(step, chosen, log_probs)
            rows.end(step, chosen, candidates, finish)
            if not bool(rows.growing.any()):
                break
            if rows.crowded():
                kept = rows.compact()
                cache.batch_select_indices(kept)
                chosen, positions, keys = chosen[kept], positions[kept], keys[kept.cpu().numpy()]
                mask = None if mask is None else mask[kept]
            extra: dict[str, Any] = {}
            if mask is not None:
                mask = torch.cat([mask, mask.new_ones(len(chosen), 1)], dim=-1)
                extra = {"attention_mask": mask, "position_ids": positions.unsqueeze(-1)}
            logits = self._forward(chosen.unsqueeze(-1), cache, extra)
            positions = positions + 1
        flat = iter(rows.completions())
        return [list(islice(flat, count)) for count in counts]

    def _sample(
        self,
        logits: Tensor,
        keys: NDArray[np.uint64],
        positions: NDArray[np.uint64],
        sampling: SamplingParams,
    ) -> tuple[Tensor, Tensor]:
        """Returns the chosen ids [B] and their log-probabilities [B]; logits are [B, >= V]."""
        temperature = sampling.temperature or 1.0
        scores = torch.log_softmax(logits[:, : self.vocab_size].float() / temperature, dim=-1)
        if sampling.temperature == 0:
            chosen = scores.argmax(-1)
        else:
            draws = torch.from_numpy(uniforms(keys, positions))
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
    weights = scores.exp()
    if top_p < 1:
        ordered, order = weights.sort(dim=-1, descending=True, stable=True)
        before = ordered.cumsum(-1) - ordered
        ordered = torch.where(before < top_p, ordered, 0.0)
        weights = torch.zeros_like(weights).scatter_(-1, order, ordered)
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    targets = draws * cumulative[:, -1]
    chosen = torch.searchsorted(cumulative, targets.unsqueeze(-1), right=True)
    # Rounding must not reach an id of weight 0 at the end: the first id with all the mass is last.
    last = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous())
    return torch.minimum(chosen, last).squeeze(-1)
