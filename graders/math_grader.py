r"""The MATH grader: the answer inside a completion, read and compared by exact layers."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from graders.base import Grade, Verdict
from graders.equivalence import Prover
from graders.limits import LimitReachedError, Work
from graders.nodes import Node, UnreadableError
from graders.normalize import text_key, tidy
from graders.options import DEFAULTS, Options

_RATIONAL = re.compile(
    r"(-?)(?:([0-9]{1,40})(?:\.([0-9]{1,40}))?|"
    r"\\[dt]?frac\s*\{(-?[0-9]{1,40})\}\s*\{(-?[0-9]{1,40})\}|([0-9]{1,40})/([0-9]{1,40}))"
)
_DECIMAL_COMMA = re.compile(r"-?(?![1-9]\d{0,2},\d{3}$)\d+,\d+")
_CHOICE = re.compile(r"\(?([A-Z])\)?[.:]?")
_OPTION = re.compile(r"(?:option|choice)\s+", re.IGNORECASE)
_CHOICE_LEAD = re.compile(
    r"(?:\\text(?:bf|rm|it)?\s*\{)?\s*(?:\(([A-Za-z])\)|([A-Za-z])[.:)](?!\d))\s*\}?(?P<rest>.*)",
    re.DOTALL,
)


def quick_rational(text: str) -> Fraction | None:
    r"""The value of a plain integer, decimal or fraction of integers; None for anything else.

    >>> quick_rational("-\\frac{3}{4}"), quick_rational("2.50"), quick_rational("x")
    (Fraction(-3, 4), Fraction(5, 2), None)
    """
    match = _RATIONAL.fullmatch(text)
    if match is None:
        return None
    sign, whole, decimals, top, bottom, left, right = match.groups()
    if whole is not None:
        value = Fraction(int(whole + (decimals or "")), 10 ** len(decimals or ""))
    else:
        denominator = int(bottom if left is None else right)
        if not denominator:
            return None
        value = Fraction(int(top if left is None else left), denominator)
    return -value if sign else value


def compare(
    gold: str, pred: str, options: Options = DEFAULTS, prove: Prover | None = None
) -> Verdict:
    r"""Compares an answer with the reference answer.

    Args:
        gold: The reference answer.
        pred: The answer to judge, already taken out of its completion.
        options: The conventions.
        prove: The last layer of equality, for what exact forms and values leave open.

    >>> compare("\\frac{13}{5}", "2\\frac35"), compare("[2,7)", "(2,7)")
    (<Verdict.CORRECT: 'correct'>, <Verdict.WRONG: 'wrong'>)
    """
    if not gold.strip():
        return Verdict.UNDECIDED
    if not pred or pred.isspace():
        return Verdict.WRONG
    quick = quick_rational(gold), quick_rational(pred)
    if quick[0] is not None and quick[1] is not None:
        return Verdict.CORRECT if quick[0] == quick[1] else Verdict.WRONG
    try:
        gold_text, pred_text = tidy(gold), tidy(pred, options.doubled_backslashes)
        if gold_text == pred_text:
            return Verdict.CORRECT
        verdict = _compare_tidied(gold_text, pred_text, options, prove)
    except (LimitReachedError, RecursionError):
        return Verdict.UNDECIDED
    if verdict is None:
        return Verdict.UNDECIDED
    return Verdict.CORRECT if verdict else Verdict.WRONG


def _compare_tidied(gold: str, pred: str, options: Options, prove: Prover | None) -> bool | None:
    quick = quick_rational(gold), quick_rational(pred)
    if quick[0] is not None and quick[1] is not None:
        return quick[0] == quick[1]
    from graders.answers import read_answer
    from graders.structure import Comparison

    try:
        gold_node: Node | None = _read_gold(gold)
    except UnreadableError:
        gold_node = None
    if gold_node is None or gold_node.kind in ("text", "sym"):
        key = text_key(gold)
        choice = _CHOICE.fullmatch(key.upper() if gold.isupper() or "\\" in gold else key)
        if choice and _choice_matches(choice[1], pred, options):
            return True
    if gold_node is None or gold_node.kind == "text":
        key = text_key(gold)
        if key and key == text_key(pred):
            return True
        if gold_node is None:
            return False if re.search(r"[A-Za-z]{3,}", gold) else None
    try:
        pred_node = read_answer(pred)
    except UnreadableError:
        return False
    if not options.number_words and gold_node.kind != "text" and pred.strip("- ").isalpha():
        return False
    work = Work()
    verdict = Comparison(options, work, prove).same(gold_node, pred_node)
    if verdict is False and options.decimal_comma and gold_node.kind != "list":
        if _DECIMAL_COMMA.fullmatch(pred):
            decimal = read_answer(pred.replace(",", "."))
            return Comparison(options, work, prove).same(gold_node, decimal)
    return verdict


@lru_cache(maxsize=4096)
def _read_gold(text: str) -> Node:
    """Reads a reference; one is graded against many answers, so that it is read once."""
    from graders.answers import read_answer

    return read_answer(text)


def _choice_matches(letter: str, pred: str, options: Options) -> bool:
    """A multiple choice letter, alone or followed by the text of the option."""
    pred = _OPTION.sub("", pred)
    if text_key(pred).upper() == letter and "!" not in pred:
        return len(pred.strip()) > 1 or pred.strip() == letter
    match = _CHOICE_LEAD.match(pred)
    if match is None or not options.choice_with_value:
        return False
    if (match[1] or match[2]).upper() != letter:
        return False
    rest = match["rest"]
    return not re.search(r"\(?\b[A-H]\b\)?|\bor\b|\band\b|,", rest)


class MathGrader:
    r"""Grades completions of MATH problems.

    Args:
        options: The conventions of extraction and comparison.
        symbolic: Whether what exact forms leave open goes to SymPy in a worker process; without,
            such a pair is UNDECIDED.

    >>> MathGrader()("So the sum is $\\boxed{\\frac{6}{4}}$.", "1.5").verdict
    <Verdict.CORRECT: 'correct'>
    """

    def __init__(self, options: Options = DEFAULTS, symbolic: bool = True) -> None:
        """Stores the options; no process is started before one is needed."""
        self.options = options
        self.symbolic = symbolic

    def __call__(self, completion: str, answer: str) -> Grade:
        """Grades ``completion`` against ``answer``; an empty reference is UNDECIDED."""
        from graders.extract import extract_answer

        found = extract_answer(completion, "math", self.options)
        return self.grade_answer(found or "", answer)

    def grade_answer(self, pred: str, answer: str) -> Grade:
        """Grades an answer that has been taken out of its completion."""
        verdict = compare(answer, pred, self.options, _prover if self.symbolic else None)
        return Grade(1.0 if verdict is Verdict.CORRECT else 0.0, verdict, pred)


def _prover(left: Node, right: Node) -> bool | None:
    from graders.pool import prove_in_worker

    return prove_in_worker(left, right)


def grade_math(completion: str, answer: str) -> Grade:
    r"""Grades a MATH completion with the default options.

    >>> grade_math("The answer is \\boxed{(x+1)^2}.", "x^2+2x+1").score
    1.0
    """
    return _DEFAULT(completion, answer)


_DEFAULT = MathGrader()
