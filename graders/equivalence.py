"""Two expressions: the same value? In layers, the cheap and exact ones first."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

from graders.evaluate import Evaluator, variables, zero_bound_bits
from graders.forms import Forms, UndefinedError
from graders.limits import LimitReachedError, Work
from graders.nodes import Node, UnreadableError

Prover = Callable[[Node, Node], bool | None]
"""The last layer: True and False are proofs, None is undecided."""

_DIGITS = 50
_POINTS = 5
_MAX_ZERO_BITS = 6000


def same_value(left: Node, right: Node, work: Work, prove: Prover | None = None) -> bool | None:
    """Tells whether two expressions are equal as mathematics; None where that stays undecided.

    1. The same tree, or two rational numbers.
    2. Exact normal forms (``graders.forms``), which decide both ways where nothing is opaque.
    3. Values at 50 digits, at fixed random points: a difference refutes.
    4. Constants under roots: enough digits for a proof by a root bound.
    5. ``prove``: algebra with SymPy, under a budget.

    A bare ``log`` may mean either base e or base 10, the same one on both sides.

    >>> from graders.answers import read_answer
    >>> same_value(read_answer("2\\\\sqrt5"), read_answer("\\\\sqrt{20}"), Work())
    True
    >>> same_value(read_answer("(x+1)^2"), read_answer("x^2+1"), Work())
    False
    """
    if left.kind == right.kind == "num":
        return bool(left.value == right.value)
    first = _same_value(left, right, work, prove, 0)
    if first is not True and (_has_log(left) or _has_log(right)):
        second = _same_value(left, right, work, prove, 10)
        return second if first is False else (second or None)
    return first


def _has_log(node: Node) -> bool:
    return (node.kind == "fn" and node.value == "log") or any(_has_log(a) for a in node.args)


def _same_value(
    left: Node, right: Node, work: Work, prove: Prover | None, log_base: int
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
        if _refuted(left, right, work, log_base):
            return False
        if reason is None and _proved_by_bound(left, right, work, log_base):
            return True
    except (LimitReachedError, UnreadableError):
        return None
    return prove(left, right) if prove is not None and reason is None else None


def sample_points(names: set[str]) -> list[dict[str, Fraction]]:
    """Fixed pseudo-random rational points, the same for the same names; positive ones first."""
    stream = random.Random(20240517)
    points: list[dict[str, Fraction]] = []
    for index in range(_POINTS if names else 1):
        point = {}
        for name in sorted(names):
            value = Fraction(stream.randint(100, 3000), 997)
            point[name] = -value if index >= 3 and stream.random() < 0.7 else value
        points.append(point)
    return points


def _refuted(left: Node, right: Node, work: Work, log_base: int) -> bool:
    """Tells whether the values differ at a point; where one is not real, only if neither is."""
    names = variables(left) | variables(right)
    if len(names) > 40:
        raise LimitReachedError("too many variables to sample")
    compared = 0
    complex_differ = False
    for point in sample_points(names):
        evaluator = Evaluator(_DIGITS, point, work, log_base)
        try:
            a, b = evaluator.value(left), evaluator.value(right)
        except (ZeroDivisionError, ValueError, OverflowError, TypeError):
            continue
        mp = evaluator.mp
        if not (mp.isfinite(a) and mp.isfinite(b)):
            continue
        scale = max(abs(a), abs(b))
        differ = bool(abs(a - b) > scale * mp.mpf(10) ** (8 - _DIGITS))
        tiny = mp.mpf(10) ** (8 - _DIGITS)
        real = all(abs(mp.im(v)) <= abs(v) * tiny for v in (a, b))
        if real or not names:
            compared += 1
            if differ:
                return True
        else:
            complex_differ |= differ
    return not compared and complex_differ


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
