"""An endless, seeded ProblemSet whose splits never share a question."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from graders.resolve import nearest
from lang_env.problem import Longest, Problem

SPLITS = ("train", "validation", "test")
_MAX_INDEX = 2**31
_MAX_DRAWS = 10_000

Draw = Callable[[np.random.Generator], tuple[str, str, str]]
"""Maps a random generator to ``(question, answer, solution)``, all ASCII."""


@dataclass(frozen=True, slots=True)
class Level:
    """One difficulty of a family.

    Attributes:
        draw: Makes its problems.
        longest: What they are cut to: a longer question or solution is drawn again.
    """

    draw: Draw
    longest: Longest


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
        family: The family's name.
        levels: All levels that the family has.
        longest: No question or solution of this level is longer.
        state_key: Names a state by its text, see ``ProblemSet``; None: it has no such names.
    """

    num_problems: None = None

    def __init__(
        self,
        family: str,
        levels: Mapping[int, Level],
        *,
        split: str,
        level: int | None,
        default: int,
        state_key: Callable[[str], Hashable | None] | None = None,
    ) -> None:
        """Stores the generator.

        Args:
            family: The family's name, part of each problem's id.
            levels: What it draws at each level.
            split: "train", "validation" or "test".
            level: Difficulty, part of each problem's id and random stream; None: ``default``.
            default: The level where none is asked for.
            state_key: Names a state by its text.

        Raises:
            ValueError: Unknown split or level.
        """
        if split not in SPLITS:
            raise ValueError(
                f"unknown split {split!r}.{nearest(split, SPLITS)} Known: {', '.join(SPLITS)}"
            )
        self._level = default if level is None else level
        if isinstance(level, bool) or self._level not in levels:
            raise ValueError(f"level must be one of {sorted(levels)}, got {level!r}")
        self.family, self.levels = family, tuple(sorted(levels))
        self._draw, self.longest = levels[self._level].draw, levels[self._level].longest
        self._split, self.state_key = split, state_key
        self._stream = int.from_bytes(hashlib.blake2b(family.encode(), digest_size=4).digest())

    def problem(self, index: int) -> Problem:
        """Returns problem ``index`` (0 <= index < 2**31)."""
        if not 0 <= index < _MAX_INDEX:
            raise IndexError(f"problem index {index} is outside 0 to {_MAX_INDEX - 1}")
        rng = np.random.default_rng([self._stream, self._level, index, SPLITS.index(self._split)])
        for _ in range(_MAX_DRAWS):
            question, answer, solution = self._draw(rng)
            if split_of(question) == self._split and self.longest.holds(question, solution):
                break
        else:
            raise RuntimeError(
                f"family {self.family!r} at level {self._level} has no {self._split} question in "
                f"{_MAX_DRAWS} draws; its questions are too few to split"
            )
        return Problem(
            id=f"{self.family}/{self._split}/{self._level}/{index}",
            question=question,
            answer=answer,
            solution=solution,
            level=str(self._level),
            subject=self.family,
        )

    def sample(self, rng: np.random.Generator) -> Problem:
        """Draws an index uniformly and returns its problem."""
        return self.problem(int(rng.integers(_MAX_INDEX)))


def between(rng: np.random.Generator, low: int, high: int) -> int:
    """Draws a whole number from ``low`` to ``high``, both included."""
    return int(rng.integers(low, high + 1))


def nonzero(rng: np.random.Generator, most: int) -> int:
    """Draws a whole number from -``most`` to ``most`` that is not 0."""
    size = between(rng, 1, most)
    return size if rng.random() < 0.5 else -size


def worked(lines: list[str], answer: object) -> str:
    r"""Returns a solution: its lines, then the answer line.

    >>> worked(["3 + 4 = 7"], 7)
    '3 + 4 = 7\n#### 7'
    """
    return "\n".join([*lines, f"#### {answer}"])
