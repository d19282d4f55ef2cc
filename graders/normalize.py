"""Plain clean-up of an answer's text, and the grader that compares cleaned text."""

from __future__ import annotations

import unicodedata

from graders.base import Grade, Verdict
from graders.extract import hash_answer


def clean_text(text: str) -> str:
    """Folds case, compatibility forms and white space, and drops a final full stop.

    >>> clean_text("  Hello,   World. ")
    'hello, world'
    """
    text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split()).rstrip(" .")


def grade_exact(completion: str, answer: str) -> Grade:
    r"""Grades by equality of cleaned text: what follows the last ``####``, else all of the text.

    >>> grade_exact("The capital is\n#### Paris.", "paris").verdict
    <Verdict.CORRECT: 'correct'>
    """
    found = hash_answer(completion)
    extracted = completion.strip() if found is None else found
    if not answer.strip():
        return Grade(0.0, Verdict.UNDECIDED, extracted)
    if clean_text(extracted) == clean_text(answer):
        return Grade(1.0, Verdict.CORRECT, extracted)
    return Grade(0.0, Verdict.WRONG, extracted)
