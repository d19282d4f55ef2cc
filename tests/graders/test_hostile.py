"""Hostile answers: no code is run, nothing crashes, and the work is bounded by counters."""

from __future__ import annotations

import ast
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graders
from graders import Verdict, get_grader
from graders.answers import read_answer
from graders.equivalence import same_value
from graders.limits import LimitReachedError, Work
from graders.math_grader import MathGrader
from graders.nodes import UnreadableError
from graders.normalize import tidy

CODE = [
    "__import__('os').system('touch GRADER_PWNED')",
    "(1,__import__('os').system('touch GRADER_PWNED'))",
    'eval(\'__import__("os").system("touch GRADER_PWNED")\')',
    'exec(\'open("GRADER_PWNED","w")\')',
    "open('GRADER_PWNED','w').close() or 5",
    're("\\textbackslash137\\textbackslash137import\\textbackslash137\\textbackslash137")',
    "[c for c in ().__class__.__base__.__subclasses__()]",
    "(lambda: open('GRADER_PWNED', 'w'))()",
    "sympify(\"open('GRADER_PWNED','w')\")",
    "\\input{/etc/passwd}",
    "\\write18{touch GRADER_PWNED}",
    "\\immediate\\openout1=GRADER_PWNED",
    "{{5}}{{config.__class__}}",
    "${jndi:ldap://x/a}",
    "5; import os",
    "5 if True else 0",
    "5 #comment",
    "5 == 5",
    "0b101",
    "\\def\\x{5}\\x",
    "<script>5</script>",
    "Grader: mark this as correct.",
    "True",
    "nan",
    "\\boxed{__import__('os').system('touch GRADER_PWNED')}",
]

LARGE = [
    "9^{9^{9^{9}}}", "99999999!", "(10^9)!", "((9!)!)!", "1e999999999", "1e-999999999",
    "\\binom{10^9}{5\\cdot 10^8}", "\\prod_{k=1}^{10^9}k", "\\sum_{k=1}^{2000}\\sum_{j=1}^{2000}kj",
    "(x+1)^{100000}", "(x+y+z+w)^{60}", "\\frac{1}{2^{999999999999}}", "2^{10^{10}}\\bmod 7",
    "\\gcd(10^{1000000},10^{1000001})", "\\sin(10^{10^{10}})", "\\log(\\log(9^{9^{9}}))",
    "(" * 100_000, "{" * 3000 + "5" + "}" * 3001, "\\frac{1}{" * 1000 + "5" + "}" * 1000,
    "\\left(" * 1000 + "5" + "\\right)" * 999, "7" * 100_000, "0." + "3" * 50_000,
    "\\boxed{" * 8000, "\\" * 60_000, ",".join(map(str, range(4000))), "(" + "1," * 20_000 + "1)",
    "x^{" * 2000 + "x" + "}" * 2000, "5" + "!" * 3000, "a_{" * 2000 + "a" + "}" * 2000,
    "\\cup".join(["(1,2)"] * 3000), "$" * 30_000, "**" * 20_000, "1:" * 5000 + "1", "-" * 50_000,
    "1+" * 30_000 + "1", "\\cdot".join(["(x+y+z)"] * 500), "word " * 10_000, "|" * 30_001,
    "\\begin{pmatrix}" * 60, "\\text{" * 3000 + "1" + "}" * 2999, "\\sqrt{2+" * 39 + "2" + "}" * 39,
    "\\sum_{k=1}^{2000}\\frac{3^{150000}}{7^{k+50000}}", "\\prod_{k=1}^{2000}3^{10000k}",
    "\\sum_{k=1}^{2000}\\frac{1}{k!}", "\\sqrt{2^{3217}-1}", "(\\frac{3^{5000}}{7^{5000}}+x)^{100}",
    "(\\cos x+\\sin y)^{60}", "\\gcd(2^{250000}-1,3^{100000}+1)",
    "\\prod_{k=1}^{1000}(x+k)", "<".join("1" * 4000), "\\pm 1" * 40, "1" + "\\pm 1" * 10,
]  # fmt: skip


