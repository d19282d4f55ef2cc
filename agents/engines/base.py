"""The contract of an engine: token ids in, token ids out, nothing is ever re-tokenised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from graders.resolve import resolve

ENGINES = {"hf": "agents.engines.hf:HFEngine", "vllm": "agents.engines.vllm:VLLMEngine"}
"""Short names of the engines; ``--engine pkg.mod:attr`` names one of your own."""


class EngineError(ValueError):
    """An engine cannot be used, or did something else than it was told; says what to do."""


class StopRules(Protocol):
    """When a response ends; the environment's ``stop_checker`` is one.

    Attributes:
        stop_candidates: The ids after which ``finish`` must be asked; no other id can end a
            response.
    """

    @property
    def stop_candidates(self) -> frozenset[int]:
        """The ids after which ``finish`` must be asked."""
        ...

    def finish(self, response: Sequence[int]) -> str | None:
        """Returns "stop_token" or "stop_string" if ``response`` ends at its last token."""
        ...


Progress = Callable[[int, int], None]
"""Told how many continuations have finished, and how many tokens they have."""


def silent(continuations: int, tokens: int) -> None:
    """Shows nothing."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample.

    Attributes:
        temperature: Divides the logits; 0 is greedy, for evaluation.
        top_p: Nucleus mass; 1 samples from the whole distribution.
        max_new_tokens: Budget of each prompt, in tokens, each >= 1.
        streams: ``streams[i][j]`` is the 64-bit key of the random stream of continuation j of
            prompt i; a prompt gets as many continuations as it has streams, at least one.
        stop: When a response ends before its budget.
        progress: To be called with (continuations, tokens) as they finish, in all once for each.
        written: How many of each prompt's last tokens are response already, so that a stop string
            may begin in them; empty: none.

    Raises:
        ValueError: A value is out of range.
    """

    temperature: float
    top_p: float
    max_new_tokens: Sequence[int]
    streams: Sequence[Sequence[int]]
    stop: StopRules
    progress: Progress = silent
    written: Sequence[int] = ()

    def response_of(self, place: int, prompt: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """Returns the response that continues prompt number ``place`` by ``tokens``.

        It is what ``stop.finish`` judges.
        """
        written = self.written[place] if self.written else 0
        return [*prompt[len(prompt) - written :], *tokens]

    def of(self, places: Sequence[int]) -> SamplingParams:
        """Returns the same for the prompts ``places`` alone."""
        return replace(
            self,
            max_new_tokens=[self.max_new_tokens[place] for place in places],
            streams=[self.streams[place] for place in places],
            written=[self.written[place] for place in places] if self.written else (),
        )

    def __post_init__(self) -> None:
        """Checks the ranges."""
        if self.temperature < 0:
            raise ValueError(f"temperature must be >= 0, got {self.temperature} (0 is greedy)")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p} (1 turns it off)")
        if any(budget < 1 for budget in self.max_new_tokens):
            raise ValueError(f"max_new_tokens must be >= 1, got {min(self.max_new_tokens)}")
        if not all(len(streams) for streams in self.streams):
            raise ValueError("every prompt needs at least one stream: one a continuation")


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled continuation.

    Attributes:
        tokens: The new ids, the stop token included if one ended it.
        log_probs: For each new id, its log-probability under softmax(logits / temperature) over the
            tokenizer's vocabulary, before top-p; at temperature 0 the temperature counts as 1.
        finish_reason: "stop_token", "stop_string" or "length" (the budget).
    """

    tokens: list[int]
    log_probs: list[float]
    finish_reason: str


class Engine(Protocol):
    """Anything that continues prompts with the current policy."""

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: SamplingParams
    ) -> list[list[Completion]]:
        """Returns the continuations of each prompt, in the order of ``prompts``.

        A prompt gets as many continuations as ``sampling.streams`` has streams for it. Each depends
        on its prompt, its stream and the weights, not on what else is in the batch (up to float
        rounding).
        """
        ...

    def sync_weights(self, model: Any) -> None:
        """Makes later calls use the weights of ``model``."""
        ...


@runtime_checkable
class SweepEngine(Protocol):
    """An engine that can also continue states of all depths in one sweep."""

    def can_sweep(self) -> bool:
        """Returns whether ``sweep`` works with the current model."""
        ...

    def sweep(
        self, prompts: Sequence[Sequence[int]], trees: Sequence[int], sampling: SamplingParams
    ) -> list[list[Completion]]:
        """Returns continuations of each prompt where one may serve the prompts below it.

        A continuation of one prompt that passes through another of the same tree (its tokens begin
        with that prompt, and it goes on) counts as one of the other's, which then gets so many
        fewer of its own: the first of its streams. Shallow prompts come first. What is sampled is
        what ``generate`` would sample with the same streams.

        Args:
            prompts: States; no two the same of one tree.
            trees: Which tree each belongs to.
            sampling: ``streams[i]`` are as many as prompt i needs in all.
        """
        ...


def make_engine(name: str, model: Any, vocab_size: int, **options: Any) -> Engine:
    """Builds an engine by name: "hf", or "pkg.mod:attr" called as ``attr(model, vocab_size)``.

    Raises:
        ValueError: Unknown name.
    """
    engine: Engine = resolve(name, ENGINES, "engine")(model, vocab_size, **options)
    return engine
