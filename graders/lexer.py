r"""LaTeX answer to tokens, in one linear pass.

Layout commands vanish here, numerals are joined (``1,234``, ``1{,}234``, ``12\,345``), runs of
letters become function names, unit words, other words or single letters.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from graders.limits import MAX_DIGITS, MAX_TOKENS, LimitReachedError
from graders.nodes import UnreadableError
from graders.words import COMMANDS, FUNCTIONS, IGNORED, NAMES, TEXT_COMMANDS, is_word


class Token(NamedTuple):
    """A token: ``num``, ``cmd``, ``let``, ``word``, ``text`` or ``op``, and its text.

    ``space`` tells whether white space stood before it.
    """

    kind: str
    text: str
    space: bool = False


_SCAN = re.compile(
    r"(?P<space>(?:\s|~|\\[,;:!> ]|\\(?:quad|qquad|thinspace|medspace|enspace)(?![A-Za-z]))+)"
    r"|(?P<num>(?:\d+(?:\.(?!\.))?\d*|\.\d+|\.(?=\\(?:overline|dot|bar))))"
    r"|\\(?P<cmd>[A-Za-z]+\*?)"
    r"|\\(?P<esc>.)"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<op>.)",
    re.DOTALL,
)
_GROUPED = re.compile(
    r"(?<![\d.,])[1-9]\d{0,2}(?:(?:\{,\s*\}|,\\!|\\,|,)\s?\d{3})+(?![\d])(?!(?:,|\{,\}|\\,)\d)"
)
_SAFE_GROUPED = re.compile(r"(?<![\d.])\d{1,3}(?:(?:\{,\s*\}|,\\!)\s?\d{3})+(?!\d)")
_SEPARATORS = re.compile(r"\{,\s*\}|,|\\!|\\,|\s")
_VOWEL = re.compile("[aeiouy]", re.IGNORECASE)
_UNIT_AHEAD = re.compile(r"\s*(?:$|[,;.)\]}=])")


def join_groups(text: str) -> str:
    r"""Removes thousands separators from well-formed groups of three digits.

    A bare comma separates thousands only outside parentheses, brackets and sets, where it would
    separate members.

    >>> join_groups("1,234 and 36,\\!500 but (3,456) and 42,00")
    '1234 and 36500 but (3,456) and 42,00'
    """
    if "," not in text and "\\," not in text:
        return text
    text = _SAFE_GROUPED.sub(lambda m: _SEPARATORS.sub("", m[0]), text)
    pieces: list[str] = []
    last = 0
    depth: list[bool] = []  # one entry an open bracket: does a comma separate members inside?
    position = 0
    for match in _GROUPED.finditer(text):
        for index in range(position, match.start()):
            char = text[index]
            if char in "([":
                depth.append(True)
            elif char == "{":
                depth.append(index > 0 and text[index - 1] == "\\")
            elif char in ")]}" and depth:
                depth.pop()
        position = match.start()
        if not (depth and depth[-1]) and ", " not in match[0]:
            pieces.append(text[last : match.start()] + _SEPARATORS.sub("", match[0]))
            last = match.end()
            position = last
    pieces.append(text[last:])
    return "".join(pieces)


def group_end(text: str, start: int) -> int:
    """Index of the brace that closes the one at ``start``; -1 where there is none."""
    depth = 0
    index = start
    while index < len(text):
        char = text[index]
        if char == "\\":
            index += 1
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return index
        index += 1
    return -1


def tokenize(text: str) -> list[Token]:
    r"""Splits an answer into tokens.

    Raises:
        LimitReachedError: Too many tokens or too long a numeral.
        UnreadableError: A character or command that no answer holds.

    >>> [token.text for token in tokenize("\\dfrac{1{,}250}{3}\\,x")]
    ['frac', '{', '1250', '}', '{', '3', '}', 'x']
    """
    if text.startswith("~"):
        raise UnreadableError("an approximation")
    tokens: list[Token] = []
    _scan(join_groups(text), tokens, 0)
    return tokens


def _scan(text: str, tokens: list[Token], depth: int) -> None:
    position = 0
    space = False
    while position < len(text):
        match = _SCAN.match(text, position)
        if match is None:
            raise UnreadableError(text[position])
        kind = match.lastgroup
        value = match[kind] if kind else ""
        position = match.end()
        if len(tokens) > MAX_TOKENS:
            raise LimitReachedError(f"more than {MAX_TOKENS} tokens")
        if kind == "space":
            space = True
            continue
        if kind == "num":
            if len(value) > MAX_DIGITS:
                raise LimitReachedError(f"a numeral of more than {MAX_DIGITS} digits")
            tokens.append(Token("num", value, space))
        elif kind == "cmd":
            position = _command(value, text, position, tokens, space, depth)
        elif kind == "esc":
            _escape(value, tokens, space)
        elif kind == "word":
            noun = value in ("min", "sec") or (
                space and len(value) > 2 and tokens and tokens[-1].kind == "num"
                and value not in FUNCTIONS and value not in NAMES and _VOWEL.search(value)
            )  # fmt: skip
            if noun and _UNIT_AHEAD.match(text, position):
                tokens.append(Token("word", value, space))
            else:
                _letters(value, tokens, space)
        else:
            tokens.append(Token("op", value, space))
        space = False


def _escape(value: str, tokens: list[Token], space: bool) -> None:
    names = {"{": "lbrace", "}": "rbrace", "$": "dollar", "%": "percent", "\\": "newline"}
    if value in names:
        tokens.append(Token("cmd", names[value], space))
    elif value == "|":
        tokens.append(Token("op", "|", space))
    elif value in "()[]":  # inline or display math brackets
        return
    else:
        raise UnreadableError("\\" + value)


def _command(
    name: str, text: str, position: int, tokens: list[Token], space: bool, depth: int
) -> int:
    """Adds the tokens of a command; returns where to go on."""
    name = name.rstrip("*")
    name = COMMANDS.get(name, name)
    if name in IGNORED:
        return position + (name in ("left", "right") and text.startswith(".", position))
    if not name.isalpha():
        tokens.append(Token("op", name, space))
        return position
    following = re.compile(r"\s*").match(text, position)
    start = following.end() if following else position
    braced = text.startswith("{", start)
    if name in ("phantom", "hspace", "vspace", "label", "tag", "color", "textcolor", "colorbox"):
        end = group_end(text, start) if braced else start
        if end < 0:
            raise UnreadableError("an open group")
        return end + 1
    if name in ("begin", "end") and braced:
        end = group_end(text, start)
        if end < 0:
            raise UnreadableError("an open group")
        tokens.append(Token("cmd", f"{name} {text[start + 1 : end].strip('* ')}", space))
        if tokens[-1].text == "begin array" and text.startswith("{", end + 1):
            end = group_end(text, end + 1)
        if end < 0:
            raise UnreadableError("an open group")
        return end + 1
    if name in TEXT_COMMANDS:
        if not braced:
            return position
        end = group_end(text, start)
        if end < 0:
            raise UnreadableError("an open group")
        _text(name, text[start + 1 : end], tokens, space, depth)
        return end + 1
    tokens.append(Token("cmd", name, space))
    return position


def _text(name: str, content: str, tokens: list[Token], space: bool, depth: int) -> None:
    stripped = content.strip()
    if not stripped:
        return
    plain = stripped.strip("().,;: ")
    if name in ("mathrm", "mathit", "operatorname", "rm", "mathbf", "boldsymbol", "mathsf"):
        if plain in FUNCTIONS or plain in NAMES:
            _letters(plain, tokens, space)
            return
        if len(plain) == 1 and plain == stripped and plain.isalpha():
            tokens.append(Token("let", plain, space))
            return
    if (
        re.search(r"[\d\\$%^]", stripped)
        or plain in ("lcm", "gcd")
        or (name == "mathbf" and not plain.isalpha())
    ):
        if depth > 20:
            raise LimitReachedError("too many nested text commands")
        _scan(content, tokens, depth + 1)
        return
    pieces = re.split(r"\s*(,|;|\band\b|\bor\b)\s*", stripped)
    for piece in pieces:
        if piece in (",", ";"):
            tokens.append(Token("op", piece, True))
        elif piece in ("and", "or"):
            tokens.append(Token("word", piece, True))
        elif piece:
            tokens.append(Token("text", piece, True))


def _letters(value: str, tokens: list[Token], space: bool) -> None:
    if len(value) == 1:
        tokens.append(Token("let", value, space))
    elif value in FUNCTIONS:
        tokens.append(Token("cmd", "surd" if value == "sqrt" else value, space))
    elif value in NAMES:
        tokens.append(Token("cmd", NAMES[value], space))
    elif is_word(value):
        tokens.append(Token("word", value, space))
    else:
        for index, letter in enumerate(value):
            tokens.append(Token("let", letter, space and index == 0))
