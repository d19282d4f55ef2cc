"""GSM8K: grade-school word problems, from the hub or from a local folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graders.resolve import nearest
from lang_env.problem import Problem, ProblemList
from lang_env.sources.files import folder_rows, hub_rows, text_of

HUB_NAME = "openai/gsm8k"
NUM_TRAIN = 7_100
"""Problems of the official training part that stay in it (VinePPO's split: 7,100 / 373 / 1,319)."""

_COLUMNS = ("question", "answer")
_FILES = {"train": "train", "validation": "train", "test": "test"}
_FOLDER = "a folder that holds train.jsonl and test.jsonl, each line with 'question' and 'answer'"
_MARKS = re.compile(r"<<[^<>\n]*>>")


def gsm8k(*, data: str | Path | None = None, split: str = "train") -> ProblemList:
    """Loads GSM8K.

    The VinePPO paper holds 373 of the 7,473 official training problems out for validation, but does
    not say which. Here they are the last 373 in file order, everywhere and without a seed; the test
    part is the official one. Of a smaller training file, the same share is held out.

    Args:
        data: A folder with ``train.jsonl`` and ``test.jsonl`` (columns question, answer), or None
            for ``openai/gsm8k`` through the ``datasets`` package.
        split: "train", "validation" or "test".

    Raises:
        ValueError: Unknown split, or data that is missing or broken; names file and line.
    """
    if split not in _FILES:
        raise ValueError(f"unknown split {split!r}.{nearest(split, _FILES)} Known: {[*_FILES]}")
    part = _FILES[split]
    rows = (
        hub_rows(HUB_NAME, ["main"], part, _FOLDER)
        if data is None
        else folder_rows(Path(data), part, "GSM8K", _FOLDER)
    )
    problems = [problem_from(row, f"{part}/{i}", where) for i, (where, row) in enumerate(rows)]
    if part == "train":
        cut = min(NUM_TRAIN, len(problems) - len(problems) // 20)
        problems = problems[:cut] if split == "train" else problems[cut:]
    if not problems:
        raise ValueError(f"GSM8K's {split} split is empty in {data or HUB_NAME}")
    return ProblemList(problems)


def problem_from(row: Mapping[str, Any], name: str, where: str) -> Problem:
    r"""Builds a problem from one row.

    Args:
        row: Columns "question" and "answer"; the answer is a worked solution that ends in
            ``#### number``.
        name: Part and row, for the problem's id.
        where: File and line, for the error message.

    Raises:
        ValueError: A column is missing, or the answer has no ``####`` line.

    >>> row = {"question": "1+1?", "answer": "It is 1+1=<<1+1=2>>2.\n#### 2"}
    >>> problem = problem_from(row, "train/0", "train.jsonl, line 1")
    >>> problem.id, problem.answer, problem.solution
    ('gsm8k/train/0', '2', 'It is 1+1=2.\n#### 2')
    """
    question, solution = (text_of(row, column, where) for column in _COLUMNS)
    _, mark, answer = solution.rpartition("####")
    if not mark or not answer.strip():
        raise ValueError(f"{where}: 'answer' must end in '#### number', got {solution!r:.80}")
    return Problem(
        id=f"gsm8k/{name}",
        question=question,
        answer=answer.strip(),
        solution=_MARKS.sub("", solution),
        subject="gsm8k",
    )
