"""A place in a list of tokens, and what the readers built on it share."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from graders.lexer import Token
from graders.limits import MAX_DEPTH, LimitReachedError
from graders.nodes import Node, UnreadableError, num

END = Token("end", "")


class Cursor:
    """Walks over tokens; the grammar is in the subclasses.

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
        """What a pair of brackets may hold."""
        raise NotImplementedError

    def sum(self) -> Node:
        """A sum of terms."""
        raise NotImplementedError

    def term(self) -> Node:
        """A product."""
        raise NotImplementedError

    def factor(self) -> Node:
        """A primary with its powers and marks."""
        raise NotImplementedError

    def exponent(self) -> Node:
        """What may follow a power sign."""
        raise NotImplementedError

    def starts_factor(self) -> bool:
        """Tells whether the next token can begin a factor."""
        raise NotImplementedError

    def signed_factor(self) -> Node:
        """A factor that may carry its own sign."""
        raise NotImplementedError


def number(text: str) -> Node:
    """The exact value of a numeral; its length is bounded by the lexer."""
    return num(Fraction(text.rstrip(".") if text != "." else "0"))
