"""The contract of every grader: a completion and a reference answer in, a Grade out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Verdict(StrEnum):
    """What a grader concluded."""

    CORRECT = "correct"
    WRONG = "wrong"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Grade:
    """The result of grading one completion.

    Attributes:
        score: The reward, usually 1.0 for a right answer and 0.0 otherwise.
        verdict: CORRECT, WRONG, or UNDECIDED where the reference could not be read or a limit was
            reached. UNDECIDED is never silently WRONG: environments and metrics count it apart.
        extracted: The answer found inside the completion, empty if there was none.
    """

    score: float
    verdict: Verdict
    extracted: str = ""


class Grader(Protocol):
    """Anything that maps ``(completion, answer)`` to a Grade."""

    def __call__(self, completion: str, answer: str) -> Grade:
        """Grades ``completion`` (the model's text) against ``answer`` (the reference)."""
        ...


RewardFunction = Callable[[str, str], "Grade | float"]
"""What a user may plug in: a Grader, or a function that returns a plain reward."""


def as_grader(function: RewardFunction) -> Grader:
    """Wraps a function that returns a float; one that returns a Grade passes through.

    A plain reward of 1.0 or more counts as CORRECT, a smaller one as WRONG.

    >>> as_grader(lambda completion, answer: float(answer in completion))("it is 7", "7")
    Grade(score=1.0, verdict=<Verdict.CORRECT: 'correct'>, extracted='')
    """
    return _RewardGrader(function)


@dataclass(frozen=True, slots=True)
class _RewardGrader:
    """A grader made of a reward function; it can be pickled where the function can."""

    function: RewardFunction

    def __call__(self, completion: str, answer: str) -> Grade:
        result = self.function(completion, answer)
        if isinstance(result, Grade):
            return result
        score = float(result)
        return Grade(score, Verdict.CORRECT if score >= 1.0 else Verdict.WRONG)
