"""Rules for words, numerals with a base, ratios, matrices, tuples, lists and sets."""

from __future__ import annotations

from fractions import Fraction
from math import gcd

from graders.limits import LimitReachedError
from graders.matrices import as_matrix
from graders.nodes import INFINITY, Node
from graders.normalize import text_key
from graders.realsets import MINUS_INFINITY, is_all_reals
from graders.statement_rules import real_sets
from graders.tri import PASS, Comparer, every

_EMPTY_WORDS = frozenset(
    "emptyset theemptyset nosolution nosolutions norealsolution norealsolutions none".split()
)


def texts(c: Comparer, gold: Node, pred: Node) -> object:
    """Answers in words: the same words, whatever their case and spacing."""
    if "text" not in (gold.kind, pred.kind):
        return PASS
    for words, other in ((gold, pred), (pred, gold)):
        if words.kind == "text" and is_all_reals(words.value) and other.kind != "text":
            return real_sets(c, gold, pred)
    if _is_empty(gold) and _is_empty(pred):
        return True
    keys = [_word_keys(node) for node in (gold, pred)]
    if keys[0] is None or keys[1] is None:
        return False
    return bool(keys[0]) and keys[0] == keys[1]


def _is_empty(node: Node) -> bool:
    """The empty set, or words that name it."""
    if node.kind == "text":
        return text_key(node.value) in _EMPTY_WORDS
    return node.kind == "set" and not node.args


def _word_keys(node: Node) -> frozenset[str] | None:
    """The words of a text answer, a list of words or of letters."""
    if node.kind == "text":
        pieces = node.value.replace(" and ", ",").replace(" or ", ",").split(",")
        return frozenset(key for key in map(text_key, pieces) if key)
    if node.kind in ("sym", "const"):
        return frozenset({str(node.value).lower()})
    if node.kind == "mul" and all(n.kind in ("sym", "const") for n in node.args):
        return frozenset({"".join(str(n.value) for n in node.args).lower()})
    if node.kind == "num":
        return frozenset({str(node.value)})
    if node.kind in ("list", "tuple", "set"):
        parts = [_word_keys(member) for member in node.args]
        if all(part is not None for part in parts):
            return frozenset().union(*(part for part in parts if part is not None))
    return None


def bases(c: Comparer, gold: Node, pred: Node) -> object:
    """Numerals with a base: digits and base."""
    if gold.kind == pred.kind == "base":
        return bool(gold.value == pred.value)
    if "base" not in (gold.kind, pred.kind):
        return PASS
    base, other = (gold, pred) if gold.kind == "base" else (pred, gold)
    if not c.options.drop_base:
        return False
    digits = base.value[0]
    plain = digits.replace(".", "", 1).isdecimal()
    return other.kind == "num" and plain and bool(other.value == Fraction(digits))


def ratios(c: Comparer, gold: Node, pred: Node) -> object:
    """Ratios by value, times by their fields."""
    if "ratio" not in (gold.kind, pred.kind):
        return PASS
    if gold.kind != pred.kind or len(gold.args) != len(pred.args):
        return False
    (fields, half), (other_fields, other_half) = gold.value, pred.value
    if half and other_half and half != other_half:
        return False
    entries = every(c.same(a, b) for a, b in zip(gold.args, pred.args, strict=True))
    if entries or not c.options.ratios_by_value:
        return entries
    if _is_time(gold, fields, half) or other_half or any(f[:1] == "0" for f in other_fields):
        return False
    first = (gold.args[0], pred.args[0])
    return every(
        c.value(Node("mul", (first[0], b)), Node("mul", (first[1], a)))
        for a, b in zip(gold.args[1:], pred.args[1:], strict=True)
    )


def _is_time(node: Node, fields: tuple[str, ...], half: str) -> bool:
    """A clock time: two-digit minutes below 60, and no ratio in lowest terms."""
    if half or any(len(field) > 1 and field[0] == "0" for field in fields):
        return True
    if any(n.kind != "num" or n.value.denominator != 1 for n in node.args):
        return False
    values = [n.value.numerator for n in node.args]
    clock = values[0] <= 24 and all(
        v < 60 and len(f) == 2 for v, f in zip(values[1:], fields[1:], strict=True)
    )
    return clock and gcd(*values) > 1


