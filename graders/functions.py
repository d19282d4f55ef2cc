"""Functions of the answer language: how their arguments are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graders.nodes import PI, E, Node, UnreadableError, div, num
from graders.words import FUNCTIONS

if TYPE_CHECKING:
    from graders.primaries import PrimaryReader

_ALIASES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "ceiling": "ceil", "lg": "log10",
}  # fmt: skip
_INVERSE = {name: "arc" + name for name in ("sin", "cos", "tan", "cot", "sec", "csc")}
_MANY = frozenset({"gcd", "lcm", "max", "min"})


def read_function(reader: PrimaryReader, name: str) -> Node:
    r"""Reads what follows a function name; ``\sin^{-1}`` is the inverse function."""
    if name in ("sum", "prod"):
        return _big_operator(reader, name)
    if name == "binom":
        if reader.at("op", "("):
            pair = reader.primary()
            if pair.kind != "tuple":
                raise UnreadableError("binom of one value")
            return Node("fn", pair.args, "binom")
        top = reader.group()
        return Node("fn", (top, reader.group()), "binom")
    name = _ALIASES.get(name, name)
    base = power = None
    for _ in range(2):
        if reader.at("op", "_") and name in ("log", "ln"):
            reader.take()
            base = reader.group()
        elif reader.at("op", "^"):
            reader.take()
            power = reader.nested(reader.exponent)
    if name in _INVERSE and power == Node("neg", (num(1),)):
        name, power = _INVERSE[name], None
    node = _apply(name, base, _argument(reader, name))
    return Node("pow", (node, power)) if power else node


def _apply(name: str, base: Node | None, arguments: tuple[Node, ...]) -> Node:
    if name in _MANY:
        return Node("fn", arguments, name)
    if len(arguments) != 1:
        if name == "log" and len(arguments) == 2:
            return div(Node("fn", arguments[:1], "ln"), Node("fn", arguments[1:], "ln"))
        raise UnreadableError(f"{name} of {len(arguments)} values")
    argument = arguments[0]
    if name == "exp":
        return Node("pow", (E, argument))
    if name == "cis":
        i = Node("const", (), "i")
        return Node("pow", (E, Node("mul", (i, argument))))
    if base is not None:
        return div(Node("fn", (argument,), "ln"), Node("fn", (base,), "ln"))
    if name == "log10":
        return div(Node("fn", (argument,), "ln"), Node("fn", (num(10),), "ln"))
    if name == "det":
        name = "abs"
    return Node("fn", (argument,), name)


def _argument(reader: PrimaryReader, name: str) -> tuple[Node, ...]:
    """One bracketed group, else the product that follows, up to the next function or sign."""
    if reader.at("op", "(", "[", "{"):
        node = reader.nested(reader.primary)
        while reader.at("cmd", "circ"):
            reader.take()
            node = Node("deg", (node,))
        return node.args if node.kind == "tuple" else (node,)
    if reader.at("op", "-"):
        reader.take()
        return (Node("neg", _argument(reader, name)),)
    factors: list[Node] = []
    while reader.starts_factor() and not reader.at("op", "(", "["):
        token = reader.peek()
        if token.kind == "cmd" and _is_function(token.text):
            break
        factors.append(reader.factor())
    if not factors and reader.peek().kind == "cmd" and _is_function(reader.peek().text):
        factors.append(reader.nested(reader.factor))
    if not factors:
        raise UnreadableError(f"{name} of nothing")
    node = factors[0] if len(factors) == 1 else Node("mul", tuple(factors))
    if PI in factors and reader.at("op", "/") and reader.peek(1).kind == "num":
        reader.take()
        node = div(node, reader.primary())
    return (node,)


def _is_function(name: str) -> bool:
    return name in FUNCTIONS and name not in ("frac", "sqrt", "binom", "cbrt")


def _big_operator(reader: PrimaryReader, name: str) -> Node:
    """A sum or product over a running index: node ``sum`` with (index, low, high, body)."""
    reader.expect("op", "_")
    reader.expect("op", "{")
    index = reader.take()
    if index.kind != "let":
        raise UnreadableError("no running index")
    reader.expect("op", "=")
    low = reader.nested(reader.sum)
    reader.expect("op", "}")
    reader.expect("op", "^")
    high = reader.group()
    reader.bound.append(index.text)
    body = reader.nested(reader.term)
    reader.bound.pop()
    return Node(name, (Node("sym", (), index.text), low, high, body))
