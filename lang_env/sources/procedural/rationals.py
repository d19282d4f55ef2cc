"""Sums, differences, products and quotients of fractions, brought to lowest terms."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np

from lang_env.problem import Longest
from lang_env.sources.procedural.base import Level, ProceduralSet, between, worked

Pair = tuple[int, int]
"""Numerator and denominator, not always in lowest terms."""


def _show(pair: Pair) -> str:
    return f"{pair[0]}/{pair[1]}"


def _ask(formula: str) -> str:
    return f"What is {formula}?"


def _reduced(pair: Pair) -> tuple[list[str], Fraction]:
    """Returns the line that brings a fraction to lowest terms, if one is needed, and its value."""
    value = Fraction(*pair)
    return ([] if str(value) == _show(pair) else [f"{_show(pair)} = {value}"]), value


def _sum(left: Pair, right: Pair, sign: str) -> tuple[list[str], Fraction]:
    """Returns the working of ``left + right`` or ``left - right``, and its value."""
    common = lcm(left[1], right[1])
    lines, tops = [], []
    for pair in (left, right):
        tops.append(pair[0] * common // pair[1])
        if pair[1] != common:
            lines.append(f"{_show(pair)} = {tops[-1]}/{common}")
    top = tops[0] + tops[1] if sign == "+" else tops[0] - tops[1]
    lines.append(f"{tops[0]}/{common} {sign} {tops[1]}/{common} = {top}/{common}")
    reduction, value = _reduced((top, common))
    return lines + reduction, value


def _product(left: Pair, right: Pair) -> tuple[list[str], Fraction]:
    """Returns the working of ``left * right``, and its value."""
    product = (left[0] * right[0], left[1] * right[1])
    reduction, value = _reduced(product)
    return [f"{_show(left)} * {_show(right)} = {_show(product)}", *reduction], value


def _quotient(left: Pair, right: Pair) -> tuple[list[str], Fraction]:
    """Returns the working of ``left / right``, and its value."""
    turned = (right[1], right[0])
    lines, value = _product(left, turned)
    asked = f"({_show(left)}) / ({_show(right)})"
    return [f"{asked} = {_show(left)} * {_show(turned)}", *lines], value


def _pair(rng: np.random.Generator, most: int) -> Pair:
    """Draws a fraction in lowest terms that is no whole number; its parts are at most ``most``."""
    while True:
        value = Fraction(between(rng, 1, most), between(rng, 2, most))
        if value.denominator > 1:
            return value.numerator, value.denominator


def _ordered(left: Pair, right: Pair, sign: str) -> tuple[Pair, Pair]:
    """Swaps the two where their difference would be negative."""
    swap = sign == "-" and Fraction(*left) < Fraction(*right)
    return (right, left) if swap else (left, right)


def _same_denominator(rng: np.random.Generator) -> tuple[str, str, str]:
    bottom, sign = between(rng, 3, 20), "+-"[between(rng, 0, 1)]
    pairs = (between(rng, 1, 2 * bottom - 1), bottom), (between(rng, 1, 2 * bottom - 1), bottom)
    left, right = _ordered(*pairs, sign)
    lines, value = _sum(left, right, sign)
    return _ask(f"{_show(left)} {sign} {_show(right)}"), str(value), worked(lines, value)


def _two_denominators(rng: np.random.Generator) -> tuple[str, str, str]:
    sign, left, right = "+-"[between(rng, 0, 1)], _pair(rng, 15), _pair(rng, 15)
    while right[1] == left[1]:
        right = _pair(rng, 15)
    left, right = _ordered(left, right, sign)
    lines, value = _sum(left, right, sign)
    return _ask(f"{_show(left)} {sign} {_show(right)}"), str(value), worked(lines, value)


def _times_or_over(rng: np.random.Generator) -> tuple[str, str, str]:
    left, right = _pair(rng, 15), _pair(rng, 15)
    if rng.random() < 0.5:
        lines, value = _product(left, right)
        asked = f"{_show(left)} * {_show(right)}"
    else:
        lines, value = _quotient(left, right)
        asked = f"({_show(left)}) / ({_show(right)})"
    return _ask(asked), str(value), worked(lines, value)


def _two_operations(rng: np.random.Generator) -> tuple[str, str, str]:
    sign, first, second, third = "+-"[between(rng, 0, 1)], *(_pair(rng, 9) for _ in range(3))
    if rng.random() < 0.5:
        first, second = _ordered(first, second, sign)
        before, inner = _sum(first, second, sign)
        after, value = _product(inner.as_integer_ratio(), third)
        asked = f"({_show(first)} {sign} {_show(second)}) * {_show(third)}"
    else:
        before, inner = _product(second, third)
        if sign == "-" and inner > Fraction(*first):
            asked = f"{_show(second)} * {_show(third)} - {_show(first)}"
            after, value = _sum(inner.as_integer_ratio(), first, "-")
        else:
            asked = f"{_show(first)} {sign} {_show(second)} * {_show(third)}"
            after, value = _sum(first, inner.as_integer_ratio(), sign)
    return _ask(asked), str(value), worked(before + after, value)


_LEVELS = {
    1: Level(_same_denominator, Longest(question=24, solution=60)),
    2: Level(_two_denominators, Longest(question=24, solution=90)),
    3: Level(_times_or_over, Longest(question=28, solution=90)),
    4: Level(_two_operations, Longest(question=30, solution=130)),
}


def fractions(*, split: str = "train", level: int | None = None) -> ProceduralSet:
    """Arithmetic of fractions; the answer is in lowest terms, 0 or more.

    Args:
        split: "train", "validation" or "test"; no question is in two of them.
        level: 1: sums and differences over one denominator (default). 2: over two. 3: products and
            quotients. 4: two operations.

    >>> problem = fractions(level=2).problem(1)
    >>> print(problem.question)
    What is 3/2 - 9/13?
    >>> print(problem.solution)
    3/2 = 39/26
    9/13 = 18/26
    39/26 - 18/26 = 21/26
    #### 21/26
    """
    return ProceduralSet("fractions", _LEVELS, split=split, level=level, default=1)
