r"""The VinePPO paper's cut of MATH solutions, in our own way: it looks ahead, so it is not causal.

The behaviour follows the paper's published code (arXiv 2410.01679): sentences, then formulas that
end one, then lines of formulas, then long parts near their middle. Every stage is linear in the
length of the text, up to the logarithm of a bisection.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from lang_env.decoding import token_borders
from lang_env.tokenizers import Tokenizer

_SHORT, _TINY, _LONG = 20, 3, 100  # characters
_FORMULA = 60  # characters that a formula counts for, where prose is measured
_MARKS = re.compile(
    r"\[/?asy\]|\\\\|\\\$|\\[()\[\]]|\$|\\begin\{([a-zA-Z]+\*?)\}|\\end\{([a-zA-Z]+\*?)\}"
)
_CLOSE = {"[asy]": "[/asy]", "\\(": "\\)", "\\[": "\\]"}
_SENTENCE = re.compile(r"\.(?=\s+[A-Z])|\n")
_NO_END = re.compile(r"(?:\b[A-Z]|\b(?:Mr|Mrs|Ms|Dr|St|vs|Fig|Eq|e\.g|i\.e|cf))\Z")
_FILLED = re.compile(r"\S")
_OPENER = re.compile(r"\s*(?:\$\$?|\\\[|\\\(|\\begin\{[^{}\n]*\}|\[asy\])\s*")
_WORDS = re.compile(r",(?=\s)|:(?=\s)|(?= and )|(?= to )")
_SIGNS = re.compile(r",\$|,\\[)\]]|(?==|\\equiv(?![a-zA-Z])|\+|\\cancelto)")
_AT_LEAST = ((_WORDS, 40), (_SIGNS, 20))  # characters on each side of a cut


def cut_latex_sentences(tokens: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    r"""Cuts as VinePPO did on MATH. Not causal.

    A step ends after a full stop that a capital follows, after a formula that ends in one, and
    before a newline, also inside formulas; parts below 20 characters go to the next. A part over
    100 characters is cut again at the mark nearest its middle: a comma, a colon, "and" or "to",
    else a relation or sum. Whether a token is a border depends on what follows, which biases
    step-wise advantages; it is here to reproduce the paper.

    >>> from lang_env.segmenters import split_at
    >>> from lang_env.tokenizers import load_tokenizer
    >>> tokenizer = load_tokenizer("builtin")
    >>> tokens = tokenizer.encode("We are given that $x = 1.5$. Hence it is\n$2x = 3.$")
    >>> borders = cut_latex_sentences(tokens, tokenizer)
    >>> [tokenizer.decode(piece) for piece in split_at(tokens, borders)]
    ['We are given that $x = 1.5$.', ' Hence it is\n$2x = 3.$']
    """
    cuts = latex_cuts(tokenizer.decode(list(tokens)))
    borders = {0, *token_borders(cuts, tokens, tokenizer)}
    return sorted(border for border in borders if border < len(tokens))


def latex_cuts(text: str) -> list[int]:
    r"""Returns the places of the paper's cuts in a text, without 0 and its length.

    >>> latex_cuts("It has four equal sides. So it is a square.")
    [24]
    """
    formulas = list(_formulas(text))
    starts = [begin for begin, _ in formulas]

    def inside(place: int) -> bool:
        index = bisect_left(starts, place) - 1
        return index >= 0 and place < formulas[index][1]

    cuts = _merged(text, _sentence_ends(text, inside), formulas)
    cuts = _merged(text, sorted({*cuts, *_formula_ends(text, formulas)}), formulas)
    lines = [match.start() for match in re.finditer("\n", text) if inside(match.start())]
    cuts = _without_tiny(text, sorted({*cuts, *lines}))
    return _halved(text, cuts, inside)


def _formulas(text: str) -> Iterator[tuple[int, int]]:
    """Yields begin and end of each formula, drawing or environment; none lies in another."""
    marks = [m for m in _MARKS.finditer(text) if m[0] not in ("\\\\", "\\$")]
    places: dict[str, list[int]] = {}
    for index, mark in enumerate(marks):
        double = mark[0] == "$" and text.startswith("$$", mark.start())
        for name in (mark[0], "$$") if double else (mark[0],):
            places.setdefault(name, []).append(index)
    index = 0
    while index < len(marks):
        opener, begin = marks[index][0], marks[index].start()
        width = 1
        if opener == "$" and text.startswith("$$", begin):
            opener, width = "$$", 2
        closer = _CLOSE.get(opener, opener if opener[0] == "$" else "")
        if opener.startswith("\\begin"):
            closer = "\\end" + opener.removeprefix("\\begin")
        found = places.get(closer, []) if closer else []
        at = bisect_left(found, index + width)
        if at == len(found):
            index += 1
            continue
        last = found[at]
        end = marks[last].end() + (closer == "$$")
        yield begin, end
        index = last + (2 if closer == "$$" else 1)


def _sentence_ends(text: str, inside: Callable[[int], bool]) -> list[int]:
    cuts = []
    for match in _SENTENCE.finditer(text):
        if inside(match.start()):
            continue
        if match[0] == "\n":
            cuts.append(match.start())
        elif not _NO_END.search(text, max(0, match.start() - 8), match.start()):
            cuts.append(match.end())
    return cuts


def _formula_ends(text: str, formulas: Iterable[tuple[int, int]]) -> Iterator[int]:
    for begin, end in formulas:
        closer = next((c for c in ("$$", "\\)", "\\]", "$") if text.endswith(c, begin, end)), "")
        if closer and text.endswith("." + closer, begin, end):
            yield end


def _merged(text: str, cuts: Sequence[int], formulas: Sequence[tuple[int, int]]) -> list[int]:
    """Drops the cuts that leave a part of less than 20 characters that is no sentence."""
    sizes = [0]  # characters that formulas up to each count for more than they have
    for begin, end in formulas:
        sizes.append(sizes[-1] + _FORMULA - (end - begin))
    ends = [end for _, end in formulas]

    def measured(place: int) -> int:
        return place + sizes[bisect_right(ends, place)]

    kept, start, filled = [], 0, _filled(text, 0)
    for cut in cuts:
        sentence = cut > start and text[cut - 1] == "."
        if cut <= filled or (measured(cut) - measured(start) < _SHORT and not sentence):
            continue
        kept.append(cut)
        start, filled = cut, _filled(text, cut)
    while kept and kept[-1] >= min(len(text) - _TINY + 1, len(text.rstrip())):
        kept.pop()
    return kept


def _without_tiny(text: str, cuts: Sequence[int]) -> list[int]:
    """Drops the cuts after a bare opener and after less than 3 characters."""
    kept, least = [], _least_end(text, 0)
    for cut in cuts:
        if cut > least:
            kept.append(cut)
            least = _least_end(text, cut)
    return kept


def _filled(text: str, start: int) -> int:
    """Returns the place of the first character from ``start`` on that is not blank."""
    match = _FILLED.search(text, start)
    return match.start() if match else len(text)


def _least_end(text: str, start: int) -> int:
    """Returns the place up to which a part is tiny or a bare opener."""
    opener = _OPENER.match(text, start)
    return max(_filled(text, _filled(text, start) + _TINY - 1), opener.end() if opener else 0)


def _halved(text: str, cuts: Sequence[int], inside: Callable[[int], bool]) -> list[int]:
    """Cuts the parts of more than 100 characters near their middle, again and again."""
    places = [sorted({m.end() for m in rule.finditer(text)} - {0}) for rule, _ in _AT_LEAST]
    places[0] = [place for place in places[0] if not inside(place)]
    found = list(cuts)
    parts = list(zip([0, *cuts], [*cuts, len(text)], strict=True))
    while parts:
        begin, end = parts.pop()
        if end - begin <= _LONG:
            continue
        for candidates, (_, least) in zip(places, _AT_LEAST, strict=True):
            cut = _nearest(candidates, begin + least, end - least, (begin + end) / 2)
            if cut is not None:
                found.append(cut)
                parts += [(begin, cut), (cut, end)]
                break
    return sorted(found)


def _nearest(places: Sequence[int], low: int, high: int, middle: float) -> int | None:
    """Returns the place in [low, high] that is nearest ``middle``.

    >>> _nearest([10, 40, 55], 20, 60, 50.0), _nearest([10, 40], 50, 60, 55.0)
    (55, None)
    """
    index = bisect_left(places, middle)
    near = [place for place in places[max(0, index - 1) : index + 1] if low <= place <= high]
    return min(near, key=lambda place: abs(place - middle), default=None)
