"""The problems of an environment with their prompts: which fit, and how they are drawn."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from lang_env.problem import Problem, ProblemSet
from lang_env.prompts import PromptTemplate, with_bos
from lang_env.tokenizers import Tokenizer

_SPARE = 2  # tokens beyond one a character: BOS and a prefix space
_MAX_DRAWS = 10_000  # of a finite set, until a problem comes that was not filtered


class ProblemPool:
    """A problem set, the template of its prompts, and the longest prompt that fits.

    The overlong prompts of a finite set are left out once, at the start. A generator has no list to
    filter, so there an overlong prompt is an error.

    Attributes:
        problems: The problem set.
        prompt: The template.
        max_tokens: Longest prompt, in tokens.
    """

    def __init__(
        self, problems: ProblemSet, prompt: PromptTemplate, tokenizer: Tokenizer, max_tokens: int
    ) -> None:
        """Measures the prompts of a finite set.

        Raises:
            ValueError: No prompt of a finite set fits.
        """
        self.problems, self.prompt, self.max_tokens = problems, prompt, max_tokens
        self._tokenizer = tokenizer
        self._overlong = self._measure()
        self._overlong_ids = {problems.problem(index).id for index in self._overlong}
        if self._overlong and len(self._overlong) == problems.num_problems:
            raise ValueError(
                f"none of the {problems.num_problems} prompts fits into {max_tokens} tokens (the "
                f"shortest has {min(self._overlong.values())}). Raise max_prompt_tokens, or "
                "max_length if that is lower."
            )

    @property
    def num_problems(self) -> int | None:
        """How many problems fit, or None for a generator."""
        total = self.problems.num_problems
        return None if total is None else total - len(self._overlong)

    @property
    def num_filtered(self) -> int:
        """How many problems of a finite set were left out."""
        return len(self._overlong)

    @cached_property
    def valid_indices(self) -> tuple[int, ...] | None:
        """The set's own indices of the problems that fit, or None for a generator."""
        total = self.problems.num_problems
        if total is None:
            return None
        return tuple(index for index in range(total) if index not in self._overlong)

    def draw(self, rng: np.random.Generator) -> tuple[Problem, list[int]]:
        """Draws a problem that fits, from ``rng`` only; returns it with its prompt's ids."""
        for _ in range(_MAX_DRAWS):
            problem = self.problems.sample(rng)
            if problem.id not in self._overlong_ids:
                return problem, self.encode(problem)
        raise RuntimeError(
            f"{_MAX_DRAWS} draws gave only problems that were filtered. Raise max_prompt_tokens."
        )

    def by_index(self, index: int) -> tuple[Problem, list[int]]:
        """Returns the set's problem ``index`` with its prompt's ids.

        Raises:
            IndexError: There is no such problem.
            ValueError: Its prompt is too long.
        """
        problem = self.problems.problem(index)
        return problem, self.encode(problem)

    def encode(self, problem: Problem) -> list[int]:
        """Returns the prompt's ids.

        Raises:
            ValueError: The prompt is empty or too long.
        """
        ids = self.prompt.encode(problem, self._tokenizer)
        if not ids:
            raise ValueError(
                f"problem {problem.id!r} has an empty prompt; an episode needs a first token"
            )
        if len(ids) > self.max_tokens:
            raise ValueError(
                f"the prompt of problem {problem.id!r} has {len(ids):,} tokens, and only "
                f"{self.max_tokens:,} fit. Raise max_prompt_tokens to {len(ids)} or more (and "
                "max_length, if that is lower)."
            )
        return ids

    def _measure(self) -> dict[int, int]:
        """Returns index -> tokens of each overlong prompt of a finite set.

        ASCII text never has more tokens than characters, so that most prompts need no encoding.
        """
        total = self.problems.num_problems
        if total is None:
            return {}
        overlong = {}
        for index in range(total):
            text = self.prompt.rendered(self.problems.problem(index), self._tokenizer)
            if not text.isascii() or len(text) + _SPARE > self.max_tokens:
                length = len(with_bos(self._tokenizer.encode(text), self._tokenizer))
                if length > self.max_tokens:
                    overlong[index] = length
        return overlong
