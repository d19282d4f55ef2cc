r"""Reads a whole answer: lists, relations, sets, ratios, quantities, words."""

from __future__ import annotations

import re

from graders.latex import ExpressionReader
from graders.lexer import Token, tokenize
from graders.limits import MAX_CHARS, LimitReachedError
from graders.nodes import Node, UnreadableError, num
from graders.normalize import text_key
from graders.primaries import valid_base
from graders.words import HEDGES, SCALES, UNITS, unit_key, word_number

_RELATIONS = {
    "=": "=", "<": "<", ">": ">", "le": "<=", "ge": ">=", "ne": "!=", "approx": "~", "in": "in",
    "equiv": "=",
}  # fmt: skip
_SET_OPERATORS = {"cup": "union", "cap": "inter", "setminus": "minus"}
_DIGITS = r"(?P<d{0}>[0-9A-Z]+)"
_BASE = re.compile(
    rf"(?:{_DIGITS.format(1)}|\(\s*{_DIGITS.format(2)}\s*\)"
    rf"|\\(?:text|mathrm)\s*\{{\s*\(?{_DIGITS.format(3)}\)?\s*\}})\s*"
    r"(?:_\s*(?:(?P<b1>[a-z0-9]+)|\{\s*(?P<b2>[a-z0-9]+)\s*\}"
    r"|\{\s*\\(?:text|mathrm)\s*\{\s*(?P<b3>[a-z0-9]+)\s*\}\s*\})"
    r"|(?:\s|\\text\s*\{\s*)\(?base[\s-](?P<b4>[a-z0-9]+)\)?\}?)"
)
_CURRENCIES = ((("dollar", 1),), (("euro", 1),), (("pound", 1),))
_SPEED = re.compile(r"(?<=[\d})])\s((?:k|c|m)?m|ft|mi|km)/((?:s|h|hr|min|sec)(?:\^?\{?2\}?)?)$")
_AM_PM = re.compile(r"(?:\\?[ ~])*(?<![A-Za-z\\])([aApP])\.?\s?[mM](?![A-Za-z])\.?")


def read_answer(text: str) -> Node:
    r"""Reads a tidied answer.

    Raises:
        UnreadableError: It is no mathematics that the reader knows.
        LimitReachedError: It is longer, deeper or larger than the bounds of ``graders.limits``.

    >>> read_answer("(1, 2)").value, read_answer("x \\ge 3").value
    ('()', ('>=',))
    """
    if len(text) > MAX_CHARS:
        raise LimitReachedError(f"an answer of more than {MAX_CHARS} characters")
    base = _BASE.fullmatch(text.strip()) if "_" in text or "base" in text else None
    if base:
        digits = base["d1"] or base["d2"] or base["d3"]
        node = _base_numeral(digits, base["b1"] or base["b2"] or base["b3"] or base["b4"])
        if node:
            return node
    if text[:1].isalpha() and len(text) < 100:
        value = word_number(text)
        if value is not None:
            return num(value)
    if "/" in text[-8:]:
        text = _SPEED.sub(r" \\text{ \1/\2}", text)
    if "m" in text[-5:].lower():
        text = _AM_PM.sub(lambda m: r"\text{ " + m[1].lower() + "m}", text)
    tokens = tokenize(text)
    reader = AnswerReader(strip_pairs(tokens))
    node = words_only(reader.tokens)
    if node is not None:
        return node
    node = reader.answer()
    if reader.peek().kind != "end":
        raise UnreadableError(f"{reader.peek().text!r} is left over")
    return node


def _base_numeral(digits: str, base: str) -> Node | None:
    value = word_number(base) if base.isalpha() else None
    if not base.isdecimal() and value is None:
        return None
    size = int(base[:4]) if base.isdecimal() else int(value or 0)
    if not valid_base(digits, str(size)):
        return None
    if len(digits) == 1 and not digits.isdecimal():
        return None
    return Node("base", (), (digits.lstrip("0") or "0", str(size)))


