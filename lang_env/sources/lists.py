"""Problems made in Python: a list, or one list for each split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graders.resolve import nearest
from lang_env.problem import Problem, ProblemList
from lang_env.sources.jsonl import part_of
from lang_env.sources.selection import Level, select

_SPLITS = ("train", "validation", "test")


def listed(
    problems: Sequence[Problem] | Mapping[str, Sequence[Problem]],
    *,
    split: str = "train",
    holdout: float | None = None,
    holdout_seed: int = 0,
    levels: Level | Sequence[Level] | None = None,
    subjects: str | Sequence[str] | None = None,
) -> ProblemList:
    """Returns the problems of one split.

    Args:
        problems: A sequence of Problem, or split -> sequence of Problem.
        split: "train", "validation" or "test".
        holdout: Share of the training problems to hold out for validation. A plain list without it
            is used for every split as it is; split -> list without "validation" holds out a tenth.
        holdout_seed: Another seed holds out others.
        levels: Levels to keep; None: all.
        subjects: Subjects to keep; None: all.

    Raises:
        ValueError: What is no Problem, an unknown split, or one that there is not.

    >>> problems = [Problem(str(i), f"{i}+1?", str(i + 1)) for i in range(10)]
    >>> [listed(problems, split=s, holdout=0.3).num_problems for s in ("train", "validation")]
    [7, 3]
    """
    parts = problems if isinstance(problems, Mapping) else {"train": problems}
    for name, part in parts.items():
        if name not in _SPLITS:
            hint = nearest(str(name), _SPLITS)
            raise ValueError(f"unknown split {name!r} in problems.{hint} Known: {[*_SPLITS]}")
        if not all(isinstance(problem, Problem) for problem in part):
            raise ValueError("problems must hold lang_env.Problem objects only")
    if not isinstance(problems, Mapping) and holdout is None:
        chosen = problems
    else:
        chosen = part_of(
            parts, split, holdout=holdout, seed=holdout_seed, where=f"problems={problems!r:.40}..."
        )
    return ProblemList(select(chosen, levels=levels, subjects=subjects))
