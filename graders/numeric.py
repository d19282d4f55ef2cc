r"""The GSM8K grader: one number, compared exactly.

Separators, currency, percent, units, trailing zeros, fractions and words after the number do not
matter. What is no plain number (``3^2``, ``2 1/2``) is read by the MATH reader.
"""

from __future__ import annotations

import re
from fractions import Fraction

from graders.base import Grade, Verdict
from graders.extract import extract_answer, hash_answer
from graders.options import DEFAULTS, Options
from graders.words import HEDGES

_PLAIN = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(
    r"\s*(?P<sign>[-+]?)\s*\\?\$?\s*(?P<minus>-?)"
    r"(?P<int>[0-9]{1,3}(?:,[0-9]{3}){1,12}|[0-9]{0,60})(?P<dec>\.[0-9]{1,60})?"
    r"(?:\s?\\?%)?(?P<rest>(?:[ ]{1,3}\(?[a-zA-Z]{2,30}\)?){0,6})\s{0,9}\.?\s*"
)
_LAST = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_HEDGED = HEDGES | set("and percent million billion trillion thousand hundred dozen half".split())


def read_number(text: str) -> Fraction | None:
    r"""Reads a plain number with its decorations and the words after it; None for anything else.

    >>> read_number("$1,234.50 in total"), read_number("72."), read_number("3 or 5")
    (Fraction(2469, 2), Fraction(72, 1), None)
    """
    match = _NUMBER.fullmatch(text) if len(text) < 400 else None
    if match is None or not (match["int"] or match["dec"]):
        return None
    rest = match["rest"]
    if rest and (
        not _HEDGED.isdisjoint(rest.lower().replace("(", " ").replace(")", " ").split())
        or not rest.startswith(" ")
    ):
        return None
    digits = match["int"].replace(",", "")
    decimals = (match["dec"] or ".")[1:]
    value = Fraction(int(digits + decimals), 10 ** len(decimals))
    return -value if (match["sign"] == "-") != bool(match["minus"]) else value


class GSM8KGrader:
    r"""Grades completions of GSM8K problems.

    Args:
        options: The conventions of extraction and comparison.
        paper_exact: The rule of the VinePPO paper's code instead: the last number of the
            completion, its commas removed, equal as a string to the reference as it stands. It
            never matches a reference with a comma.

    >>> GSM8KGrader()("#### 1,000 eggs", "1000").verdict
    <Verdict.CORRECT: 'correct'>
    >>> GSM8KGrader(paper_exact=True)("#### 1,000", "1,000").verdict
    <Verdict.WRONG: 'wrong'>
    """

    def __init__(self, options: Options = DEFAULTS, paper_exact: bool = False) -> None:
        """Stores the options."""
        self.options = options
        self.paper_exact = paper_exact

    def __call__(self, completion: str, answer: str) -> Grade:
        """Grades ``completion`` against ``answer``; an empty reference is UNDECIDED."""
        if self.paper_exact:
            return _paper_grade(completion, answer)
        found = _plain_mark(completion)
        if found is None:
            found = extract_answer(completion, "gsm8k", self.options) or ""
        elif _PLAIN.fullmatch(answer):
            if int(found) == int(answer):
                return Grade(1.0, Verdict.CORRECT, found)
            return Grade(0.0, Verdict.WRONG, found)
        return self.grade_answer(found, answer)

    def grade_answer(self, pred: str, answer: str) -> Grade:
        """Grades an answer that has been taken out of its completion."""
        gold, value = read_number(answer), read_number(pred)
        if gold is not None and value is not None:
            verdict = Verdict.CORRECT if gold == value else Verdict.WRONG
        else:
            from graders.math_grader import compare

            verdict = compare(answer, pred, self.options)
        return Grade(1.0 if verdict is Verdict.CORRECT else 0.0, verdict, pred)


def _plain_mark(completion: str) -> str | None:
    """The text after a mark on the last line, where nothing else could hold the answer."""
    if "\\boxed" in completion or "\\fbox" in completion or "<" in completion.replace("<<", ""):
        return None
    if completion.count("####") != 1 or "uestion" in completion or "roblem" in completion:
        return None
    found = hash_answer(completion)
    return found if found and _PLAIN.fullmatch(found) else None


def _paper_grade(completion: str, answer: str) -> Grade:
    numbers = _LAST.findall(completion.replace(",", ""))
    found = numbers[-1] if numbers else ""
    correct = bool(found) and found == answer.strip()
    return Grade(float(correct), Verdict.CORRECT if correct else Verdict.WRONG, found)


def grade_gsm8k(completion: str, answer: str) -> Grade:
    r"""Grades a GSM8K completion with the default options.

    >>> grade_gsm8k("She has 3 + 4 = <<3+4=7>>7 eggs.\n#### 7", "7").score
    1.0
    """
    return _DEFAULT(completion, answer)


_DEFAULT = GSM8KGrader()
