"""Two expressions: the same value? In layers, the cheap and exact ones first."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

from graders.evaluate import Evaluator, variables
from graders.forms import Forms, UndefinedError
from graders.limits import LimitReachedError, Work
from graders.nodes import Node, UnreadableError
from graders.rootbound import zero_bound_bits

Prover = Callable[[Node, Node], bool | None]
"""The last layer: True and False are proofs, None is undecided."""

_DIGITS = 50
_SURE_DIGITS = 120
_MAX_ZERO_BITS = 6000
_PIECEWISE = frozenset({"floor", "ceil", "max", "min", "mod", "gcd", "lcm"})


def same_value(
    left: Node, right: Node, work: Work, prove: Prover | None = None, sampled: bool = True
) -> bool | None:
    r"""Tells whether two expressions are equal as mathematics; None where that stays undecided.

    1. The same tree, or two rational numbers.
    2. Exact normal forms (``graders.forms``), which decide both ways where nothing is opaque.
    3. Values at 50 digits, at fixed random points: a difference refutes.
    4. Constants under roots: enough digits for a proof by a root bound.
    5. Identities in variables, with ``sampled``: the same values to 110 digits at more points of
       many sizes, for expressions without floors and the like.
    6. ``prove``: algebra with SymPy, under a budget.

    A bare ``log`` may mean either base e or base 10, the same one on both sides.

    >>> from graders.answers import read_answer
    >>> same_value(read_answer("2\\sqrt5"), read_answer("\\sqrt{20}"), Work())
    True
    >>> same_value(read_answer("(x+1)^2"), read_answer("x^2+1"), Work())
    False
    """
    if left.kind == right.kind == "num":
        return bool(left.value == right.value)
    if left == right:
        return True
    first = _same_value(left, right, work, prove, 0, sampled)
    if first is not True and (_has_log(left) or _has_log(right)):
        second = _same_value(left, right, work, prove, 10, sampled)
        return second if first is False else (second or None)
    return first


def _has_log(node: Node) -> bool:
    return (node.kind == "fn" and node.value == "log") or any(_has_log(a) for a in node.args)


def _same_value(
    left: Node, right: Node, work: Work, prove: Prover | None, log_base: int, sampled: bool
) -> bool | None:
    if left.kind in ("text", "tuple", "list", "set") or right.kind in ("text", "tuple", "list"):
        return False
    reason: LimitReachedError | None = None
    try:
        forms = Forms(work, log_base)
        if forms.equal(forms.build(left), forms.build(right)):
            return True
        if forms.exact:
            return False
    except UndefinedError:
        return False
    except UnreadableError:
        return True if left == right else False
    except LimitReachedError as error:
        reason = error
        if left == right:
            return True
    try:
        points = sample_points(variables(left) | variables(right), wide=False)
        if _differ(left, right, points, _DIGITS, work, log_base):
            return False
        if reason is not None:
            return None
        if _proved_by_bound(left, right, work, log_base):
            return True
        if sampled and points[0] and _samples_decide(left, right):
            points = sample_points(set(points[0]), wide=True)
            differ = _differ(left, right, points, _SURE_DIGITS, work, log_base)
            if differ is not None:
                return not differ
    except (LimitReachedError, UnreadableError):
        return None
    return prove(left, right) if prove is not None else None


def sample_points(names: set[str], wide: bool) -> list[dict[str, Fraction]]:
    """Fixed pseudo-random rational points, the same for the same names.

    Args:
        names: The variables, at most 40; without any there is one empty point.
        wide: Eleven points of sizes from 1/100 to 10,000 instead of five of the size of 1.
    """
    if len(names) > 40:
        raise LimitReachedError("too many variables to sample")
    if not names:
        return [{}]
    stream = random.Random(20240517 + wide)
    sizes = [0, 0, 0, 0, 0] if not wide else [-1, -2, 0, 1, 2, 3, -1, 0, 1, 0, 2]
    points: list[dict[str, Fraction]] = []
    for index, size in enumerate(sizes):
        point = {}
        for name in sorted(names):
            value = Fraction(stream.randint(100, 3000), 997) * Fraction(10) ** size
            negative = index >= len(sizes) // 2 + 1 and stream.random() < 0.7
            point[name] = -value if negative else value
        points.append(point)
    return points


def _has(node: Node, found: Callable[[Node], bool]) -> bool:
    return found(node) or any(_has(argument, found) for argument in node.args)


def _samples_decide(*nodes: Node) -> bool:
    """Tells whether samples tell expressions apart: no steps, and no huge or tiny numbers."""

    def unfit(node: Node) -> bool:
        if node.kind == "num":
            size = max(abs(node.value.numerator), node.value.denominator)
            return bool(size.bit_length() > 64)
        if node.kind == "pow":
            exponent = node.args[1].args[0] if node.args[1].kind == "neg" else node.args[1]
            return exponent.kind == "num" and exponent.value > 32
        return node.kind == "fact" or (node.kind == "fn" and node.value in _PIECEWISE)

    return not any(_has(node, unfit) for node in nodes)


def _differ(
    left: Node, right: Node, points: list[dict[str, Fraction]], digits: int, work: Work,
    log_base: int,
) -> bool | None:  # fmt: skip
    """Tells whether the values differ at a point of the real domain; None without such points.

    Where the expressions hold the imaginary unit, or no point is real, every point counts.
    """
    imaginary = any(_has(n, lambda n: n.kind == "const" and n.value == "i") for n in (left, right))
    inside = elsewhere = 0
    differ_elsewhere = False
    for point in points:
        evaluator = Evaluator(digits, point, work, log_base)
        try:
            a, b = evaluator.value(left), evaluator.value(right)
        except (ZeroDivisionError, ValueError, OverflowError, TypeError):
            continue
        mp = evaluator.mp
        if not (mp.isfinite(a) and mp.isfinite(b)):
            continue
        tiny = mp.mpf(10) ** (8 - digits)
        differ = bool(abs(a - b) > max(abs(a), abs(b)) * tiny)
        if imaginary or not point or not evaluator.outside:
            inside += 1
            if differ:
                return True
        else:
            elsewhere += 1
            differ_elsewhere |= differ
    if not inside and elsewhere:
        return differ_elsewhere
    return False if inside else None


def _proved_by_bound(left: Node, right: Node, work: Work, log_base: int) -> bool:
    """Proves equality of two constants with roots by evaluating enough digits."""
    if variables(left) or variables(right):
        return False
    difference = Node("add", (left, Node("neg", (right,))))
    bits = zero_bound_bits(difference)
    if bits is None or bits > _MAX_ZERO_BITS:
        return False
    digits = int(bits * 0.302) + 40
    evaluator = Evaluator(digits, {}, work, log_base)
    try:
        value = evaluator.value(difference)
    except (ZeroDivisionError, ValueError, OverflowError):
        return False
    return bool(abs(value) < evaluator.mp.mpf(2) ** (-int(bits) - 10))
