r"""The smallest parts of an expression: numerals, letters, brackets, commands, matrices."""

from __future__ import annotations

from fractions import Fraction

from graders.cursor import Cursor, number
from graders.lexer import Token
from graders.limits import MAX_DEPTH, LimitReachedError
from graders.nodes import EMPTY, INFINITY, PI, REALS, E, I, Node, UnreadableError, div, num
from graders.words import FUNCTIONS, GREEK

_APPLIED = frozenset("fgFG")
_MATRICES = frozenset("matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix array smallmatrix".split())


def valid_base(digits: str, base: str) -> bool:
    """Tells whether digits belong to a base from 2 to 36.

    >>> valid_base("102", "3"), valid_base("103", "3"), valid_base("2A", "16")
    (True, False, True)
    """
    if not base.isdecimal() or len(base) > 2 or not 2 <= int(base) <= 36:
        return False
    return all(
        c.isascii() and c.isalnum() and int(c, 36) < int(base) for c in digits.replace(".", "", 1)
    )


class PrimaryReader(Cursor):
    """Reads one primary at a time."""

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
        if text.endswith(".") and self.at("op", "(") and self.peek(2).text == ")":
            period = self.peek(1).text
            if period.isdecimal():  # 0.(3)
                self.position += 3
                return num(Fraction(text + "0") + Fraction(int(period), 10 ** len(period) - 1))
        if self.at("op", "_"):
            self.take()
            base = self.group_text()
            if not valid_base(text, base):
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
        if name == "ldots":
            return Node("sym", (), "\\ldots")
        if name == "emptyset":
            return EMPTY
        if name in ("mathbb", "reals"):
            label = self.group_text() if name == "mathbb" else "R"
            return REALS if label == "R" else Node("sym", (), f"\\mathbb{label}")
        if name in ("angle", "triangle", "overline", "vec", "overrightarrow", "hat", "widehat"):
            if self.at("op", "{"):
                letters = self.group_text()
                if name == "overline" and len(letters) > 1 and letters.isupper():
                    return Node("mul", tuple(Node("sym", (), letter) for letter in letters))
                return Node("sym", (), name + letters)
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
        r"""``\sqrt[n]{x}``, ``sqrt(x)`` and the radical sign."""
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
        if self.builder():  # \{x \mid x > 2\}
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

    def builder(self) -> bool:
        r"""Takes ``x |`` or ``x \in \mathbb{R} :`` at the start of a set with a condition."""
        length = 1
        if self.peek(1)[:2] == ("cmd", "in"):
            length = 6 if self.peek(2).text == "mathbb" else 3
        if self.peek().kind != "let" or self.peek(length).text not in ("|", ":"):
            return False
        self.position += length + 1
        return True

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
            while self.at("cmd", "newline"):  # doubled by JSON escaping, too
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
