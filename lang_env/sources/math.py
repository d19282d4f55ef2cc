"""MATH and MATH-500: competition problems with LaTeX answers, from the hub or a local folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from graders.extract import boxed_answer
from graders.resolve import nearest
from lang_env.problem import Problem, ProblemList
from lang_env.sources.files import Row, folder_rows, hub_rows, text_of
from lang_env.sources.selection import Level, held_out, level_name, select, text_hash

MATH_HUB, MATH500_HUB = "EleutherAI/hendrycks_math", "HuggingFaceH4/MATH-500"
SUBJECTS = (
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
)
"""The hub's configurations of MATH; ``subjects=`` takes these names and the data's own."""

PARTITIONS = ("paper", "original")
_EACH = 24  # every 24th of the paper's 12,000 other problems is for validation: 500
_SPLITS = ("train", "validation", "test")
_LAYOUT = (
    "a folder that holds train.jsonl and test.jsonl, each line with 'problem', 'solution', "
    "'level' and 'type'"
)
_LAYOUT_500 = "a folder that holds test.jsonl, each line with 'problem', 'solution' and 'answer'"


def math(
    *,
    data: str | Path | None = None,
    split: str = "train",
    partition: str = "paper",
    holdout: float | None = None,
    levels: Level | Sequence[Level] | None = None,
    subjects: str | Sequence[str] | None = None,
) -> ProblemList:
    """Loads MATH.

    Args:
        data: A folder with ``train.jsonl`` and ``test.jsonl`` (columns problem, solution, level,
            type), or None for ``EleutherAI/hendrycks_math`` through the ``datasets`` package.
        split: "train", "validation" or "test".
        partition: "paper": test is MATH-500, and of the 12,000 others every 24th, in file order, is
            for validation (11,500 / 500 / 500; the VinePPO paper does not say which its are).
            "original": 7,500 / none / 5,000.
        holdout: With "original", the share of the 7,500 that is held out for validation.
        levels: Levels 1 to 5 to keep, such as [1, 2]; None: all.
        subjects: Subjects to keep, such as ["algebra", "number_theory"]; None: all.

    Raises:
        ValueError: An unknown name, or data that is missing or broken; names file and line.
    """
    _check_name("split", split, _SPLITS)
    _check_name("partition", partition, PARTITIONS)
    if partition == "paper":
        if holdout is not None:
            raise ValueError(
                f"the paper's partition of MATH has its own validation part; pass no holdout "
                f"(got {holdout!r}), or partition='original'"
            )
        problems = _paper(data)[split]
    elif split == "test":
        problems = list(_half(data, "test"))
    else:
        train, validation = held_out(list(_half(data, "train")), holdout or 0)
        problems = train if split == "train" else validation
        if not problems:
            raise ValueError(
                "the original partition of MATH has no validation part. Pass holdout=0.05 (--env_"
                'kwargs \'{"partition": "original", "holdout": 0.05}\') to hold out a share of '
                "its training part, or evaluate nothing with --eval_problems 0."
            )
    return ProblemList(select(problems, levels=levels, subjects=subjects))


def math500(
    *,
    data: str | Path | None = None,
    split: str = "test",
    levels: Level | Sequence[Level] | None = None,
    subjects: str | Sequence[str] | None = None,
) -> ProblemList:
    """Loads MATH-500, which has a test part only.

    Args:
        data: A folder with ``test.jsonl`` (columns problem, solution, answer, and subject, level,
            unique_id where there are some), or None for ``HuggingFaceH4/MATH-500``.
        split: "test".
        levels: Levels 1 to 5 to keep; None: all.
        subjects: Subjects to keep; None: all.

    Raises:
        ValueError: Another split, an unknown name, or data that is missing or broken.
    """
    _check_name("split", split, _SPLITS)
    if split != "test":
        raise ValueError(
            f"MATH-500 has a test part only, got split {split!r}. Train and validate on MATH-v0, "
            "whose test part it is."
        )
    rows = (
        hub_rows(MATH500_HUB, ["default"], "test", _LAYOUT_500)
        if data is None
        else folder_rows(Path(data), "test", "MATH-500", _LAYOUT_500)
    )
    problems = [
        problem_from(row, f"math500/{str(row.get('unique_id', i)).removesuffix('.json')}", where)
        for i, (where, row) in enumerate(rows)
    ]
    return ProblemList(select(problems, levels=levels, subjects=subjects))


def problem_from(row: Mapping[str, Any], name: str, where: str) -> Problem:
    r"""Builds a problem from one row.

    The answer is the row's, or else what its solution boxes last; boxes that one list names
    together ("3 or 4") are one answer. It is empty where the box is, as in two rows of MATH.

    Args:
        row: Columns "problem" and "solution"; "answer", "level", "type" or "subject" if there are.
        name: The problem's id.
        where: File and line, for the error message.

    Raises:
        ValueError: A column is missing, or nothing is boxed.

    >>> row = {"problem": "$1+1$?", "solution": "It is $\\boxed{2}$.", "level": "Level 1"}
    >>> problem = problem_from(row | {"type": "Algebra"}, "math/train/0", "train.jsonl, line 1")
    >>> problem.answer, problem.level, problem.subject
    ('2', '1', 'Algebra')
    """
    question, solution = (text_of(row, column, where) for column in ("problem", "solution"))
    answer = boxed_answer(solution) if "answer" not in row else text_of(row, "answer", where)
    if answer is None:
        raise ValueError(
            f"{where}: 'solution' boxes no answer with \\boxed{{...}}, got "
            f"'...{solution[-60:]}'; add a column 'answer'"
        )
    level = level_name(row.get("level") or "")
    return Problem(
        id=name,
        question=question,
        answer=answer,
        solution=solution,
        level="" if level == "?" else level,
        subject=str(row.get("subject") or row.get("type") or ""),
    )


def _half(data: str | Path | None, part: str) -> Iterator[Problem]:
    """Yields the problems of one of the two files."""
    for number, (where, row) in enumerate(_rows(data, part)):
        yield problem_from(row, f"math/{part}/{number}", where)


def _rows(data: str | Path | None, part: str) -> Iterator[Row]:
    if data is None:
        return hub_rows(MATH_HUB, SUBJECTS, part, _LAYOUT)
    return folder_rows(Path(data), part, "MATH", _LAYOUT)


def _paper(data: str | Path | None) -> dict[str, list[Problem]]:
    """Returns the paper's three parts."""
    every = [problem for part in ("train", "test") for problem in _half(data, part)]
    keys = _math500_questions()
    tested = {problem.id for problem in every if text_hash(problem.question) in keys}
    if not tested:
        raise ValueError(
            f"none of the problems of MATH-500 is in {data}, so that it has no test part of the "
            "paper's. Pass partition='original', or the whole of MATH."
        )
    others = [problem for problem in every if problem.id not in tested]
    return {
        "train": [problem for i, problem in enumerate(others) if i % _EACH != _EACH - 1],
        "validation": others[_EACH - 1 :: _EACH],
        "test": [problem for problem in every if problem.id in tested],
    }


@cache
def _math500_questions() -> frozenset[str]:
    text = resources.files("lang_env").joinpath("assets/math500.json").read_text(encoding="utf-8")
    return frozenset(json.loads(text)["questions"])


def _check_name(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}.{nearest(str(name), known)} Known: {[*known]}")
