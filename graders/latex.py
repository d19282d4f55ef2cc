r"""Recursive descent over the tokens of an expression: sums, products, powers, functions.

Lists, relations and other structures around expressions are read by ``graders.answers``.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from graders.lexer import Token
from graders.limits import MAX_DEPTH, LimitReachedError
from graders.nodes import EMPTY, INFINITY, PI, REALS, E, I, Node, UnreadableError, div, num
from graders.words import FUNCTIONS, GREEK

END = Token("end", "")
_STOPS = frozenset(
    """end newline rbrace cup cap setminus le ge ne approx in equiv to and or rfloor rceil mod
    pmod choose iff implies Rightarrow notin subset subseteq percent circ div times pm mp""".split()
)
_APPLIED = frozenset("fgFG")
_MATRICES = frozenset("matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix array smallmatrix".split())


class ExpressionReader:
    """Reads expressions from a list of tokens; ``statement`` reads what stands in a pair of braces.

    Args:
        tokens: The tokens of one answer.
    """

    def __init__(self, tokens: list[Token]) -> None:
        """Starts at the first token."""
        self.tokens = tokens
        self.position = 0
        self.depth = 0
        self.bars = 0
        self.money = False
        self.bound: list[str] = []

    def peek(self, ahead: int = 0) -> Token:
        """The token ``ahead`` places on, without taking it."""
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else END

    def take(self) -> Token:
        """The next token, taken."""
        token = self.peek()
        self.position += 1
        return token

    def at(self, kind: str, *texts: str) -> bool:
        """Tells whether the next token is of ``kind`` with one of ``texts``."""
        token = self.peek()
        return token.kind == kind and token.text in texts

    def expect(self, kind: str, text: str) -> None:
        """Takes the next token, which must be this one."""
        if not self.at(kind, text):
            raise UnreadableError(f"{text!r} missing")
        self.position += 1

    def nested(self, read: Callable[[], Node]) -> Node:
        """Calls ``read`` one level deeper; bars outside do not close inside."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise LimitReachedError(f"nested deeper than {MAX_DEPTH}")
        bars, self.bars = self.bars, 0
        node = read()
        self.bars = bars
        self.depth -= 1
        return node

    def statement(self) -> Node:
        """What a pair of brackets may hold; the reader of answers widens it."""
        return self.sum()

    # --- sums and products -------------------------------------------------------------------

    def sum(self) -> Node:
        """``a + b - c``; ``a \\pm b`` stays one node of two values."""
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
            return text in "([{$" or (text == "|" and self.bars == 0)
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
                node = Node("deg", (node,))
            elif self.at("cmd", "percent") or self.at("op", "%"):
                self.take()
                node = Node("pct", (node,))
            else:
                return node

    def power(self, base: Node) -> Node:
        """What follows ``^``."""
        if self.at("cmd", "circ"):
            self.take()
            return Node("deg", (base,))
        if self.at("op", "{") and self.peek(1).text in ("circ", "prime") and self.peek(2)[1] == "}":
            mark = self.peek(1).text
            self.position += 3
            return Node("deg", (base,)) if mark == "circ" else Node("app", (base,), "'")
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
        """``2\\frac35`` and ``2 3/5`` are sums where both parts are plain integers."""
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
            top, _, bottom = (self.take() for _ in range(3))
            return Node("add", (whole, div(number(top.text), number(bottom.text))))
        return whole

    # --- primaries ---------------------------------------------------------------------------

    def primary(self) -> Node:
        """A number, symbol, group, function or command."""
        kind, text, _ = self.take()
        if kind == "num":
            return self.numeral(text)
        if kind == "let":
            return self.letter(text)
        if kind == "op":
            return self.bracket(text)
        if kind == "cmd":
            return self.command(text)
        raise UnreadableError(f"{text!r} is no number")

    def numeral(self, text: str) -> Node:
        """A numeral, with its repeating part or its base."""
        if self.at("cmd", "overline") and "." in text:
            self.take()
            period = self.group_text()
            if not period.isdecimal():
                raise UnreadableError("a bar over something else than digits")
            whole, _, digits = text.partition(".")
            shift = 10 ** len(digits)
            value = Fraction(int(whole + digits or "0"), shift)
            return num(value + Fraction(int(period), shift * (10 ** len(period) - 1)))
        if self.at("op", "_"):
            self.take()
            base = self.group_text()
            if not base.isdecimal():
                raise UnreadableError("a subscript on a number that is no base")
            return Node("base", (), (text.lstrip("0") or "0", base))
        scientific = self.peek()
        if scientific.text in ("e", "E") and scientific.kind == "let" and not scientific.space:
            sign = self.peek(1).text if self.peek(1).text in ("+", "-") else ""
            digits_at = self.peek(2 if sign else 1)
            if digits_at.kind == "num" and digits_at.text.isdecimal() and not digits_at.space:
                self.position += 3 if sign else 2
                if len(digits_at.text) > 4:
                    raise LimitReachedError("an exponent of more than four digits")
                exponent = int(sign + digits_at.text)
                return num(number(text).value * Fraction(10) ** exponent)
        return number(text)

    def letter(self, text: str) -> Node:
        """A variable with its subscript and primes, or the constants e and i."""
        if text in ("e", "i") and text not in self.bound and not self.at("op", "_"):
            return E if text == "e" else I
        name = text
        if self.at("op", "_"):
            self.take()
            name += "_" + self.group_text()
        while self.at("op", "'"):
            name += self.take().text
        return self.applied(name) if name[0] in _APPLIED else Node("sym", (), name)

    def applied(self, name: str) -> Node:
        """``f(x)`` and ``f^{-1}(x)`` for the letters that name functions."""
        start = self.position
        if self.at("op", "^"):
            self.take()
            power = self.group_text()
            if power != "-1":
                self.position = start
                return Node("sym", (), name)
            name += "^-1"
        if not self.at("op", "("):
            self.position = start
            return Node("sym", (), name.partition("^")[0])
        argument = self.primary()
        return Node("app", argument.args if argument.kind == "tuple" else (argument,), name)

    def bracket(self, text: str) -> Node:
        """A bracketed group: grouping, absolute value, tuple or interval."""
        if text == "{":
            node = self.nested(self.statement)
            self.expect("op", "}")
            return node
        if text == "|":
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise LimitReachedError("too deep")
            bars, self.bars = self.bars, 1
            node = self.sum()
            self.bars = bars
            self.depth -= 1
            self.expect("op", "|")
            return Node("fn", (node,), "abs")
        if text == "$":
            self.money = True
            return self.signed_factor()
        if text in "([":
            return self.nested(lambda: self.items(text))
        raise UnreadableError(f"{text!r} begins no value")

    def items(self, opening: str) -> Node:
        """The members of a tuple or interval, after its opening bracket."""
        members = [self.statement()]
        while self.at("op", ",", ";"):
            self.take()
            members.append(self.statement())
        closing = self.take().text
        if closing not in (")", "]"):
            raise UnreadableError("an open bracket")
        if len(members) > 1:
            return Node("tuple", tuple(members), opening + closing)
        if opening + closing not in ("()", "[]"):
            raise UnreadableError("unlike brackets around one value")
        if self.at("op", "_") and members[0].kind == "num":
            return self.numeral(str(members[0].value))
        return members[0]

    def group(self) -> Node:
        """A TeX argument: a group in braces, else one token (one digit of a numeral)."""
        if self.at("op", "{"):
            self.take()
            return self.bracket("{")
        token = self.peek()
        if token.kind == "num":
            if len(token.text) > 1:
                self.tokens[self.position] = Token("num", token.text[1:], False)
            else:
                self.take()
            return number(token.text[0])
        return self.nested(self.primary)

    def group_text(self) -> str:
        """The plain text of a short group or token: a subscript, a base."""
        if not self.at("op", "{"):
            if self.peek().kind == "end":
                raise UnreadableError("an empty subscript")
            return self.take().text
        self.take()
        pieces: list[str] = []
        while not self.at("op", "}"):
            if self.peek().kind == "end" or len(pieces) > 20 or self.at("op", "{"):
                raise UnreadableError("a long subscript")
            pieces.append(self.take().text)
        self.take()
        return "".join(pieces)

    # --- commands ----------------------------------------------------------------------------

    def command(self, name: str) -> Node:
        """A backslash command or a function name."""
        if name == "frac":
            if self.at("op", "("):
                raise UnreadableError("frac without arguments")
            top = self.group()
            return div(top, self.group())
        if name in ("sqrt", "surd", "cbrt"):
            return self.root(name)
        if name == "pi":
            return PI
        if name == "infty":
            return INFINITY
        if name in GREEK:
            return self.letter("\\" + name)
        if name == "dollar":
            self.money = True
            return self.signed_factor()
        if name == "lbrace":
            return self.nested(self.braces)
        if name == "emptyset":
            return EMPTY
        if name in ("mathbb", "reals"):
            label = self.group_text() if name == "mathbb" else "R"
            return REALS if label == "R" else Node("sym", (), f"\\mathbb{label}")
        if name in ("angle", "triangle", "overline", "vec", "overrightarrow", "hat", "widehat"):
            if self.at("op", "{"):
                return Node("sym", (), name + self.group_text())
            return self.primary()
        if name in ("lfloor", "lceil"):
            node = self.nested(self.sum)
            self.expect("cmd", "r" + name[1:])
            return Node("fn", (node,), "floor" if name == "lfloor" else "ceil")
        if name.startswith("begin "):
            return self.nested(lambda: self.matrix(name[6:]))
        if name in ("mathbf", "mathrm", "text", "rm", "bf"):
            return self.primary()
        from graders.functions import read_function  # the two halves of one grammar

        if name in ("sum", "prod") or name in FUNCTIONS:
            return read_function(self, name)
        raise UnreadableError(f"\\{name} is not known")

    def root(self, name: str) -> Node:
        """``\\sqrt[n]{x}``, ``sqrt(x)`` and the radical sign."""
        index = num(3 if name == "cbrt" else 2)
        if self.at("op", "["):
            self.take()
            index = self.nested(self.sum)
            self.expect("op", "]")
        if name == "surd" and self.peek().kind == "num":
            body = number(self.take().text)
        elif self.at("op", "("):
            body = self.primary()
        else:
            body = self.group()
        return Node("fn", (body, index), "root")

    def braces(self) -> Node:
        """A set in escaped braces, after the opening one."""
        members: list[Node] = []
        if self.peek().kind == "let" and self.peek(1).text in ("|", ":"):  # \{x \mid x > 2\}
            self.position += 2
            condition = self.statement()
            self.expect("cmd", "rbrace")
            if condition.kind != "rel":
                raise UnreadableError("a set without a condition")
            return condition
        while not self.at("cmd", "rbrace"):
            members.append(self.statement())
            if not self.at("op", ",", ";"):
                break
            self.take()
        self.expect("cmd", "rbrace")
        return Node("set", tuple(members))

    def matrix(self, kind: str) -> Node:
        """The cells of a matrix environment, up to its end."""
        if kind not in _MATRICES:
            raise UnreadableError(f"environment {kind!r}")
        rows: list[list[Node]] = []
        row: list[Node] = []
        while True:
            if self.at("cmd", f"end {kind}") and not row:
                break
            row.append(self.statement())
            if self.at("op", "&"):
                self.take()
                continue
            rows.append(row)
            row = []
            if not self.at("cmd", "newline"):
                break
            self.take()
            if self.at("op", "[") and self.peek(1).kind == "num" and self.peek(2).kind != "op":
                while self.peek().kind != "end" and not self.at("op", "]"):
                    self.take()
                self.take()
        self.expect("cmd", f"end {kind}")
        if not rows or any(len(r) != len(rows[0]) for r in rows):
            raise UnreadableError("rows of unequal length")
        cells = tuple(cell for r in rows for cell in r)
        node = Node("matrix", cells, (len(rows), len(rows[0])))
        return Node("fn", (node,), "abs") if kind in ("vmatrix", "Vmatrix") else node


def number(text: str) -> Node:
    """The exact value of a numeral; its length is bounded by the lexer."""
    return num(Fraction(text.rstrip(".") if text != "." else "0"))
