"""Other libraries' graders and reward signatures: Math-Verify, TRL, verl.

TRL calls ``reward(prompts=..., completions=..., **columns) -> list[float]``; verl calls
``compute_score(data_source, solution_str, ground_truth, extra_info) -> float``. Both are plain
Python, so that none of these libraries is imported here; Math-Verify is, when it is asked for
(``pip install lang-env[math_verify]``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graders.base import Grade, Grader, Verdict, as_grader

TRLReward = Callable[..., list[float | None]]
VerlScore = Callable[..., "float | Mapping[str, Any]"]


def completion_text(completion: str | Sequence[Mapping[str, Any]]) -> str:
    """The text of a completion: a string, or the last message of a conversation.

    >>> completion_text([{"role": "assistant", "content": "It is 4."}])
    'It is 4.'
    """
    if isinstance(completion, str):
        return completion
    return str(completion[-1]["content"]) if completion else ""


class TRLAdapter:
    r"""A TRL reward function made of a grader.

    Args:
        grader: The grader.
        column: The dataset column with the reference answers.
        undecided: What an UNDECIDED grade is worth; None lets TRL leave the sample out.

    >>> from graders import get_grader
    >>> reward = TRLAdapter(get_grader("math"))
    >>> reward(prompts=["2+2?"], completions=["\\boxed{4}"], answer=["4"])
    [1.0]
    """

    def __init__(
        self, grader: Grader, column: str = "answer", undecided: float | None = 0.0
    ) -> None:
        """Stores the grader; TRL logs the reward under ``__name__``."""
        self.grader = grader
        self.column = column
        self.undecided = undecided
        self.__name__ = getattr(grader, "__name__", type(grader).__name__)

    def __call__(
        self, prompts: Sequence[Any] | None = None, completions: Sequence[Any] = (), **columns: Any
    ) -> list[float | None]:
        """Grades a batch.

        Raises:
            ValueError: The dataset has no column of that name.
        """
        if self.column not in columns:
            raise ValueError(
                f"no column {self.column!r} among {sorted(columns)}; pass column= the name of the "
                "reference answers"
            )
        scores: list[float | None] = []
        for completion, answer in zip(completions, columns[self.column], strict=True):
            grade = self.grader(completion_text(completion), str(answer))
            scores.append(self.undecided if grade.verdict is Verdict.UNDECIDED else grade.score)
        return scores


def from_trl(reward: TRLReward, column: str = "answer") -> Grader:
    """Makes a grader of a TRL reward function; its None is UNDECIDED.

    >>> exact = from_trl(lambda prompts, completions, answer: [float(completions[0] == answer[0])])
    >>> exact("4", "4").score
    1.0
    """

    def grade(completion: str, answer: str) -> Grade:
        (score,) = reward(prompts=[""], completions=[completion], **{column: [answer]})
        if score is None:
            return Grade(0.0, Verdict.UNDECIDED)
        return Grade(float(score), Verdict.CORRECT if score >= 1.0 else Verdict.WRONG)

    return grade


class VerlAdapter:
    r"""A verl ``compute_score`` function made of a grader.

    >>> from graders import get_grader
    >>> VerlAdapter(get_grader("gsm8k"))("openai/gsm8k", "#### 4", "4")
    1.0
    """

    def __init__(self, grader: Grader) -> None:
        """Stores the grader."""
        self.grader = grader

    def __call__(
        self, data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None,
        **others: Any,
    ) -> float:  # fmt: skip
        """The score of one solution."""
        return self.grader(solution_str, str(ground_truth)).score


def from_verl(compute_score: VerlScore, data_source: str = "") -> Grader:
    """Makes a grader of a verl score function, which returns a number or a dict with ``score``.

    >>> grade = from_verl(lambda source, solution, truth, extra: {"score": solution == truth})
    >>> grade("4", "5").verdict
    <Verdict.WRONG: 'wrong'>
    """

    def score(completion: str, answer: str) -> float:
        result = compute_score(data_source, completion, answer, None)
        return float(result["score"] if isinstance(result, Mapping) else result)

    return as_grader(score)


class MathVerifyGrader:
    """Grades with Math-Verify, a peer to compare with.

    Args:
        timeout_seconds: Its time limit, which uses an alarm signal and so works in the main
            thread alone; None (no limit) works everywhere, best in a worker of ``graders.pool``.

    Raises:
        ImportError: The extra is not installed.
    """

    def __init__(self, timeout_seconds: int | None = None) -> None:
        """Imports Math-Verify."""
        try:
            import math_verify  # type: ignore[import-untyped]  # no stubs
        except ImportError as error:
            raise ImportError(
                "Math-Verify is not installed: pip install 'lang-env[math_verify]'"
            ) from error
        self._library = math_verify
        self.timeout_seconds = timeout_seconds

    def __call__(self, completion: str, answer: str) -> Grade:
        """Grades a completion; a reference that it cannot parse is UNDECIDED."""
        parse = self._library.parse
        gold = parse(f"\\boxed{{{answer}}}", parsing_timeout=self.timeout_seconds)
        pred = parse(completion, parsing_timeout=self.timeout_seconds)
        extracted = str(pred[-1]) if pred else ""
        if not gold:
            return Grade(0.0, Verdict.UNDECIDED, extracted)
        right = self._library.verify(gold, pred, timeout_seconds=self.timeout_seconds)
        return Grade(float(right), Verdict.CORRECT if right else Verdict.WRONG, extracted)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the module out of a pickle."""
        return {"timeout_seconds": self.timeout_seconds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Imports the module again."""
        self.__init__(state["timeout_seconds"])  # type: ignore[misc]  # same class, same limit