def strip_pairs(tokens: list[Token]) -> list[Token]:
    """Drops braces and parentheses around all of the tokens, in linear time."""
    if not tokens or tokens[0].text not in ("{", "("):
        return tokens
    partner: dict[int, int] = {}
    stack: list[int] = []
    commas: set[int] = set()
    for index, token in enumerate(tokens):
        if token.text in ("{", "(", "[") and token.kind == "op":
            stack.append(index)
        elif token.text in ("}", ")", "]") and token.kind == "op" and stack:
            partner[stack.pop()] = index
        elif token.text in (",", ";") and stack:
            commas.add(stack[-1])
    start, end = 0, len(tokens) - 1
    while (
        start < end
        and tokens[start].text + tokens[end].text in ("{}", "()")
        and partner.get(start) == end
        and (tokens[start].text == "{" or start not in commas)
    ):
        start, end = start + 1, end - 1
    return tokens[start : end + 1]


def words_only(tokens: list[Token]) -> Node | None:
    """A text node where the answer is made of words, with letters or commas between them."""
    if not any(token.kind in ("text", "word") for token in tokens):
        return None
    for token in tokens:
        plain = token.kind in ("text", "word", "let") or (
            token.kind == "op" and token.text in ",;.-()'&!"
        )
        if not plain and token.kind != "cmd":
            return None
        if token.kind == "cmd" and token.text not in ("and", "or"):
            return None
    content = [t for t in tokens if t.text not in ("and", "or") and t.kind != "op"]
    if content and all(t.kind == "let" for t in content):
        return None  # letters joined by words: a list of variables
    if content and content[0].kind == "let" and all(t.kind != "word" for t in content):
        if len(content) > 1 and tokens[1].kind != "op":
            return None  # x\text{ cm}
    words = "".join("," if t.text in ("and", "or") else " " + t.text for t in tokens)
    value = word_number(words.strip())
    if value is None and len(words.split()) > 1 and words.split()[-1].lower() in UNITS:
        amount = word_number(" ".join(words.split()[:-1]))
        if amount is not None:
            return Node("qty", (num(amount),), tuple(words.split()[-1:]))
    return num(value) if value is not None else Node("text", (), words)


