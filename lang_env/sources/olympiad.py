"""OlympiadBench: olympiad problems in English with open text answers, for evaluation only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lang_env.problem import Problem, ProblemList
from lang_env.sources.files import checked_text, folder_rows, hub_rows, text_of
from lang_env.sources.selection import select

HUB_NAME, HUB_CONFIG = "Hothan/OlympiadBench", "OE_TO_maths_en_COMP"
_LAYOUT = (
    "a folder that holds test.jsonl, each line with 'question' and 'final_answer' (a list of "
    "texts), and 'solution', 'subfield' and 'id' where there are some"
)


def olympiadbench(
    *,
    data: str | Path | None = None,
    split: str = "test",
    subjects: str | Sequence[str] | None = None,
) -> ProblemList:
    """Loads the 675 open-ended English mathematics problems without pictures, a test part only.

    Args:
        data: A folder with ``test.jsonl``, or None for ``Hothan/OlympiadBench``, whose only part
            is called "train" there.
        split: "test".
        subjects: Subfields to keep, such as "Algebra"; None: all.

    Raises:
        ValueError: Another split, or data that is missing or broken; names file and line.
    """
    if split != "test":
        raise ValueError(
            f"OlympiadBench has a test part only, got split {split!r}. Train and validate on "
            "MATH-v0."
        )
    rows = (
        hub_rows(HUB_NAME, [HUB_CONFIG], "train", _LAYOUT)
        if data is None
        else folder_rows(Path(data), "test", "OlympiadBench", _LAYOUT)
    )
    problems = [
        problem_from(row, f"olympiadbench/{row.get('id', i)}", where)
        for i, (where, row) in enumerate(rows)
    ]
    return ProblemList(select(problems, levels=None, subjects=subjects))


def problem_from(row: Mapping[str, Any], name: str, where: str) -> Problem:
    """Builds a problem from one row; several final answers are one list.

    Args:
        row: Columns "question" and "final_answer".
        name: The problem's id.
        where: File and line, for the error message.

    Raises:
        ValueError: A column is missing or of another kind.

    >>> row = {"question": "Solve.", "final_answer": ["$2$", "$3$"], "subfield": "Algebra"}
    >>> problem_from(row, "olympiadbench/0", "test.jsonl, line 1").answer
    '$2$, $3$'
    """
    answers = row.get("final_answer")
    if (
        not isinstance(answers, list)
        or not answers
        or not all(isinstance(answer, str) for answer in answers)
    ):
        raise ValueError(f"{where}: 'final_answer' must be a list of texts, got {answers!r:.80}")
    solution = row.get("solution")
    parts = (
        [part for part in solution if isinstance(part, str)] if isinstance(solution, list) else []
    )
    return Problem(
        id=name,
        question=text_of(row, "question", where),
        answer=checked_text(", ".join(answers), "final_answer", where),
        solution=checked_text("\n".join(parts), "solution", where),
        subject=str(row.get("subfield") or ""),
    )
