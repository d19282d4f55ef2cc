"""Graders on whatever a model may write: a verdict, never an error."""

from hypothesis import strategies as st

from graders import Verdict, get_grader
from graders.math_grader import MathGrader
from tests.fuzzing import TEXTS, fuzzed

VERDICTS = set(Verdict)


@fuzzed(15_000, completion=TEXTS, answer=TEXTS)
def test_gsm8k(completion, answer):
    grade = get_grader("gsm8k")(completion, answer)
    assert grade.verdict in VERDICTS
    assert grade.score in (0.0, 1.0)


@fuzzed(15_000, completion=TEXTS, answer=TEXTS)
def test_exact(completion, answer):
    assert get_grader("exact")(completion, answer).verdict in VERDICTS


@fuzzed(15_000, completion=TEXTS, answer=st.one_of(TEXTS, st.just("\\frac{1}{2}")))
def test_math(completion, answer):
    grade = MathGrader(symbolic=False)(f"so \\boxed{{{completion}}}", answer)
    assert grade.verdict in VERDICTS
    assert grade.score == float(grade.verdict is Verdict.CORRECT)
