"""The last layer: SymPy, given objects and never text, under a budget of calls.

The budget counts Python function calls through a profile hook, so that the verdict does not
depend on the clock. This module is the only one that imports SymPy; it runs in a worker process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from graders.evaluate import variables
from graders.limits import LimitReachedError
from graders.nodes import Node, UnreadableError

MAX_CALLS = 300_000
"""Function calls that one proof may take; about half a second."""

_NAMES = {
    "sin": "sin", "cos": "cos", "tan": "tan", "cot": "cot", "sec": "sec", "csc": "csc",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot", "arcsec": "asec",
    "arccsc": "acsc", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "coth": "coth",
    "sech": "sech", "csch": "csch", "ln": "log", "log": "log", "abs": "Abs", "floor": "floor",
    "ceil": "ceiling", "gcd": "gcd", "lcm": "lcm", "max": "Max", "min": "Min",
    "binom": "binomial",
}  # fmt: skip


class _BudgetError(BaseException):
    """The budget is spent; no handler inside SymPy catches it."""


def build(node: Node, symbols: dict[str, Any]) -> Any:
    """The SymPy object of an expression, made by constructors from objects alone.

    Args:
        node: The expression.
        symbols: A SymPy symbol for each variable's name.

    Raises:
        UnreadableError: The node has no counterpart.
    """
    import sympy  # type: ignore[import-untyped]  # no stubs

    kind = node.kind
    if kind == "num":
        return sympy.Rational(node.value.numerator, node.value.denominator)
    if kind == "sym":
        return symbols[node.value]
    if kind == "const" and node.value != "inf":
        return {"pi": sympy.pi, "e": sympy.E, "i": sympy.I}[node.value]
    if kind in ("sum", "prod", "app"):
        raise UnreadableError(f"{kind} is not built")
    arguments = [build(argument, symbols) for argument in node.args]
    if kind == "add":
        return sympy.Add(*arguments)
    if kind == "mul":
        return sympy.Mul(*arguments)
    if kind == "neg":
        return sympy.Mul(sympy.Integer(-1), arguments[0])
    if kind == "div":
        return sympy.Mul(arguments[0], sympy.Pow(arguments[1], sympy.Integer(-1)))
    if kind == "pow":
        return sympy.Pow(*arguments)
    if kind in ("deg", "pct"):
        factor = sympy.pi / 180 if kind == "deg" else sympy.Rational(1, 100)
        return sympy.Mul(arguments[0], factor)
    if kind == "fact" and node.value == 1:
        return sympy.factorial(arguments[0])
    if kind == "fn" and node.value == "root":
        base, index = arguments
        if base.is_negative and index.is_odd:
            return -sympy.Pow(-base, 1 / index)
        return sympy.Pow(base, 1 / index)
    if kind == "fn" and node.value in _NAMES:
        return getattr(sympy, _NAMES[node.value])(*arguments)
    raise UnreadableError(f"{kind} {node.value} is not built")


def prove(left: Node, right: Node, max_calls: int = MAX_CALLS) -> bool | None:
    r"""Tries to prove that two expressions are equal for all real values of their variables.

    Returns:
        True for a proof, else None: what is not proved stays undecided.

    >>> from graders.answers import read_answer
    >>> prove(read_answer("\\sqrt{x^2+2x+1}"), read_answer("|x+1|"))
    True
    """
    import sympy
    from sympy.core.cache import clear_cache  # type: ignore[import-untyped]

    names = sorted(variables(left) | variables(right))
    symbols = {name: sympy.Symbol(f"v{k}", real=True) for k, name in enumerate(names)}
    steps: tuple[Callable[[Any], Any], ...] = (
        lambda d: d,
        sympy.expand,
        lambda d: sympy.expand(d.replace(_is_power, _factored)),
        sympy.simplify,
    )
    clear_cache()
    with _Budget(max_calls):
        try:
            difference = build(left, symbols) - build(right, symbols)
            for step in steps:
                if step(difference) == 0:
                    return True
        except _BudgetError:
            pass
        except (LimitReachedError, UnreadableError):
            return None
        except Exception:  # SymPy raises many kinds of errors on odd input; none is a verdict
            return None
    return None


def _is_power(value: Any) -> bool:
    return bool(value.is_Pow)


def _factored(power: Any) -> Any:
    """A power with its base factored, so that the root of a square is seen."""
    import sympy

    return sympy.Pow(sympy.factor(power.base), power.exp)


class _Budget:
    """Counts calls of Python and built-in functions while it is entered."""

    def __init__(self, calls: int) -> None:
        self.left = calls
        self.previous: Any = None

    def __enter__(self) -> _Budget:
        self.previous = sys.getprofile()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *details: object) -> None:
        sys.setprofile(self.previous)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self.left -= 1
            if self.left < 0:
                raise _BudgetError
