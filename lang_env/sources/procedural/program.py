"""Small programs over single-digit variables, modulo 10: their text, parsing and execution.

A program is a list of statements such as ``a:=3+4;`` or ``a:=a*7;`` and one variable that is asked.
Its worked solution repeats each statement with the numbers filled in, one a line, looks the asked
variable up and answers:

    a:=3+4;          3+4:a=7
    a:=a*7;          7*7:a=9
    b:=8-9;          8-9:b=9
    a?               a=9
                     #### 9
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

MODULUS = 10
_STATEMENT = re.compile(r"([a-j]):=([a-j]|\d)([-+*])(\d);")
_QUESTION = re.compile(r"([a-j])\?")

Apply = Callable[[str, int, int], int]
"""Maps ``(operator, left, right)`` to a digit."""


def exact(operator: str, left: int, right: int) -> int:
    """Returns the right result of one operation, modulo 10.

    >>> exact("+", 7, 5), exact("-", 2, 5), exact("*", 7, 7)
    (2, 7, 9)
    """
    if operator == "+":
        return (left + right) % MODULUS
    if operator == "-":
        return (left - right) % MODULUS
    return (left * right) % MODULUS


@dataclass(frozen=True, slots=True)
class Statement:
    """``target := left operator right``; ``left`` is None where the target itself is read."""

    target: str
    left: int | None
    operator: str
    right: int

    def __str__(self) -> str:
        """Returns the statement's line, for example ``a:=3+4;``."""
        left = self.target if self.left is None else self.left
        return f"{self.target}:={left}{self.operator}{self.right};"


@dataclass(frozen=True, slots=True)
class Program:
    """Statements in order, and the variable whose final value is asked."""

    statements: tuple[Statement, ...]
    asked: str

    def __str__(self) -> str:
        """Returns the question: a statement a line, then for example ``b?``."""
        return "\n".join([*map(str, self.statements), f"{self.asked}?"])

    def run(self, apply: Apply = exact) -> tuple[list[str], dict[str, int]]:
        """Executes the program.

        Args:
            apply: What computes an operation; a slipping one gives a wrong but coherent working.

        Returns:
            The working, a line a statement, and the final value of each variable.
        """
        values: dict[str, int] = {}
        lines = []
        for step in self.statements:
            left = values[step.target] if step.left is None else step.left
            values[step.target] = apply(step.operator, left, step.right)
            formula = f"{left}{step.operator}{step.right}"
            lines.append(f"{formula}:{step.target}={values[step.target]}")
        return lines, values


def parse_program(question: str) -> Program:
    r"""Reads a question back into its program.

    >>> str(parse_program("a:=3+4;\na:=a*7;\na?")).splitlines()
    ['a:=3+4;', 'a:=a*7;', 'a?']

    Raises:
        ValueError: The text is not such a program, or reads a variable before it has a value.
    """
    *lines, last = question.split("\n")
    asked = _QUESTION.fullmatch(last)
    statements = []
    known: set[str] = set()
    for line in lines:
        match = _STATEMENT.fullmatch(line)
        if match is None:
            raise ValueError(f"not a statement such as 'a:=3+4;': {line!r}")
        target, left, operator, right = match.groups()
        if not left.isdigit() and (left != target or target not in known):
            raise ValueError(f"{line!r} reads {left!r}, which has no value there")
        known.add(target)
        statements.append(
            Statement(target, int(left) if left.isdigit() else None, operator, int(right))
        )
    if asked is None or asked.group(1) not in known:
        raise ValueError(f"the last line must ask for a variable such as 'a?', got {last!r}")
    return Program(tuple(statements), asked.group(1))


def worked_solution(lines: list[str], asked: str, answer: int) -> str:
    r"""Joins a working, the look-up of the asked variable and the answer line.

    >>> worked_solution(["3+4:a=7"], "a", 7)
    '3+4:a=7\na=7\n#### 7'
    """
    return "\n".join([*lines, f"{asked}={answer}", f"#### {answer}"])