def matrices(c: Comparer, gold: Node, pred: Node) -> object:
    """Matrices entry by entry."""
    pair = as_matrix(gold), as_matrix(pred)
    if pair[0] is None and pair[1] is None:
        return PASS
    if pair[0] is None or pair[1] is None or pair[0].value != pair[1].value:
        return False
    return every(c.same(a, b) for a, b in zip(pair[0].args, pair[1].args, strict=True))


def tuples(c: Comparer, gold: Node, pred: Node) -> object:
    """Tuples by position; a bare list may have lost its parentheses."""
    if "tuple" not in (gold.kind, pred.kind):
        return PASS
    if gold.kind == pred.kind:
        if gold.value != pred.value or len(gold.args) != len(pred.args):
            return False
        return every(c.same(a, b) for a, b in zip(gold.args, pred.args, strict=True))
    sequence, other = (gold, pred) if gold.kind == "tuple" else (pred, gold)
    if other.kind == "list" and any(member.kind == "tuple" for member in other.args):
        return PASS
    if other.kind == "list" and sequence.value == "()" and c.options.drop_parentheses:
        if any(node in (INFINITY, MINUS_INFINITY) for node in sequence.args):
            return False
        if gold.kind == "list":
            return c.same_members(members(gold), list(pred.args))
        if len(gold.args) != len(pred.args):
            return False
        return every(c.same(a, b) for a, b in zip(gold.args, pred.args, strict=True))
    return PASS if other.kind == "set" and len(other.args) == 1 else False


def collections(c: Comparer, gold: Node, pred: Node) -> object:
    """Lists and sets without order."""
    kinds = (gold.kind, pred.kind)
    if "list" not in kinds and "set" not in kinds:
        return PASS
    sides = members(gold), members(pred)
    if not sides[0] or not sides[1]:
        return not sides[0] and not sides[1]
    if "set" in kinds and kinds[0] != kinds[1] and "list" not in kinds:
        if not c.options.set_of_one:
            return False
    return c.same_members(*sides)


def plus_minus(c: Comparer, gold: Node, pred: Node) -> object:
    """Values with plus-minus signs."""
    sides = [expand(node) for node in (gold, pred)]
    if len(sides[0]) == len(sides[1]) == 1:
        return PASS
    if gold.kind in ("list", "set") or pred.kind in ("list", "set"):
        return PASS
    return c.same_members(
        sides[0] if len(sides[0]) > 1 else members(gold),
        sides[1] if len(sides[1]) > 1 else members(pred),
    )


def expand(node: Node) -> list[Node]:
    """The values of an expression with plus-minus signs."""
    signs = _signs(node)
    if not signs:
        return [node]
    if len(signs) > 4:
        raise LimitReachedError("more than four plus-minus signs")
    if len(signs) == 1 or "mp" in signs:
        return [_choose(node, [upper] * len(signs)) for upper in (True, False)]
    count = len(signs)
    return [_choose(node, [bool(k >> i & 1) for i in range(count)]) for k in range(1 << count)]


def _signs(node: Node) -> list[str]:
    own = [node.value] if node.kind == "pm" else []
    if node.kind in ("list", "set", "rel", "tuple", "text"):
        return []
    return own + [sign for argument in node.args for sign in _signs(argument)]


def _choose(node: Node, uppers: list[bool]) -> Node:
    """Replaces plus-minus nodes from left to right, taking one choice for each."""
    if node.kind == "pm":
        upper = uppers.pop(0)
        left, right = (_choose(argument, uppers) for argument in node.args)
        return Node(
            "add", (left, right if upper == (node.value == "pm") else Node("neg", (right,)))
        )
    return node._replace(args=tuple(_choose(argument, uppers) for argument in node.args))


def members(node: Node) -> list[Node]:
    """The members of a list or set, plus-minus signs expanded; any other answer is one member."""
    if node.kind in ("list", "set"):
        return [value for member in node.args for value in expand(member)]
    return expand(node)
