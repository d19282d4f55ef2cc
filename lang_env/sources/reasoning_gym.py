"""Tasks of the reasoning-gym package: ``problems="reasoning_gym:chain_sum"``.

The package is optional: ``pip install 'lang-env[reasoning_gym]'``. Its generators make the problems
and its ``score_answer`` judges them, so that the environment's own grader is not asked. Some of its
scorers hand the answer to SymPy's parser, which evaluates text: use them in a sandbox.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

from graders import Grade, Verdict
from graders.extract import extract_answer
from graders.resolve import nearest
from lang_env.problem import Problem
from lang_env.sources.procedural.base import SPLITS, split_of

PREFIX = "reasoning_gym:"
"""What the name of such a source begins with."""

_SEEDS = 2**31
_MAX_DRAWS = 1000
_TAGGED = re.compile(r"<answer>\s?((?:(?!<answer>).)*?)\s?</answer>", re.DOTALL)


class ReasoningGymSet:
    """An endless set of one task's problems; index -> problem, always the same.

    The split of a problem is a hash of its question, as in our own families. Each problem is the
    first of a data set with a seed of its own, so that a task with few problems a seed works too.

    Attributes:
        num_problems: None, as the set has no end.
        grader: Judges with the task's own ``score_answer``.
    """

    num_problems: None = None

    def __init__(self, task: str, *, split: str = "train") -> None:
        """Looks the task up.

        Args:
            task: Name of a reasoning-gym data set, such as "chain_sum".
            split: "train", "validation" or "test".

        Raises:
            ValueError: The package is not installed, or it has no such task.
        """
        _library(task)
        self.task, self.split = task, split
        self.grader = ReasoningGymGrader()

    def problem(self, index: int) -> Problem:
        """Returns problem ``index`` (0 <= index < 2**31)."""
        if not 0 <= index < _SEEDS:
            raise IndexError(f"problem index {index} is outside 0 to {_SEEDS - 1}")
        rng = np.random.default_rng([index, SPLITS.index(self.split)])
        for _ in range(_MAX_DRAWS):
            seed = int(rng.integers(_SEEDS))
            entry = _entry(self.task, seed)
            if split_of(entry["question"]) == self.split:
                break
        else:
            raise RuntimeError(
                f"task {self.task!r} has no {self.split} question in {_MAX_DRAWS} draws; its "
                "questions are too few to split"
            )
        answer = str(entry["answer"] or "")  # some tasks have many answers and name none
        return Problem(
            id=f"{PREFIX}{self.task}/{self.split}/{seed}",
            question=entry["question"],
            answer=answer,
            solution=f"<answer>{answer}</answer>" if answer else "",
            subject=f"{PREFIX}{self.task}",
        )

    def sample(self, rng: np.random.Generator) -> Problem:
        """Draws an index uniformly and returns its problem."""
        return self.problem(int(rng.integers(_SEEDS)))


class ReasoningGymGrader:
    """Judges an answer with its task's ``score_answer``, which may give a share of 1.0.

    The answer is what stands in the last ``<answer>...</answer>``, else after ``####`` or in a box,
    else the whole text. Only a score of 1.0 is CORRECT. A problem of another source is UNDECIDED,
    and so is an answer on which the scorer fails.
    """

    def __call__(self, completion: str, answer: str) -> Grade:
        """Returns UNDECIDED: without its problem an answer cannot be scored."""
        return Grade(0.0, Verdict.UNDECIDED, answer_in(completion))

    def grade_problem(self, completion: str, problem: Problem) -> Grade:
        """Judges ``completion`` as an answer to ``problem``."""
        found = answer_in(completion)
        name, _, seed = problem.id.rpartition("/")
        task = name.removeprefix(PREFIX).partition("/")[0]
        if not problem.id.startswith(PREFIX) or not re.fullmatch(r"[0-9]{1,10}", seed):
            return Grade(0.0, Verdict.UNDECIDED, found)
        entry = _entry(task, int(seed))
        if entry["question"] != problem.question:
            return Grade(0.0, Verdict.UNDECIDED, found)
        try:
            score = float(_data_set(task, int(seed)).score_answer(found, entry))
        except Exception:  # about a hundred scorers of others, each raising what it likes
            return Grade(0.0, Verdict.UNDECIDED, found)
        return Grade(score, Verdict.CORRECT if score >= 1.0 else Verdict.WRONG, found)


def answer_in(completion: str) -> str:
    r"""Returns the answer inside a completion.

    >>> answer_in("<answer>3</answer> no, <answer>4</answer>"), answer_in("so\n#### 5")
    ('4', '5')
    """
    tagged = _TAGGED.findall(completion)
    if tagged:
        return str(tagged[-1]).strip()
    if "####" in completion or "\\boxed" in completion:
        return extract_answer(completion, "math") or ""
    return completion.strip()


def _library(task: str) -> Any:
    try:
        import reasoning_gym  # type: ignore[import-not-found]  # an extra
    except ImportError as error:
        raise ValueError(
            f"problems={PREFIX + task!r} needs the package reasoning-gym: pip install "
            "'lang-env[reasoning_gym]'"
        ) from error
    known = reasoning_gym.factory.DATASETS
    if task not in known:
        raise ValueError(
            f"reasoning-gym has no task {task!r}.{nearest(task, known)} It has {len(known)}: see "
            "reasoning_gym.factory.DATASETS"
        )
    return reasoning_gym


@lru_cache(maxsize=256)
def _data_set(task: str, seed: int) -> Any:
    try:
        return _library(task).create_dataset(task, seed=seed, size=1)
    except (AssertionError, TypeError) as error:
        raise ValueError(f"reasoning-gym's task {task!r} cannot be made: {error}") from error


@lru_cache(maxsize=256)
def _entry(task: str, seed: int) -> dict[str, Any]:
    entry: dict[str, Any] = _data_set(task, seed)[0]
    if not isinstance(entry.get("question"), str):
        raise ValueError(f"reasoning-gym's task {task!r} gives no question in text")
    return entry
