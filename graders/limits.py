"""What bounds the work of one grade: a counter of steps and the sizes of inputs and numbers.

Verdicts depend on these counters and never on the clock, so that a busy machine gives the same
verdicts as an idle one.
"""

from __future__ import annotations

MAX_CHARS = 10_000
"""Longest answer that is read, in characters after clean-up."""

MAX_COMPLETION = 400_000
"""Longest completion whose answer is looked for, in characters; of a longer one, the last part."""

MAX_TOKENS = 8_000
"""Most tokens that one answer may hold."""

MAX_DEPTH = 40
"""Deepest nesting of groups that is read; pairs around the whole answer are not counted."""

MAX_DIGITS = 400
"""Longest numeral that is read, in digits."""

MAX_BITS = 1 << 18
"""Largest integer that is computed, in bits; sizes are estimated before anything is computed."""

MAX_FACTORIAL = 3000
"""Largest n of an n! or a binomial that is computed."""

MAX_TERMS = 800
"""Most terms of an expanded polynomial."""

MAX_RANGE = 2000
"""Most terms of a sum or product that is written with a running index."""

MAX_WORK = 40_000
"""Steps that one comparison may take; a step is one term or one node, about a microsecond."""


class LimitReachedError(Exception):
    """A bound on size or work was reached: the pair stays undecided."""


class Work:
    """Counts the steps of one comparison.

    >>> work = Work(10)
    >>> work.spend(8)
    >>> work.spend(8)
    Traceback (most recent call last):
    graders.limits.LimitReachedError: more than 10 steps
    """

    __slots__ = ("left", "limit")

    def __init__(self, limit: int = MAX_WORK) -> None:
        """Starts a counter that allows ``limit`` steps."""
        self.limit = limit
        self.left = limit

    def spend(self, steps: int = 1) -> None:
        """Takes ``steps`` off; raises LimitReachedError when none are left."""
        self.left -= steps
        if self.left < 0:
            raise LimitReachedError(f"more than {self.limit} steps")