class AnswerReader(ExpressionReader):
    """Reads structures; what stands inside brackets may be a structure again."""

    def answer(self) -> Node:
        """Members joined by commas, semicolons, "and", "or": a list, if more than one."""
        members = [self.statement()]
        joints: list[str] = []
        while True:
            joint = ""
            while (
                self.at("op", ",", ";")
                or self.at("word", "and", "or")
                or self.at("cmd", "and", "or")
            ):
                joint = self.take().text if joint in ("", ",", ";") else joint + self.take().text
            if not joint or self.peek().kind == "end":
                break
            joints.append(joint)
            members.append(self.statement())
        return members[0] if len(members) == 1 else Node("list", tuple(members), tuple(joints))

    def statement(self) -> Node:
        """A chain of relations between set expressions, or one such expression."""
        if self.at("cmd", "approx"):
            self.take()
            return Node("rel", (self.operand(),), ("~",))
        members = [self.operand()]
        operators: list[str] = []
        while True:
            token = self.peek()
            if token.kind not in ("op", "cmd") or token.text not in _RELATIONS:
                break
            self.take()
            operator = _RELATIONS[token.text]
            if operator in ("<", ">") and self.at("op", "="):
                self.take()
                operator += "="
            operators.append(operator)
            members.append(self.operand())
        return Node("rel", tuple(members), tuple(operators)) if operators else members[0]

    def operand(self) -> Node:
        """A union, a ratio or a quantity."""
        node = self.quantity()
        if (
            node.kind == "add"
            and node.args[0].kind == "reals"
            and [part.kind for part in node.args[1:]] == ["neg"]
            and node.args[1].args[0].kind in ("tuple", "set")
        ):  # \mathbb{R} - \{2\}
            node = Node("minus", (node.args[0], node.args[1].args[0]))
        if self.at("op", ":") or self.at("word", "to") or self.at("text", "to"):
            return self.ratio(node)
        while True:
            token = self.peek()
            if token.kind == "cmd" and token.text in _SET_OPERATORS:
                self.take()
                node = Node(_SET_OPERATORS[token.text], (node, self.quantity()))
            elif token == Token("let", "U", token.space) and node.kind in ("tuple", "set", "union"):
                self.take()
                node = Node("union", (node, self.quantity()))
            else:
                return node

    def ratio(self, first: Node) -> Node:
        """``3:5`` and ``4:30 p.m.``; the fields keep their spelling."""
        fields = [self.tokens[self.position - 1].text]
        members = [first]
        while self.at("op", ":") or self.at("word", "to") or self.at("text", "to"):
            self.take()
            fields.append(self.peek().text)
            members.append(self.sum())
        half = ""
        if self.peek().kind in ("word", "text"):
            half = self.take().text.replace(".", "").strip().lower()
        return Node("ratio", tuple(members), (tuple(fields), half))

    def quantity(self) -> Node:
        """An expression and the unit words that follow it."""
        self.money = False
        token = self.peek()
        if token.kind in ("text", "word"):
            if self.peek(1).kind != "num" or unit_key([token.text]) not in _CURRENCIES:
                return self.words()
            self.take()
            return _measured(self.sum(), [token.text])
        node = self.labelled() or self.sum()
        words: list[str] = ["dollar"] if self.money else []
        self.money = False
        while True:
            kind, text, _ = self.peek()
            if kind in ("text", "word") and text not in ("and", "or", "to"):
                words += self.take().text.split()
            elif words and self.at("op", "^"):
                self.take()
                words.append("^" + self.group_text())
            elif words and self.at("op", "/") and self.peek(1).kind in ("text", "word", "let"):
                self.take()
                words += ["per", self.take().text]
            elif words and kind == "cmd" and text == "times":
                self.take()
            elif not words and (self.at("cmd", "dollar") or self.at("op", "$")):
                self.take()
                words.append("dollar")
            elif node.kind == "deg" and kind == "let" and text in "CF" and len(words) == 0:
                words.append(self.take().text)
            else:
                break
        return _measured(node, words)

    def labelled(self) -> Node | None:
        """``P(x) =`` and the like: any letter applied to arguments, as a left side."""
        if self.peek().kind != "let" or self.peek(1).text != "(":
            return None
        ahead = 2
        while ahead < 8 and self.peek(ahead).text not in (")", ""):
            ahead += 1
        if self.peek(ahead).text != ")" or self.peek(ahead + 1).text != "=":
            return None
        name = self.take().text
        argument = self.primary()
        return Node("app", argument.args if argument.kind == "tuple" else (argument,), name)

    def words(self) -> Node:
        """A member of a list that is made of words."""
        pieces: list[str] = []
        while self.peek().kind in ("text", "word", "let") and self.peek().text not in ("and", "or"):
            pieces.append(self.take().text)
        if not pieces:
            raise UnreadableError("a joint without members")
        return Node("text", (), " ".join(pieces))


def _measured(node: Node, words: list[str]) -> Node:
    """Attaches unit words: scales multiply, percent and degrees have nodes of their own."""
    while words and words[0].lower() in SCALES:
        node = Node("mul", (node, num(SCALES[words[0].lower()])))
        words = words[1:]
    if not words:
        return node
    if not HEDGES.isdisjoint(word.lower() for word in words):
        raise UnreadableError("words that are no unit")
    if node.kind in ("pct", "deg") and words[0] not in ("C", "F"):
        raise UnreadableError("two units on one value")
    key = text_key("".join(words))
    if key in ("percent", "pct", "percentage"):
        return Node("pct", (node,))
    if key in ("degrees", "degree", "deg"):
        return Node("deg", (node,))
    if key in ("radians", "radian", "rad"):
        return node
    return Node("qty", (node,), tuple(words))
