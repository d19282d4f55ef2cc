"""Sets of real numbers as sorted disjoint pieces: intervals, points, unions, inequalities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from graders.evaluate import Evaluator, variables
from graders.limits import LimitReachedError, Work
from graders.nodes import INFINITY, Node, UnreadableError

MINUS_INFINITY = Node("neg", (INFINITY,))
_FLIP = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!=", "=": "="}


@dataclass(frozen=True, slots=True)
class End:
    """An end of a piece: its expression, its value for sorting, whether it belongs to the piece."""

    node: Node
    value: float
    closed: bool


Piece = tuple[End, End]
Same = Callable[[Node, Node], bool | None]


class RealSets:
    """Reads nodes as sets of reals.

    Args:
        work: The step counter.
        same: Decides whether two end points are equal.
    """

    def __init__(self, work: Work, same: Same) -> None:
        """Stores the counter and the comparison of end points."""
        self.work = work
        self.same = same

    def end(self, node: Node, closed: bool) -> End:
        """An end point; UnreadableError where it is no real constant."""
        if node == INFINITY or node == Node("add", (INFINITY,)):
            return End(INFINITY, math.inf, closed)
        if node == MINUS_INFINITY:
            return End(node, -math.inf, closed)
        if node.kind == "num":
            return End(node, float(node.value) if abs(node.value) < 10**300 else math.nan, closed)
        if node.kind in ("deg", "pct", "qty"):
            return self.end(node.args[0], closed)
        if variables(node):
            raise UnreadableError("an end with variables")
        try:
            value = Evaluator(30, {}, self.work).value(node)
            return End(node, float(value), closed)
        except (ZeroDivisionError, ValueError, OverflowError, TypeError) as error:
            raise UnreadableError("an end that is no real number") from error

    def pieces(self, node: Node) -> list[Piece]:
        """The pieces of a set node, sorted and merged.

        Raises:
            UnreadableError: The node is no set of reals.
        """
        return self.merge(self._pieces(node))

    def _pieces(self, node: Node) -> list[Piece]:
        self.work.spend(5)
        kind = node.kind
        if kind == "reals" or (kind == "text" and is_all_reals(node.value)):
            return [(End(MINUS_INFINITY, -math.inf, False), End(INFINITY, math.inf, False))]
        if kind == "tuple" and len(node.args) == 2:
            return self._interval(node)
        if kind == "set":
            return [(self.end(n, True), self.end(n, True)) for n in node.args]
        if kind == "union":
            return self._pieces(node.args[0]) + self._pieces(node.args[1])
        if kind == "list" and all(n.kind in ("rel", "tuple", "union") for n in node.args):
            parts = [self.pieces(n) for n in node.args]
            if all(n.kind == "rel" for n in node.args) and "or" not in "".join(node.value):
                result = parts[0]
                for part in parts[1:]:
                    result = self.intersect(result, part)
                return result
            return [piece for part in parts for piece in part]
        if kind in ("inter", "minus"):
            left, right = (self.pieces(n) for n in node.args)
            return self.intersect(left, right if kind == "inter" else self.complement(right))
        if kind == "rel":
            return self._relation(node)
        raise UnreadableError(f"{kind} is no set of numbers")

    def _interval(self, node: Node) -> list[Piece]:
        low = self.end(node.args[0], node.value[0] == "[")
        high = self.end(node.args[1], node.value[1] == "]")
        if (math.isinf(low.value) and low.closed) or (math.isinf(high.value) and high.closed):
            raise UnreadableError("a closed bracket at infinity")
        if not low.value <= high.value:
            raise UnreadableError("an interval with its ends in the wrong order")
        return [(low, high)]

    def _relation(self, node: Node) -> list[Piece]:
        """A chain of inequalities about one variable that stands alone."""
        operators: tuple[str, ...] = node.value
        if operators == ("in",):
            return self._pieces(node.args[1])
        if any(operator not in _FLIP for operator in operators):
            raise UnreadableError("no inequality")
        result: list[Piece] | None = None
        names = set()
        for left, operator, right in zip(node.args, operators, node.args[1:], strict=False):
            if left.kind != "sym":
                left, right, operator = right, left, _FLIP[operator]
            if left.kind != "sym":
                raise UnreadableError("an inequality that is not solved")
            names.add(left.value)
            part = self._half_line(operator, right)
            result = part if result is None else self.intersect(result, part)
        if result is None or len(names) != 1:
            raise UnreadableError("no inequality about one variable")
        return result

    def _half_line(self, operator: str, bound: Node) -> list[Piece]:
        low, high = End(MINUS_INFINITY, -math.inf, False), End(INFINITY, math.inf, False)
        end = self.end(bound, operator in ("<=", ">=", "="))
        if operator == "=":
            return [(end, end)]
        if operator == "!=":
            return [(low, end), (end, high)]
        return [(low, end)] if operator in ("<", "<=") else [(end, high)]

    def equal_ends(self, left: End, right: End) -> bool:
        """Tells whether two end points have the same value; LimitReachedError if undecided."""
        if left.value == right.value and math.isinf(left.value):
            return True
        if abs(left.value - right.value) > 1e-6 * max(1.0, abs(left.value)):
            return False
        verdict = self.same(left.node, right.node)
        if verdict is None:
            raise LimitReachedError("end points that could not be compared")
        return verdict

    def merge(self, pieces: list[Piece]) -> list[Piece]:
        """Sorts pieces and joins those that touch."""
        if any(math.isnan(end.value) for piece in pieces for end in piece):
            raise LimitReachedError("end points too large to sort")
        result: list[Piece] = []
        for low, high in sorted(pieces, key=lambda p: (p[0].value, not p[0].closed)):
            self.work.spend(5)
            same_end = self.equal_ends(low, high)
            if same_end and not (low.closed and high.closed):
                continue
            if result:
                last_low, last_high = result[-1]
                touching = self.equal_ends(low, last_high)
                if (touching and (low.closed or last_high.closed)) or (
                    not touching and low.value < last_high.value
                ):
                    top = self._later(last_high, high)
                    if self.equal_ends(low, last_low) and low.closed:
                        last_low = replace(last_low, closed=True)
                    result[-1] = (last_low, top)
                    continue
            result.append((low, high))
        return result

    def _later(self, left: End, right: End) -> End:
        if self.equal_ends(left, right):
            return replace(left, closed=left.closed or right.closed)
        return left if left.value > right.value else right

    def complement(self, pieces: list[Piece]) -> list[Piece]:
        """The real numbers outside of merged pieces."""
        result: list[Piece] = []
        low = End(MINUS_INFINITY, -math.inf, False)
        for start, stop in pieces:
            if start.value > low.value or (low.closed and start.closed is False):
                if not (math.isinf(start.value)):
                    result.append((low, replace(start, closed=not start.closed)))
            low = replace(stop, closed=not stop.closed)
        if not math.isinf(low.value) or not pieces:
            result.append((low, End(INFINITY, math.inf, False)))
        return result

    def intersect(self, left: list[Piece], right: list[Piece]) -> list[Piece]:
        """The common part, as the complement of the union of the complements."""
        outside = self.complement(self.merge(left)) + self.complement(self.merge(right))
        return self.complement(self.merge(outside))

    def equal(self, left: Node, right: Node) -> bool:
        """Tells whether two nodes are the same set of reals."""
        a, b = self.pieces(left), self.pieces(right)
        return len(a) == len(b) and all(
            x.closed == y.closed and self.equal_ends(x, y)
            for piece_a, piece_b in zip(a, b, strict=True)
            for x, y in zip(piece_a, piece_b, strict=True)
        )


def is_all_reals(words: str) -> bool:
    """Tells whether words name the set of all real numbers."""
    key = words.lower().replace(" ", "").strip(".")
    return key in ("allrealnumbers", "allreals", "realnumbers", "allreal", "thereals",
                   "thesetofallrealnumbers", "thesetofrealnumbers", "allrealvalues")  # fmt: skip
