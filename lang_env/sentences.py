r"""The causal way to cut mathematical prose into sentences, formulas and all.

One pass over the tokens: whether there is a border after a token depends on it and those before.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from lang_env.decoding import token_texts
from lang_env.tokenizers import Tokenizer

MIN_STEP = 20
"""Characters that a step has at least, unless the response ends: shorter parts go on."""

LONG_STEP = 60
"""Characters after which a step also ends at a comma, a colon or an equals sign."""

_CLOSERS = {"$": "$", "$$": "$$", "\\(": "\\)", "\\[": "\\]"}
_PROSE = {"center", "document", "enumerate", "flushleft", "itemize", "quote", "solution"}
_ABBREVIATIONS = {"approx", "cf", "Dr", "eq", "Eq", "fig", "Fig", "Mr", "Mrs", "Ms", "no", "vs"}
_MEMORY = 24  # characters of the past that a rule looks at
_PLAIN = str.maketrans("", "", ".!?,;:=$\\[](){}\n")


def cut_sentences(tokens: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    r"""Cuts after the end of a sentence and after a newline, once a step has 20 characters.

    A sentence ends with a full stop, "!" or "?" outside of formulas, or with a formula that ends in
    a full stop. After a digit, a full stop counts only if white space follows, and the border moves
    behind that token. Single letters and common abbreviations end no sentence. A step of 60
    characters also ends at the next comma, semicolon or colon outside of formulas, or equals sign
    inside of one. Drawings (``[asy]``) are not cut.

    >>> from lang_env.segmenters import split_at
    >>> from lang_env.tokenizers import load_tokenizer
    >>> tokenizer = load_tokenizer("builtin")
    >>> tokens = tokenizer.encode("We are given that $x = 1.5$. Hence it is\n$2x = 3.$\nDone.")
    >>> [tokenizer.decode(piece) for piece in split_at(tokens, cut_sentences(tokens, tokenizer))]
    ['We are given that $x = 1.5$.', ' Hence it is\n$2x = 3.$', '\nDone.']
    """
    texts = token_texts(tokenizer)  # type: ignore[arg-type]  # tokenizers are hashable
    reader, borders = _Reader(), [0]
    for place, token in enumerate(tokens, start=1):
        if reader.ends_step(texts[token]) and place < len(tokens):
            borders.append(place)
    return borders


class _Reader:
    """Reads a response token by token.

    Attributes:
        mode: "" in prose, else what opened the formula or drawing.
        depth: Environments that are open, where one opened the formula.
        past: The last characters.
        length: Characters of the current step since its first that is not blank.
        awaited: A full stop after a digit still needs white space.
    """

    def __init__(self) -> None:
        self.mode, self.depth, self.past, self.length, self.awaited = "", 0, "", 0, False

    def ends_step(self, text: str) -> bool:
        """Reads a token; returns whether a step ends with it."""
        if not self.awaited and len(text.translate(_PLAIN)) == len(text):
            self._count(text)
            self.past = (self.past + text)[-_MEMORY:]
            return False
        ends = stopped = False
        for char in text:
            if stopped and not (char.isspace() or char in ")]}\"'$"):
                stopped = False  # "a.b" in one token
            ends = ends or (stopped and char.isspace())
            self._count(char)
            if self.awaited:
                ends = ends or (char.isspace() and self._long_enough())
                self.awaited = False
            found = self._read(char)
            ends = ends or found == "ends"
            stopped = stopped or found == "stop"
            self.past = (self.past + char)[-_MEMORY:]
        if ends or stopped:
            self.length, self.awaited = 0, False
            return True
        return False

    def _count(self, text: str) -> None:
        if self.length or not text.isspace():
            self.length += len(text)

    def _long_enough(self) -> bool:
        return self.length >= MIN_STEP

    def _read(self, char: str) -> str:
        """Returns "ends" if a step ends here, "stop" if it does unless a letter follows."""
        past = self.past
        if self.mode == "[asy]":
            if char == "]" and past.endswith("[/asy"):
                self.mode = ""
            return ""
        if char == "\n":
            if past.endswith("\n") and self.mode in ("$", "\\("):
                self.mode = ""  # no formula in a line goes on after an empty line
            return "ends" if self._long_enough() else ""
        if char == "]" and past.endswith("[asy"):
            self.mode = "[asy]"
            return ""
        if self._opened_or_closed(char):
            if self.mode or not self._long_enough():
                return ""
            inside = past.removesuffix("\\").removesuffix("$").rstrip()
            return "ends" if inside.endswith(".") else ""
        return self._mark(char)

    def _opened_or_closed(self, char: str) -> bool:
        """Follows the borders of formulas; returns whether ``char`` completes one of them."""
        past = self.past
        escaped = (len(past) - len(past.rstrip("\\"))) % 2 == 1
        if char == "$" and not escaped:
            return self._dollar()
        if char in "([)]" and escaped:
            opener = "\\" + char
            if not self.mode and opener in _CLOSERS:
                self.mode = opener
                return True
            if _CLOSERS.get(self.mode) == opener:
                self.mode = ""
                return True
        if char == "}":
            command, brace, name = past.rpartition("\\")[2].partition("{")
            if brace and command in ("begin", "end") and name not in _PROSE:
                return self._environment(command, name)
        return False

    def _dollar(self) -> bool:
        if self.mode == "$":
            if self.past.endswith("$") and not self.past.endswith("\\$"):
                self.mode = "$$"  # the second of two that open
            else:
                self.mode = ""
            return True
        if self.mode == "$$":
            if self.past.endswith("$"):
                self.mode = ""
            return True
        if not self.mode:
            self.mode = "$"
            return True
        return False

    def _environment(self, command: str, name: str) -> bool:
        if command == "begin" and self.mode in ("", "begin"):
            self.mode, self.depth = "begin", self.depth + 1
            return True
        if command == "end" and self.mode == "begin":
            self.depth -= 1
            self.mode = "begin" if self.depth else ""
            return True
        return False

    def _mark(self, char: str) -> str:
        past = self.past
        if self.mode:
            return "ends" if char == "=" and self.length >= LONG_STEP else ""
        if char in ".!?" and self._long_enough():
            if past[-1:].isdigit():
                self.awaited = True
                return ""
            word = past.rstrip(")]}\"'")
            letters = word[len(word.rstrip(ascii_letters)) :]
            lone = len(letters) == 1 or letters in _ABBREVIATIONS
            return "stop" if past[-1:] not in ("", " ", "\n", ".") and not lone else ""
        if char in ",;:" and self.length >= LONG_STEP and not past[-1:].isdigit():
            return "stop"
        return ""
