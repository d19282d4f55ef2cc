"""A problem and a set of problems: all that an environment needs to know about its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np


@dataclass(frozen=True, slots=True)
class Problem:
    """One question with its reference answer.

    Attributes:
        id: Unique within its source, for example ``"gsm8k/train/12"``.
        question: The text that is put into the prompt template.
        answer: What the grader compares with; only the final answer, no working.
        solution: A worked solution that ends with the answer, empty if there is none.
        level: Difficulty as the source names it, empty if it does not.
        subject: Topic or procedural family, empty if the source has none.
    """

    id: str
    question: str
    answer: str
    solution: str = ""
    level: str = ""
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Longest:
    """The longest texts of a set, from which an environment takes its default budgets.

    Attributes:
        question: Most characters of a question.
        solution: Most characters of a worked solution.
    """

    question: int
    solution: int

    def holds(self, question: str, solution: str) -> bool:
        """Returns whether neither text is longer."""
        return len(question) <= self.question and len(solution) <= self.solution

    def __or__(self, other: Longest) -> Longest:
        """Returns what holds the texts of both.

        >>> Longest(10, 20) | Longest(5, 30)
        Longest(question=10, solution=30)
        """
        return Longest(max(self.question, other.question), max(self.solution, other.solution))


@runtime_checkable
class ProblemSet(Protocol):
    """Where an environment gets its problems from.

    A finite set has a length in ``num_problems`` and indices ``0 .. num_problems - 1``. A generator
    has ``num_problems = None`` and answers every index >= 0, always with the same problem.

    A set may have four attributes more: ``longest`` (a ``Longest``), from which the default token
    budgets follow; ``levels``, all levels of its source, for a curriculum; ``grader``, which
    judges where the environment is given none; and ``state_key``, which maps the text of a state
    (prompt and response) to a name, equal only where the rest of the answer and the reward depend
    on nothing else, or to None, where only the text itself says it. A grader that needs more than
    the reference answer has a method ``grade_problem(completion, problem)`` as well, which is
    called instead.
    """

    @property
    def num_problems(self) -> int | None:
        """How many problems there are, or None for a generator."""
        ...

    def problem(self, index: int) -> Problem:
        """Returns problem ``index``; raises IndexError outside the set."""
        ...

    def sample(self, rng: np.random.Generator) -> Problem:
        """Draws one problem from ``rng`` and from nothing else."""
        ...


class ProblemList:
    """A finite ProblemSet over a sequence of problems.

    >>> problems = ProblemList([Problem("a", "1+1?", "2"), Problem("b", "1+2?", "3")])
    >>> problems.num_problems, problems.problem(1).answer
    (2, '3')
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Stores the problems; raises ValueError if there are none or two share an id."""
        self._problems = tuple(problems)
        if not self._problems:
            raise ValueError("a problem set needs at least one problem, got none")
        seen: set[str] = set()
        for problem in self._problems:
            if problem.id in seen:
                raise ValueError(f"problem id {problem.id!r} occurs twice; ids must be unique")
            seen.add(problem.id)

    @property
    def num_problems(self) -> int:
        """How many problems there are."""
        return len(self._problems)

    def problem(self, index: int) -> Problem:
        """Returns problem ``index``."""
        if not 0 <= index < len(self._problems):
            raise IndexError(
                f"problem index {index} is outside this set of {len(self._problems)} problems "
                f"(valid: 0 to {len(self._problems) - 1})"
            )
        return self._problems[index]

    def sample(self, rng: np.random.Generator) -> Problem:
        """Draws a problem uniformly."""
        return self._problems[int(rng.integers(len(self._problems)))]
