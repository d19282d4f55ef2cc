"""GSM8K: grade-school word problems, from the hub or from a local folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from graders.resolve import nearest
from lang_env.problem import Problem, ProblemList

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
    rows = _from_hub(part) if data is None else _from_folder(Path(data), part)
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
    for column in _COLUMNS:
        if not isinstance(row.get(column), str):
            raise ValueError(
                f"{where}: column {column!r} is missing or no text; has {sorted(map(str, row))}"
            )
    _, mark, answer = row["answer"].rpartition("####")
    if not mark or not answer.strip():
        raise ValueError(f"{where}: 'answer' must end in '#### number', got {row['answer']!r:.80}")
    return Problem(
        id=f"gsm8k/{name}",
        question=row["question"],
        answer=answer.strip(),
        solution=_MARKS.sub("", row["answer"]),
        subject="gsm8k",
    )


def _from_folder(folder: Path, part: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    path = folder / f"{part}.jsonl"
    if not path.is_file():
        what = f"{path} does not exist" if folder.is_dir() else f"{folder} is no folder"
        raise ValueError(f"cannot read GSM8K: {what}; data must be {_FOLDER}")
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{path}, line {number}"
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{where}: no JSON object: {error}") from error
            if not isinstance(row, dict):
                raise ValueError(f"{where}: expected a JSON object, got {type(row).__name__}")
            yield where, row


def _from_hub(part: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        from datasets import load_dataset  # type: ignore[import-untyped]

        rows = load_dataset(HUB_NAME, "main", split=part)
    except Exception as error:  # datasets raises what its many back ends raise
        raise ValueError(
            f"cannot load {HUB_NAME}: {type(error).__name__}: {error} - pass data=FOLDER (--data "
            f"FOLDER on the command line), {_FOLDER}, or be online with the datasets package."
        ) from error
    for number, row in enumerate(rows):
        yield f"{HUB_NAME}, {part}, row {number}", row
