"""High-precision values of expressions at a point."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from graders.limits import MAX_FACTORIAL, MAX_RANGE, LimitReachedError, Work
from graders.nodes import Node, UnreadableError

_MAX_EXPONENT = 1 << 22
_local = threading.local()


def context(digits: int) -> Any:
    """An mpmath context of this thread, set to ``digits`` decimal digits."""
    made = getattr(_local, "context", None)
    if made is None:
        from mpmath.ctx_mp import MPContext  # type: ignore[import-untyped]  # no stubs

        made = _local.context = MPContext()
    made.dps = digits
    return made


class Evaluator:
    """Evaluates trees at a point.

    Args:
        digits: Working precision in decimal digits.
        point: Values of the variables.
        work: The step counter; higher precision costs more steps.
        log_base: The base of a bare log; 0 for e.

    ``outside`` turns True where an even root or a logarithm of a negative number was met: the
    point lies outside of the real domain.
    """

    def __init__(
        self, digits: int, point: Mapping[str, Fraction], work: Work, log_base: int = 0
    ) -> None:
        """Sets precision and point."""
        self.mp = context(digits)
        self.point = dict(point)
        self.work = work
        self.cost = 3 + digits // 50
        self.log_base = log_base
        self.outside = False

    def value(self, node: Node) -> Any:
        """The value of a node as an mpmath number.

        Raises:
            LimitReachedError: A value is too large.
            UnreadableError: The node has no numeric value.
            ZeroDivisionError, ValueError, OverflowError: No value at this point.
        """
        self.work.spend(self.cost)
        result = self._value(node)
        real = result.real if hasattr(result, "real") else result
        if self.mp.isfinite(result) and real and abs(self.mp.mag(real)) > _MAX_EXPONENT:
            raise LimitReachedError("a value too large to evaluate")
        return result

    def rational(self, value: Fraction) -> Any:
        """A rational number at working precision."""
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_EXPONENT:
            raise LimitReachedError("a number too large to evaluate")
        return self.mp.mpf(value.numerator) / value.denominator

    def _value(self, node: Node) -> Any:
        mp, kind = self.mp, node.kind
        if kind == "num":
            return self.rational(node.value)
        if kind == "sym":
            if node.value not in self.point:
                raise UnreadableError(f"variable {node.value} has no value")
            return self.rational(self.point[node.value])
        if kind == "const":
            if node.value == "inf":
                raise UnreadableError("infinity has no value")
            return {"pi": +mp.pi, "e": +mp.e, "i": mp.mpc(0, 1)}[node.value]
        if kind in ("sum", "prod"):
            return self._running(node)
        values = [self.value(argument) for argument in node.args]
        if kind == "add":
            return mp.fsum(values)
        if kind == "mul":
            return mp.fprod(values)
        if kind == "div":
            return values[0] / values[1]
        if kind == "neg":
            return -values[0]
        if kind == "deg":
            return values[0] * mp.pi / 180
        if kind == "pct":
            return values[0] / 100
        if kind == "pow":
            return self._power(values[0], values[1])
        if kind == "fact" and node.value == 1:
            if mp.im(values[0]) or abs(values[0]) > MAX_FACTORIAL:
                raise LimitReachedError("a factorial too large to evaluate")
            return mp.factorial(values[0])
        if kind == "fn":
            return self._function(node.value, values)
        raise UnreadableError(f"{kind} has no value")

    def _power(self, base: Any, exponent: Any) -> Any:
        mp = self.mp
        if base == 0 and mp.re(exponent) < 0:
            raise ZeroDivisionError
        size = abs(mp.mag(base)) + 1 if base else 1
        if abs(exponent) * size > _MAX_EXPONENT:
            raise LimitReachedError("a power too large to evaluate")
        if not mp.isint(exponent):
            self.outside |= bool(not mp.im(base) and base < 0)
        return mp.power(base, exponent)

    def _function(self, name: str, values: list[Any]) -> Any:
        mp = self.mp
        first = values[0]
        if name == "root":
            index = values[1]
            if not mp.im(first) and first < 0 and mp.isint(index) and int(index) % 2:
                return -mp.power(-first, 1 / index)
            self.outside |= bool(not mp.im(first) and first < 0)
            return mp.power(first, 1 / index)
        if name in ("ln", "log"):
            if first == 0:
                raise ZeroDivisionError
            self.outside |= bool(not mp.im(first) and first < 0)
            value = mp.ln(first)
            return value / mp.ln(self.log_base) if name == "log" and self.log_base else value
        if name == "abs":
            return abs(first)
        if name in ("floor", "ceil"):
            near = mp.nint(first)
            if first != near and abs(first - near) < mp.mpf(10) ** (-mp.dps // 2):
                raise LimitReachedError("too close to a whole number")
            return mp.floor(first) if name == "floor" else mp.ceil(first)
        if name in ("max", "min"):
            return max(values) if name == "max" else min(values)
        if name == "binom":
            if any(abs(value) > MAX_FACTORIAL for value in values):
                raise LimitReachedError("a binomial too large to evaluate")
            return mp.binomial(*values)
        if name in _MPMATH:
            if mp.mag(first) > 2000:
                raise LimitReachedError("an angle too large to reduce")
            if name in ("sinh", "cosh", "tanh", "coth", "sech", "csch") and abs(first) > 10**6:
                raise LimitReachedError("a value too large to evaluate")
            return getattr(mp, _MPMATH[name])(first)
        raise UnreadableError(f"{name} has no numeric value")

    def _running(self, node: Node) -> Any:
        index, low_node, high_node, body = node.args
        low, high = self.value(low_node), self.value(high_node)
        if not (self.mp.isint(low) and self.mp.isint(high)) or high - low > MAX_RANGE:
            raise LimitReachedError("a sum of too many terms")
        total = self.mp.mpf(node.kind == "prod")
        for step in range(int(low), int(high) + 1):
            self.point[index.value] = Fraction(step)
            term = self.value(body)
            total = total * term if node.kind == "prod" else total + term
        return total


_MPMATH = {
    "sin": "sin", "cos": "cos", "tan": "tan", "cot": "cot", "sec": "sec", "csc": "csc",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot", "arcsec": "asec",
    "arccsc": "acsc", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "coth": "coth",
    "sech": "sech", "csch": "csch",
}  # fmt: skip


def variables(node: Node) -> set[str]:
    """The names of the free variables of a tree."""
    found: set[str] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current.kind == "sym":
            found.add(current.value)
        if current.kind in ("sum", "prod"):
            found |= variables(Node("list", current.args[1:])) - {current.args[0].value}
        else:
            stack.extend(current.args)
    return found
