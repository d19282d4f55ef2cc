"""The policy: a causal language model and its pass over prompts with responses."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

LOGITS_AT_ONCE = 2**24  # log-probabilities kept for the backward pass before chunks are recomputed


@dataclass(frozen=True, slots=True)
class Sequences:
    """Prompts with responses, right padded; the input of a teacher-forced pass.

    Attributes:
        tokens: Prompt then response, long, [B, S].
        source: For each response token the column of ``tokens`` that predicts it, long, [B, T].
        targets: The response, long, [B, T]; 0 on padding.
        mask: True on response tokens, bool, [B, T].
        positions: Place of each token in its example, long, [B, S], where a row holds several
            examples (``agents.core.packing``); else None.
    """

    tokens: Tensor
    source: Tensor
    targets: Tensor
    mask: Tensor
    positions: Tensor | None = None

    @staticmethod
    def of(
        prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], device: torch.device
    ) -> Sequences:
        """Pads prompts and responses; a response holds at least one token."""
        width = max(len(p) + len(r) for p, r in zip(prompts, responses, strict=True))
        longest = max(len(response) for response in responses)
        tokens = torch.zeros((len(prompts), width), dtype=torch.long)
        source = torch.zeros((len(prompts), longest), dtype=torch.long)
        targets = torch.zeros((len(prompts), longest), dtype=torch.long)
        mask = torch.zeros((len(prompts), longest), dtype=torch.bool)
        for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
            start, length = len(prompt), len(response)
            tokens[row, : start + length] = torch.tensor([*prompt, *response], dtype=torch.long)
            source[row, :length] = torch.arange(start - 1, start - 1 + length)
            targets[row, :length] = torch.tensor(list(response), dtype=torch.long)
            mask[row, :length] = True
        return Sequences(*(t.to(device) for t in (tokens, source, targets, mask)))


@dataclass(frozen=True, slots=True)
class TokenStats:
    """What one pass returns, each [B, T]; padding holds 0.

    Attributes:
        log_probs: Log-probability of each response token at the sampling temperature, float32 (or
            float64 for a float64 model).
        entropy: Entropy of the distribution it was drawn from, in nats.
        log_mass: Log of the nucleus' mass where the pass was asked to renormalise: ``log_probs -
            log_mass`` is then what a top-p sampler drew from. Else 0.
        kl: Exact KL to the reference that the pass was given, in nats, of the distributions over
            all ids. Else 0.
        values: What the value head says of the state before each token, if the pass was given one.
            Else 0.
    """

    log_probs: Tensor
    entropy: Tensor
    log_mass: Tensor
    kl: Tensor
    values: Tensor


@dataclass(frozen=True, slots=True)
class Extras:
    """What a pass computes besides log-probabilities and entropy.

    Attributes:
        top_p: Below 1, also the log-mass of the nucleus; the entropy is that of the nucleus.
        entropy_gradient: Whether the entropy has a gradient.
        reference: A policy to give the exact KL to.
        value_head: A module [M, H] -> [M, 1] on the last hidden states.
    """

    top_p: float = 1.0
    entropy_gradient: bool = False
    reference: Policy | None = None
    value_head: nn.Module | None = None


_NO_EXTRAS = Extras()


def nucleus_of(scores: Tensor, targets: Tensor, top_p: float) -> Tensor:
    """Returns which ids a top-p sampler may draw, and the targets, bool, [M, V].

    The smallest set of most likely ids whose mass reaches ``top_p``. A target is always in it: it
    was drawn, though the policy may have moved since.

    Args:
        scores: Log-probabilities, [M, V].
        targets: Ids, long, [M].
        top_p: Nucleus mass, in (0, 1).

    >>> nucleus_of(torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log(), torch.tensor([3]), 0.6).tolist()
    [[True, True, False, True]]
    """
    ordered, order = scores.exp().sort(dim=-1, descending=True, stable=True)
    inside = ordered.cumsum(-1) - ordered < top_p
    nucleus = torch.zeros_like(inside).scatter_(-1, order, inside)
    return nucleus.scatter_(-1, targets.unsqueeze(-1), True)


def selected_hidden(trunk: Any, batch: Sequences) -> Tensor:
    """Returns a trunk's last hidden states that predict the response tokens, [M, H], row by row.

    Args:
        trunk: A transformers model without its head.
        batch: Padded rows on the trunk's device.
    """
    places = {} if batch.positions is None else {"position_ids": batch.positions}
    hidden: Tensor = trunk(input_ids=batch.tokens, use_cache=False, **places)[0]
    rows = torch.arange(len(hidden), device=hidden.device).unsqueeze(-1)
    return hidden[rows, batch.source][batch.mask]


class Policy(nn.Module):
    """A causal LM whose ids beyond the tokenizer's are masked."""

    def __init__(self, model: Any, vocab_size: int) -> None:
        """Wraps ``model``.

        Args:
            model: A causal LM of transformers.
            vocab_size: Number of the tokenizer's ids.

        Raises:
            ValueError: The model has fewer ids than the tokenizer.
        """
        super().__init__()
        rows = int(model.get_input_embeddings().weight.shape[0])
        if rows < vocab_size:
            raise ValueError(
                f"the tokenizer has {vocab_size} ids but the model only {rows}: its vocabulary "
                "differs from the model's. Pass --tokenizer with the model's own folder or name."
            )
        self.model = model
        self.vocab_size = vocab_size
        self.gradient_checkpointing = self.bf16 = self.has_adapters = False

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = self.model.device
        return device

    @property
    def num_parameters(self) -> int:
        """How many weights the model has, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def forward(
        self, batch: Sequences, temperature: float, extras: Extras = _NO_EXTRAS
    ) -> TokenStats:
        """Returns log-probabilities and entropies of the responses.

        The [B, T, V] logits never exist at once for a large batch: the head runs on the selected
        positions in chunks, which the backward pass computes again.

        Args:
            batch: Padded rows on the model's device. No attention mask is needed: padding stands on
                the right, where a causal model never looks.
            temperature: Divides the logits, as in sampling (> 0).
            extras: What else to compute.
        """
        hidden = self.hidden(batch)  # [M, H]
        targets = batch.targets[batch.mask]
        other = hidden.new_zeros(len(hidden), 0)
        if extras.reference is not None:
            with torch.no_grad():
                other = extras.reference.hidden(batch)
        chunk = max(1, LOGITS_AT_ONCE // self.vocab_size)
        parts = []
        for start in range(0, len(hidden), chunk):
            states, ids, others = (x[start : start + chunk] for x in (hidden, targets, other))
            if len(hidden) > chunk and torch.is_grad_enabled():
                part = checkpoint(
                    self._score, states, ids, others, temperature, extras, use_reentrant=False
                )
            else:
                part = self._score(states, ids, others, temperature, extras)
            parts.append(part)
        columns = [torch.cat(column) for column in zip(*parts, strict=True)]
        head = extras.value_head
        columns.append(
            columns[0].new_zeros(len(hidden))
            if head is None
            else head(hidden).squeeze(-1).to(columns[0].dtype)
        )
        blank = columns[0].new_zeros(batch.mask.shape)
        return TokenStats(*(blank.masked_scatter(batch.mask, column) for column in columns))

    def hidden(self, batch: Sequences) -> Tensor:
        """Returns the last hidden states that predict the response tokens, [M, H], row by row."""
        with self._autocast(), self._recomputed_layers():
            return selected_hidden(self.model.base_model, batch)

    def save_memory(self, *, gradient_checkpointing: bool = False, bf16: bool = False) -> Policy:
        """Sets what a pass spares, and returns itself.

        Args:
            gradient_checkpointing: Layers are computed again in the backward pass instead of kept.
            bf16: Matrix products in bfloat16 (autocast) where the weights are float32.
        """
        self.gradient_checkpointing, self.bf16 = gradient_checkpointing, bf16
        if gradient_checkpointing:
            newer = getattr(self.model, "activation_checkpointing_enable", None)
            (newer or self.model.gradient_checkpointing_enable)({"use_reentrant": False})
        return self

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16)

    @contextmanager
    def _recomputed_layers(self) -> Iterator[None]:
        """Transformers recomputes layers in training mode only, which would turn dropout on."""
        layers = []
        if self.gradient_checkpointing and torch.is_grad_enabled():
            layers = [m for m in self.model.modules() if isinstance(m, GradientCheckpointingLayer)]
        for layer in layers:
            layer.training = True  # the layer's own flag: its dropout modules keep theirs
        try:
            yield
        finally:
            for layer in layers:
                layer.training = False

    def _scores(self, hidden: Tensor, temperature: float) -> Tensor:
        """Returns log-probabilities over the tokenizer's ids, [M, V]."""
        with self._autocast():
            logits = self.model.get_output_embeddings()(hidden)[:, : self.vocab_size]
        logits = logits if logits.dtype == torch.float64 else logits.float()
        return torch.log_softmax(logits / temperature, dim=-1)

    def _score(
        self, hidden: Tensor, targets: Tensor, other: Tensor, temperature: float, extras: Extras
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        scores = self._scores(hidden, temperature)
        log_probs = scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        kl = log_mass = torch.zeros_like(log_probs)
        if extras.reference is not None:
            with torch.no_grad():
                reference_scores = extras.reference._scores(other, temperature)
            kl = (scores.exp() * (scores - reference_scores)).sum(-1)
        drawn = scores
        if extras.top_p < 1:
            nucleus = nucleus_of(scores.detach(), targets, extras.top_p)
            log_mass = scores.masked_fill(~nucleus, -torch.inf).logsumexp(-1)
            # Far below the rest, and not -inf, whose gradient would be NaN.
            drawn = (scores - log_mass.unsqueeze(-1)).masked_fill(~nucleus, -1e4)
        with torch.set_grad_enabled(torch.is_grad_enabled() and extras.entropy_gradient):
            entropy = -(drawn.exp() * drawn).sum(-1)
        return log_probs, entropy, log_mass, kl

    def frozen_copy(self) -> Policy:
        """Returns what never changes: a copy, or with adapters the same weights without them."""
        if self.has_adapters:
            from agents.core.lora import AdaptersOff

            return AdaptersOff(self)
        other = Policy(copy.deepcopy(self.model), self.vocab_size).save_memory(bf16=self.bf16)
        return other.requires_grad_(False).eval()