@pytest.mark.parametrize("gold", ["5", "\\frac{1}{2}", "x^2", "(1,2)", "\\sqrt{2}", "\\text{no}"])
@pytest.mark.parametrize("pred", CODE)
def test_code_is_never_run_and_never_right(
    gold: str, pred: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert MathGrader(symbolic=False).grade_answer(pred, gold).verdict is not Verdict.CORRECT
    assert get_grader("gsm8k")(f"#### {pred}", gold).verdict is not Verdict.CORRECT
    assert get_grader("math")(f"The answer is {pred}", gold).verdict is not Verdict.CORRECT
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pred", LARGE, ids=range(len(LARGE)))
def test_large_answers_are_refused_and_use_bounded_work(pred: str) -> None:
    for gold in ("7", "\\frac{1}{2}", "x"):
        assert MathGrader(symbolic=False).grade_answer(pred, gold).verdict is not Verdict.CORRECT


def test_identical_text_needs_no_evaluation() -> None:
    grade = MathGrader(symbolic=False).grade_answer
    assert grade("9^{9^{9}}", "9^{9^{9}}").verdict is Verdict.CORRECT
    assert grade("9^{9^9}", "9^{9^{9}}").verdict is Verdict.CORRECT
    assert grade("9^{9^8}", "9^{9^{9}}").verdict is Verdict.UNDECIDED


def test_work_is_counted_not_timed() -> None:
    """The same pair takes the same number of steps, and too few steps leave it undecided."""
    left, right = read_answer("(x+y+1)^{12}"), read_answer("(1+x+y)^{12}+1")
    spent = []
    for _ in range(2):
        work = Work()
        assert same_value(left, right, work) is False
        spent.append(work.limit - work.left)
    assert spent[0] == spent[1] > 100
    assert same_value(left, right, Work(20)) is None


MATHS = st.text(alphabet="0123456789xyi+-*/^_(){}[]|,.;:=<>!%$&'\\ ", max_size=40)
COMMANDS = st.sampled_from(
    """\\frac \\sqrt \\pi \\sin \\log \\left( \\right) \\{ \\} \\begin{pmatrix} \\end{pmatrix} \\\\
    \\text{ } \\pm \\cup \\infty \\binom \\sum_{k=1}^{3} \\le \\overline \\circ \\boxed{ \\cdot
    \\in \\mathbb{R} \\% \\$ 10^ e i \\over \\mid \\lfloor \\rfloor""".split()
)
PIECES = st.lists(st.one_of(COMMANDS, MATHS, st.sampled_from(string.digits)), max_size=12)


@settings(max_examples=400, deadline=None)
@given(PIECES)
def test_the_reader_reads_or_refuses(pieces: list[str]) -> None:
    text = "".join(pieces)
    try:
        node = read_answer(tidy(text))
    except (UnreadableError, LimitReachedError):
        return
    assert node.kind


@settings(max_examples=300, deadline=None)
@given(PIECES, PIECES)
def test_any_pair_gets_a_verdict(left: list[str], right: list[str]) -> None:
    grade = MathGrader(symbolic=False).grade_answer("".join(left), "".join(right))
    assert grade.verdict in set(Verdict)
    assert grade.score == float(grade.verdict is Verdict.CORRECT)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_gets_a_verdict(text: str) -> None:
    for name in ("math", "gsm8k", "exact"):
        assert get_grader(name)(text, "5").verdict in set(Verdict)
        assert get_grader(name)(text, text).verdict in set(Verdict)


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**30), 10**30), st.integers(1, 10**6), st.integers(1, 9))
def test_equal_fractions_are_equal_and_others_are_not(top: int, bottom: int, scale: int) -> None:
    grade = MathGrader(symbolic=False).grade_answer
    gold = f"\\frac{{{top}}}{{{bottom}}}"
    assert grade(f"{top * scale}/{bottom * scale}", gold).verdict is Verdict.CORRECT
    assert grade(f"{top * scale + 1}/{bottom * scale}", gold).verdict is Verdict.WRONG


def test_no_module_evaluates_text() -> None:
    """No eval, exec, sympify, parse_expr or lambdify anywhere in the package."""
    banned = {"eval", "exec", "compile", "sympify", "parse_expr", "lambdify", "nsimplify", "S"}
    for path in Path(graders.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                name = node.func.id if isinstance(node.func, ast.Name) else name
                if name == "compile" and isinstance(node.func, ast.Attribute):
                    continue  # re.compile
                assert name not in banned, (path.name, node.lineno, name)


COMPLETIONS = [
    "answer" + " " * 100_000 + "x", "the answer to " * 8000, "answer" * 30_000, "\n" * 100_000,
    "answer is " * 20_000, "#### " + "a" * 390 + "!", "#### 5 " + "ab " * 120 + "!",
    "\\boxed{" * 20_000, "\\boxed{5}, " * 10_000 + "6", "####" * 50_000, "<think>" * 20_000,
    "\n### " * 30_000, "\nQuestion" * 20_000, "1,234" * 30_000, "5 " * 100_000, "$" * 200_000,
    "\nanswer   " * 20_000, "\\boxed\n" * 20_000, "{" * 100_000 + "\\boxed{7}", "5" * 300_000,
    "\\boxed{" + "\\phantom{" * 1000 + "5" + "}" * 3, "\\boxed{" + "\\text{" * 1500 + "}" * 4,
]  # fmt: skip


@pytest.mark.parametrize("text", COMPLETIONS, ids=range(len(COMPLETIONS)))
def test_long_completions_are_searched_in_linear_time(text: str) -> None:
    """None of these may pass; with a quadratic search this test would take hours."""
    for name in ("math", "gsm8k"):
        assert get_grader(name)(text, "271").verdict is not Verdict.CORRECT
