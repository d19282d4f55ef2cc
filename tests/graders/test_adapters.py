"""Reward signatures of other libraries, both ways, and Math-Verify as a grader."""

from __future__ import annotations

import pickle
import sys

import pytest

from graders import Grade, Verdict, get_grader
from graders.adapters import (
    MathVerifyGrader,
    TRLAdapter,
    VerlAdapter,
    completion_text,
    from_trl,
    from_verl,
)

COMPLETIONS = ["\\boxed{4}", "\\boxed{5}"]


def test_trl_reward() -> None:
    reward = TRLAdapter(get_grader("math"), column="solution")
    assert reward(prompts=["a", "b"], completions=COMPLETIONS, solution=["4", "4"]) == [1.0, 0.0]
    chats = [[{"role": "assistant", "content": text}] for text in COMPLETIONS]
    assert reward(completions=chats, solution=["4", "5"], other=[0, 0]) == [1.0, 1.0]
    assert reward.__name__ == "grade_math"
    with pytest.raises(ValueError, match="no column 'solution' among"):
        reward(prompts=["a"], completions=["4"], answer=["4"])
    assert completion_text([]) == ""


def test_trl_undecided() -> None:
    reward = TRLAdapter(get_grader("math"), undecided=None)
    assert reward(completions=["\\boxed{4}"], answer=[""]) == [None]


def test_from_trl_and_back() -> None:
    grade = from_trl(TRLAdapter(get_grader("math"), undecided=None))
    assert grade("\\boxed{4}", "4") == Grade(1.0, Verdict.CORRECT)
    assert grade("\\boxed{5}", "4").verdict is Verdict.WRONG
    assert grade("\\boxed{5}", "").verdict is Verdict.UNDECIDED


def test_verl_and_back() -> None:
    score = VerlAdapter(get_grader("gsm8k"))
    assert score("openai/gsm8k", "#### 1,000", "1000", {"index": 1}, more=2) == 1.0
    grade = from_verl(score, "openai/gsm8k")
    assert grade("#### 7", "7").verdict is Verdict.CORRECT
    assert grade("#### 8", "7").verdict is Verdict.WRONG
    detailed = from_verl(lambda source, solution, truth, extra: {"score": 1.0, "acc": True})
    assert detailed("", "").score == 1.0


def test_math_verify_is_a_grader() -> None:
    pytest.importorskip("math_verify", reason="the math_verify extra is not installed")
    grade = MathVerifyGrader()
    assert grade("so \\boxed{\\frac{1}{2}}", "0.5").verdict is Verdict.CORRECT
    assert grade("so \\boxed{3}", "0.5").verdict is Verdict.WRONG
    again = pickle.loads(pickle.dumps(grade))
    assert again("so \\boxed{2}", "2").score == 1.0


def test_math_verify_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "math_verify", None)
    with pytest.raises(ImportError, match=r"pip install 'lang-env\[math_verify\]'"):
        MathVerifyGrader()
