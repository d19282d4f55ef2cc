"""A bound under which a constant built from roots must be zero: equality of radicals, proved."""

from __future__ import annotations

import math
from fractions import Fraction

from graders.forms import Forms
from graders.limits import LimitReachedError, Work
from graders.nodes import Node, UnreadableError

_UNITY = Node("unity")


def zero_bound_bits(node: Node) -> float | None:
    """Bits b such that the constant is zero or at least 2**-b in size; None if not algebraic.

    The constructive bound of Burnikel, Fleischer, Mehlhorn and Schirra (2000): an algebraic
    number built with roots is u/l of conjugate bounds, and the product of its conjugates is an
    integer. Sines and cosines of rational multiples of pi are halves of sums of roots of unity.
    """
    indices: dict[Node, int] = {}
    try:
        upper, lower = _conjugate_bounds(node, indices)
    except (ValueError, OverflowError):
        return None
    degree = math.prod(indices.values())
    return (degree - 1) * max(upper, 0.0) + max(lower, 0.0)


def _join_field(order: int, indices: dict[Node, int]) -> None:
    """Widens the one cyclotomic field that holds all of the roots of unity."""
    known = indices.get(_UNITY, 1)
    order = math.lcm(2 * known if known > 1 else 1, order)
    if order > 4000:
        raise ValueError
    indices[_UNITY] = order // 2


def _log2(number: int) -> float:
    return 0.0 if number <= 1 else number.bit_length() * 1.0


def _log_sum(a: float, b: float) -> float:
    return max(a, b) + 1


def _conjugate_bounds(node: Node, indices: dict[Node, int]) -> tuple[float, float]:
    """Logarithms (base 2) of u and l of the bound, with the degree of each root noted."""
    kind = node.kind
    if kind == "num":
        return _log2(abs(node.value.numerator)), _log2(node.value.denominator)
    if kind == "const" and node.value == "i":
        _join_field(4, indices)
        return 0.0, 0.0
    if kind == "fn" and node.value in ("sin", "cos", "tan"):
        _join_field(4 * _angle_order(node.args[0]), indices)
        return 2.0, 2.0 if node.value == "tan" else 1.0
    if kind == "fn" and node.value == "root":
        index = node.args[1].value
        if node.args[1].kind != "num" or index.denominator != 1 or not 1 <= index <= 64:
            raise ValueError
        return _root_bounds(node, _conjugate_bounds(node.args[0], indices), int(index), indices)
    if kind == "pow":
        return _power_bounds(node, indices)
    parts = [_conjugate_bounds(argument, indices) for argument in node.args]
    if kind == "neg":
        return parts[0]
    if kind == "pct":
        return parts[0][0], parts[0][1] + 7
    if kind == "mul":
        return sum(u for u, _ in parts), sum(low for _, low in parts)
    if kind == "div":
        (u1, l1), (u2, l2) = parts
        return u1 + l2, l1 + u2
    if kind == "add":
        upper, lower = parts[0]
        for u, low in parts[1:]:
            upper, lower = _log_sum(upper + low, u + lower), lower + low
        return upper, lower
    raise ValueError


def _root_bounds(
    node: Node, inner: tuple[float, float], index: int, indices: dict[Node, int]
) -> tuple[float, float]:
    upper, lower = inner
    indices[node] = index
    if upper >= lower:
        return (upper + (index - 1) * lower) / index, lower
    return upper, (lower + (index - 1) * upper) / index


def _power_bounds(node: Node, indices: dict[Node, int]) -> tuple[float, float]:
    base, exponent = node.args
    sign = 1
    if exponent.kind == "neg":
        exponent, sign = exponent.args[0], -1
    if exponent.kind == "div" and all(part.kind == "num" for part in exponent.args):
        exponent = Node("num", (), exponent.args[0].value / exponent.args[1].value)
    if exponent.kind != "num" or not 0 <= exponent.value.numerator <= 4096:
        raise ValueError
    top, bottom = exponent.value.numerator, exponent.value.denominator
    upper, lower = _conjugate_bounds(base, indices)
    upper, lower = upper * top, lower * top
    if bottom > 1:
        if bottom > 64:
            raise ValueError
        upper, lower = _root_bounds(node, (upper, lower), bottom, indices)
    return (upper, lower) if sign == 1 else (lower, upper)


def _angle_order(node: Node) -> int:
    """The denominator of an angle in half turns; ValueError if it is no such multiple."""
    forms = Forms(Work(500))
    try:
        top = forms.build(node).top
    except (LimitReachedError, UnreadableError) as error:
        raise ValueError from error
    if not top:
        return 1
    if list(top) != [(("c:pi", Fraction(1)),)]:
        raise ValueError
    order = next(iter(top.values())).denominator
    if order > 400:
        raise ValueError
    return order
