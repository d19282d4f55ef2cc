"""Is this answer right? Graders for math answers: ``get_grader("gsm8k")("#### 1,000", "1000")``.

Importing this package is light: SymPy is loaded only when two answers need algebra.
"""

from __future__ import annotations

from collections.abc import Callable

from graders.base import Grade, Grader, Verdict, as_grader
from graders.resolve import resolve

__all__ = ["GRADERS", "Grade", "Grader", "Verdict", "get_grader"]

GRADERS = {
    "exact": "graders.normalize:grade_exact",
    "gsm8k": "graders.numeric:grade_gsm8k",
    "math": "graders.math_grader:grade_math",
}
"""Short names of the graders, each with the object that it stands for."""


def get_grader(name: str | Callable[[str, str], Grade | float]) -> Grader:
    r"""Returns the grader that ``name`` stands for.

    Args:
        name: A key of ``GRADERS``, ``"pkg.mod:attr"`` for one of your own, or a callable. A
            callable may return a Grade or a plain reward.

    Raises:
        ValueError: The name is neither known nor importable.

    >>> get_grader("gsm8k")("so there are 6 x 7 = 42 eggs\n#### 42", "42").score
    1.0
    """
    if not isinstance(name, str):
        return as_grader(name)
    found: Grader = resolve(name, GRADERS, "grader")
    return found if name in GRADERS else as_grader(found)
