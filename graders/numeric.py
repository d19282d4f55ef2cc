"""GSM8K numbers: one number in words of everyday text, compared exactly."""

from __future__ import annotations

import re
from fractions import Fraction

from graders.base import Grade, Verdict
from graders.extract import hash_answer

MAX_CHARS = 400
"""Longest text that is read as one number, in characters."""

_PLAIN = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(
    r"(?P<sign>[-+−]?)\s*[$€£]?\s*(?P<minus>[-−]?)"
    r"(?P<int>\d{1,3}(?:,\d{3})+(?!\d)|\d*)(?P<dec>\.\d+)?(?:\s*/\s*(?P<den>\d+))?"
)


def read_number(text: str) -> Fraction | None:
    """Reads the number at the start of ``text``; words and units may follow it.

    >>> read_number("$1,234.50 in total"), read_number("3/4 cups"), read_number("none")
    (Fraction(2469, 2), Fraction(3, 4), None)
    """
    match = _NUMBER.match(text.strip()[:MAX_CHARS])
    if match is None or not (match["int"] or match["dec"]):
        return None
    value = Fraction((match["int"].replace(",", "") or "0") + (match["dec"] or ""))
    if match["den"]:
        if not int(match["den"]):
            return None
        value /= int(match["den"])
    return -value if (match["sign"] in ("-", "−")) != bool(match["minus"]) else value


def grade_gsm8k(completion: str, answer: str) -> Grade:
    """Grades a GSM8K completion: the number after the last ``####`` against ``answer``.

    >>> grade_gsm8k("#### 1,000 eggs", "1000").verdict
    <Verdict.CORRECT: 'correct'>
    """
    extracted = hash_answer(completion) or ""
    if extracted == answer and _PLAIN.fullmatch(answer):
        return Grade(1.0, Verdict.CORRECT, extracted)
    gold = read_number(answer)
    if gold is None:
        return Grade(0.0, Verdict.UNDECIDED, extracted)
    if extracted and read_number(extracted) == gold:
        return Grade(1.0, Verdict.CORRECT, extracted)
    return Grade(0.0, Verdict.WRONG, extracted)
