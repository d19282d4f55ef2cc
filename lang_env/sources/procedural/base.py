"""An endless, seeded ProblemSet whose splits never share a question."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from graders.resolve import nearest
from lang_env.problem import Problem

SPLITS = ("train", "validation", "test")
_MAX_INDEX = 2**31
_MAX_DRAWS = 10_000


def split_of(question: str) -> str:
    """Returns the split that a question belongs to: 10 % validation, 10 % test, the rest train.

    The split is a hash of the question, so that no question is ever in two splits.

    >>> split_of("1+1?") == split_of("1+1?")
    True
    """
    bucket = hashlib.blake2b(question.encode(), digest_size=4).digest()[0] % 10
    return "test" if bucket == 0 else "validation" if bucket == 1 else "train"


class ProceduralSet:
    """Problems of one family at one level; index -> problem, always the same.

    Attributes:
        num_problems: None, as the set has no end.
    """

    num_problems: None = None

    def __init__(
        self,
        family: str,
        draw: Callable[[np.random.Generator], tuple[str, str, str]],
        *,
        split: str,
        level: int,
    ) -> None:
        """Stores the generator.

        Args:
            family: The family's name, part of each problem's id.
            draw: Maps a random generator to ``(question, answer, solution)``.
            split: "train", "validation" or "test".
            level: Difficulty, part of each problem's id and random stream.

        Raises:
            ValueError: Unknown split.
        """
        if split not in SPLITS:
            raise ValueError(
                f"unknown split {split!r}.{nearest(split, SPLITS)} Known: {', '.join(SPLITS)}"
            )
        self._family, self._draw, self._split, self._level = family, draw, split, level
        self._stream = int.from_bytes(hashlib.blake2b(family.encode(), digest_size=4).digest())

    def problem(self, index: int) -> Problem:
        """Returns problem ``index`` (0 <= index < 2**31)."""
        if not 0 <= index < _MAX_INDEX:
            raise IndexError(f"problem index {index} is outside 0 to {_MAX_INDEX - 1}")
        rng = np.random.default_rng([self._stream, self._level, index, SPLITS.index(self._split)])
        for _ in range(_MAX_DRAWS):
            question, answer, solution = self._draw(rng)
            if split_of(question) == self._split:
                break
        else:
            raise RuntimeError(
                f"family {self._family!r} at level {self._level} has no {self._split} question in "
                f"{_MAX_DRAWS} draws; its questions are too few to split"
            )
        return Problem(
            id=f"{self._family}/{self._split}/{self._level}/{index}",
            question=question,
            answer=answer,
            solution=solution,
            level=str(self._level),
            subject=self._family,
        )

    def sample(self, rng: np.random.Generator) -> Problem:
        """Draws an index uniformly and returns its problem."""
        return self.problem(int(rng.integers(_MAX_INDEX)))
