"""Every gold solution of MATH and GSM8K against its own answer, and against the next one's."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from graders import Verdict, get_grader
from graders.math_grader import MathGrader, quick_rational
from graders.normalize import clean_text

# Solutions (file, line from 0) that box their answer in pieces joined by a comma, "and" or "or",
# while the data set's answer is the last piece alone. We read the pieces as one list, as the
# problem asks, and so refuse the incomplete reference.
IN_PIECES = {
    ("train", 91), ("train", 1057), ("train", 3601), ("train", 4242), ("train", 4521),
    ("train", 5142), ("train", 5166), ("train", 7243), ("train", 7347), ("train", 7380),
    ("train", 7403), ("test", 762), ("test", 2157), ("test", 2243), ("test", 2421),
    ("test", 2902), ("test", 4732), ("test", 4953),
}  # fmt: skip
# Two answers of the train split are empty boxes: refused as UNDECIDED.
EMPTY = {("train", 5529), ("train", 5531)}
# Neighbours that differ as text or unit and are the same answer all the same.
COINCIDENCES = {
    ("train", 3003), ("train", 5622), ("train", 5884), ("train", 6047), ("train", 6746),
    ("test", 3810), ("test", 4358),
}  # fmt: skip


def data(*parts: str) -> list[dict[str, str]]:
    folder = os.environ.get("LANG_ENV_DATA")
    if not folder:
        pytest.skip("LANG_ENV_DATA names no folder with the data sets")
    path = Path(folder).joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is missing")
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def last_box(solution: str) -> str:
    """The data set's answer: the last box, found here independently of the grader."""
    start = max(solution.rfind("\\boxed"), solution.rfind("\\fbox"))
    rest = solution[start:].split("{", 1)
    if rest[0].strip("\\") not in ("boxed", "fbox"):
        return solution[start + 6 :].split("$")[0].strip()
    depth = 1
    for index, char in enumerate(rest[1]):
        depth += (char == "{") - (char == "}")
        if depth == 0:
            return rest[1][:index]
    raise AssertionError("an open box in a gold solution")


@pytest.mark.parametrize("split", ["train", "test"])
def test_math_solutions_are_graded_correct_and_the_exceptions_are_known(split: str) -> None:
    grade = get_grader("math")
    failures = {}
    for line, row in enumerate(data("math", f"{split}.jsonl")):
        verdict = grade(row["solution"], last_box(row["solution"])).verdict
        if verdict is not Verdict.CORRECT:
            failures[split, line] = verdict
    expected = {key: Verdict.WRONG for key in IN_PIECES if key[0] == split}
    expected |= {key: Verdict.UNDECIDED for key in EMPTY if key[0] == split}
    assert failures == expected


@pytest.mark.parametrize("split", ["train", "test"])
def test_math_answers_are_wrong_for_the_next_problem(split: str) -> None:
    grader = MathGrader(symbolic=False)
    answers = [last_box(row["solution"]) for row in data("math", f"{split}.jsonl")]
    surprises = set()
    for line, (pred, gold) in enumerate(pairwise(answers)):
        values = quick_rational(pred.strip()), quick_rational(gold.strip())
        same = (
            values[0] == values[1] if None not in values else clean_text(pred) == clean_text(gold)
        )
        if same or not gold:
            continue
        if grader.grade_answer(pred, gold).verdict is not Verdict.WRONG:
            surprises.add((split, line))
    assert surprises == {key for key in COINCIDENCES if key[0] == split}


@pytest.mark.parametrize("split", ["train", "test"])
def test_gsm8k_solutions(split: str) -> None:
    grade = get_grader("gsm8k")
    rows = [row["answer"] for row in data("gsm8k", f"{split}.jsonl")]
    answers = [row.split("####")[1].strip() for row in rows]
    assert [a for r, a in zip(rows, answers, strict=True) if grade(r, a).score != 1.0] == []
    for solution, own, other in zip(rows, answers, answers[1:], strict=False):
        if Fraction(own.replace(",", "")) != Fraction(other.replace(",", "")):
            assert grade(solution, other).verdict is Verdict.WRONG, (own, other)


def test_the_papers_gsm8k_rule_never_matches_a_comma() -> None:
    from graders.numeric import GSM8KGrader

    grade = GSM8KGrader(paper_exact=True)
    failed = {"train": 0, "test": 0}
    for split in failed:
        for row in data("gsm8k", f"{split}.jsonl"):
            answer = row["answer"].split("####")[1].strip()
            if grade(row["answer"], answer).verdict is not Verdict.CORRECT:
                assert "," in answer
                failed[split] += 1
    assert failed == {"train": 79, "test": 14}
