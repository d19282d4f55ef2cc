"""The tree that an answer is read into: plain tuples, no SymPy."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple


class UnreadableError(Exception):
    """The text is no answer that the reader knows."""


class Node(NamedTuple):
    r"""One node of an answer.

    Expressions: ``num`` (a Fraction), ``const`` (pi, e, i, inf), ``sym`` (a name), ``add``,
    ``mul``, ``div``, ``pow``, ``neg``, ``pm``, ``fact``, ``fn`` (a known function), ``app`` (an
    unknown one), ``sum`` and ``prod``, ``deg``, ``pct``. Structures: ``tuple`` (value: its two
    brackets), ``set``, ``list``, ``union``, ``inter``, ``minus``, ``rel`` (value: the operators
    between the members), ``matrix`` (value: rows, columns), ``text``, ``base`` (value: digits and
    base), ``ratio`` (value: the fields), ``qty`` (a value with its unit words), ``reals``.

    >>> div(num(1), Node("sym", (), "x")).args[0]
    Node(kind='num', args=(), value=Fraction(1, 1))
    """

    kind: str
    args: tuple[Node, ...] = ()
    value: Any = None


def num(value: int | Fraction) -> Node:
    """A rational number."""
    return Node("num", (), Fraction(value))


def div(top: Node, bottom: Node) -> Node:
    """A quotient."""
    return Node("div", (top, bottom))


PI = Node("const", (), "pi")
E = Node("const", (), "e")
I = Node("const", (), "i")  # noqa: E741 - the imaginary unit's own name
INFINITY = Node("const", (), "inf")
EMPTY = Node("set")
REALS = Node("reals")
