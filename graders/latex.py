r"""Recursive descent over the tokens of an expression: sums, products, powers.

Lists, relations and other structures around expressions are read by ``graders.answers``.
"""

from __future__ import annotations

from graders.cursor import number
from graders.lexer import Token
from graders.limits import LimitReachedError
from graders.nodes import Node, UnreadableError, div, num
from graders.primaries import PrimaryReader

_STOPS = frozenset(
    """end newline rbrace cup cap setminus le ge ne approx in equiv to and or rfloor rceil mod
    pmod choose iff implies Rightarrow notin subset subseteq percent dollar circ div times pm
    mp""".split()
)


class ExpressionReader(PrimaryReader):
    """Reads expressions; ``graders.answers`` widens ``statement`` to structures."""

    def statement(self) -> Node:
        """What a pair of brackets may hold: here, a sum."""
        return self.sum()

    def sum(self) -> Node:
        r"""``a + b - c``; ``a \pm b`` stays one node of two values."""
        terms: list[Node] = []
        while True:
            token = self.peek()
            sign = ""
            if token.kind == "op" and token.text in "+-":
                sign = self.take().text
            elif token.kind == "cmd" and token.text in ("pm", "mp"):
                sign = self.take().text
            elif terms:
                break
            negative = False
            while self.at("op", "+", "-") and sign in ("+", "-"):  # 5+-3
                negative ^= self.take().text == "-"
            term = self.term()
            if (sign == "-") != negative:
                term = Node("neg", (term,))
            if sign in ("pm", "mp"):
                left = terms if terms else [num(0)]
                head = left[0] if len(left) == 1 else Node("add", tuple(left))
                terms = [Node("pm", (head, term), sign)]
            else:
                terms.append(term)
        node = terms[0] if len(terms) == 1 else Node("add", tuple(terms))
        if self.at("cmd", "over", "choose"):  # TeX: the whole group before is the numerator
            name = self.take().text
            bottom = self.nested(self.sum)
            node = div(node, bottom) if name == "over" else Node("fn", (node, bottom), "binom")
        return node

    def term(self) -> Node:
        """A product, written with signs or by juxtaposition; division goes from left to right."""
        node = self.factor()
        factors = [node]
        while True:
            token = self.peek()
            if (token.kind == "op" and token.text == "*") or self.at("cmd", "times"):
                self.take()
                if self.at("op", "*"):  # a programmer's power
                    self.take()
                    factors[-1] = Node("pow", (factors[-1], self.signed_factor()))
                else:
                    factors.append(self.signed_factor())
            elif self.at("op", "/", "÷") or self.at("cmd", "div"):
                self.take()
                left = factors[0] if len(factors) == 1 else Node("mul", tuple(factors))
                factors = [div(left, self.signed_factor())]
            elif self.at("cmd", "mod"):
                self.take()
                left = factors[0] if len(factors) == 1 else Node("mul", tuple(factors))
                factors = [Node("fn", (left, self.signed_factor()), "mod")]
            elif token[:2] == ("let", "U") and factors[-1].kind in ("tuple", "set"):
                break  # a plain-text union
            elif factors[-1].kind == "deg" and token.kind == "let" and token.text in "CF":
                break  # a temperature
            elif self.starts_factor():
                if token.kind == "num" and self.tokens[self.position - 1].kind == "num":
                    raise UnreadableError("two numbers side by side")
                factors.append(self.factor())
            else:
                break
        return factors[0] if len(factors) == 1 else Node("mul", tuple(factors))

    def starts_factor(self) -> bool:
        """Tells whether the next token can begin a factor of a product."""
        kind, text, _ = self.peek()
        if kind in ("num", "let"):
            return True
        if kind == "op":
            return text in "([{" or (text == "|" and self.bars == 0)
        if kind == "cmd":
            return text not in _STOPS and not text.startswith("end ") and text != "over"
        return False

    def signed_factor(self) -> Node:
        """A factor that may carry its own sign, as after an operator."""
        if self.at("op", "-"):
            self.take()
            return Node("neg", (self.nested(self.signed_factor),))
        if self.at("op", "+"):
            self.take()
        return self.factor()

    def factor(self) -> Node:
        """A primary with its powers, factorials, degree and percent signs."""
        first = self.peek()
        node = self.primary()
        if first.kind == "num" and "." not in first.text:
            node = self.mixed(node)
        marks = 0
        while True:
            if self.at("op", "^"):
                self.take()
                node = self.power(node)
            elif self.at("op", "!"):
                self.take()
                marks += 1
                double = self.at("op", "!")
                if double:
                    self.take()
                if marks > 3 or self.at("op", "!"):
                    raise LimitReachedError("more than three factorials")
                node = Node("fact", (node,), 2 if double else 1)
            elif self.at("cmd", "circ"):
                self.take()
                node = _marked("deg", node)
            elif self.at("cmd", "percent") or self.at("op", "%"):
                self.take()
                node = _marked("pct", node)
            else:
                return node

    def power(self, base: Node) -> Node:
        """What follows ``^``."""
        if self.at("cmd", "circ"):
            self.take()
            return _marked("deg", base)
        if self.at("op", "{") and self.peek(1).text in ("circ", "prime") and self.peek(2)[1] == "}":
            mark = self.peek(1).text
            self.position += 3
            return _marked("deg", base) if mark == "circ" else Node("app", (base,), "'")
        exponent = self.nested(self.exponent)
        return Node("pow", (base, exponent))

    def exponent(self) -> Node:
        """A power's exponent: a group, or one signed primary; powers bind to the right."""
        if self.at("op", "-"):
            self.take()
            return Node("neg", (self.nested(self.exponent),))
        node = self.primary()
        if self.at("op", "^") and not self.peek(1).text == "circ":
            self.take()
            return Node("pow", (node, self.nested(self.exponent)))
        return node

    def mixed(self, whole: Node) -> Node:
        r"""``2\frac35`` and ``2 3/5`` are sums where both parts are plain integers."""
        if self.at("cmd", "frac"):
            start = self.position
            saved = self.peek(1)
            part = self.primary()
            top, bottom = part.args if part.kind == "div" else (whole, part)
            if part.kind == "div" and all(
                n.kind == "num" and n.value.denominator == 1 and n.value >= 0 for n in (top, bottom)
            ):
                return Node("add", (whole, part))
            self.position = start
            if start + 1 < len(self.tokens):
                self.tokens[start + 1] = saved
            return whole
        if (
            self.peek().kind == "num"
            and self.peek().space
            and self.peek(1) == Token("op", "/", False)
            and self.peek(2).kind == "num"
        ):
            over, _, under = (self.take() for _ in range(3))
            return Node("add", (whole, div(number(over.text), number(under.text))))
        return whole


def _marked(kind: str, node: Node) -> Node:
    if node.kind in ("deg", "pct"):
        raise UnreadableError("two marks on one value")
    return Node(kind, (node,))
