"""Our own table of cases, in files beside this test: ``kind: gold => right || right !! wrong``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from graders import Verdict, get_grader
from graders.math_grader import MathGrader

FOLDER = Path(__file__).parent / "cases"
ANSWERS = ("numbers", "algebra", "structures", "words")

# How many cases each kind holds at least.
MINIMUM = {
    "int": 80, "decimal": 30, "decimal_approx": 25, "fraction": 70, "fraction_shorthand": 24,
    "mixed_number": 35, "thousands": 40, "scientific": 30, "bigint": 20, "tiny_difference": 14,
    "percent": 40, "degree": 40, "currency": 40, "unit": 60, "radical": 90, "pi": 40,
    "complex": 50, "expr": 180, "function": 100, "combinatorics": 24, "tuple": 60,
    "interval": 90, "union": 45, "list": 80, "set": 40, "pm": 40, "equation": 110,
    "inequality": 70, "matrix": 55, "base_n": 35, "text": 90, "choice": 45, "ratio_time": 55,
    "repeating": 24, "wrapper": 70, "unicode": 120,
}  # fmt: skip


def rows(name: str) -> Iterator[tuple[str, str, list[str], list[str]]]:
    """The lines of a table: kind, gold, accepted and refused predictions."""
    for line in (FOLDER / f"{name}.cases").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        kind, rest = line.split(": ", 1)
        gold, rest = rest.split(" => ", 1)
        right, _, wrong = rest.partition(" !! ")
        yield kind, gold, right.split(" || "), wrong.split(" || ") if wrong else []


@pytest.mark.parametrize("name", ANSWERS)
def test_each_prediction_gets_its_verdict(name: str) -> None:
    grader = MathGrader(symbolic=False)
    mistakes = [
        (kind, gold, pred, str(verdict))
        for kind, gold, right, wrong in rows(name)
        for expected, preds in ((Verdict.CORRECT, right), (Verdict.WRONG, wrong))
        for pred in preds
        if (verdict := grader.grade_answer(pred, gold).verdict) is not expected
    ]
    assert mistakes == []


def test_every_kind_holds_enough_cases_of_both_verdicts() -> None:
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for name in ANSWERS:
        for kind, _, accepted, refused in rows(name):
            right[kind] += len(accepted)
            wrong[kind] += len(refused)
    assert {k: right[k] + wrong[k] for k in MINIMUM if right[k] + wrong[k] < MINIMUM[k]} == {}
    assert set(right) == set(MINIMUM)
    assert min(right.values()) >= 5 and min(wrong.values()) >= 5


def test_completions_get_their_verdicts() -> None:
    mistakes = []
    counts: Counter[str] = Counter()
    for kind, gold, right, wrong in rows("extraction"):
        grader = get_grader(kind.split()[0])
        counts[kind] += len(right) + len(wrong)
        for expected, completions in ((True, right), (False, wrong)):
            for completion in completions:
                grade = grader(completion.replace("⏎", "\n"), gold)
                if (grade.verdict is Verdict.CORRECT) is not expected:
                    mistakes.append((gold, completion, grade))
    assert mistakes == []
    assert min(counts.values()) >= 25 and sum(counts.values()) >= 350


def test_equality_is_symmetric_between_plain_values() -> None:
    """Where both sides are values of the same kind, gold and prediction may change places."""
    grader = MathGrader(symbolic=False)
    for kind, gold, right, wrong in rows("algebra"):
        if kind in ("radical", "expr", "combinatorics", "repeating"):
            for pred in right:
                assert grader.grade_answer(gold, pred).verdict is Verdict.CORRECT, (gold, pred)
            for pred in wrong:
                assert grader.grade_answer(gold, pred).verdict is not Verdict.CORRECT, (gold, pred)
