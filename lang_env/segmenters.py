r"""Where a reasoning step ends.

A segmenter maps a response to borders: indices into its tokens, 0 first and ``len(response)`` left
out, so that joining the pieces gives the response back. A border that would fall inside a token
moves to that token's end.

A segmenter is causal if whether ``t`` is a border depends on the tokens before ``t`` alone. Only
then are step-wise advantages an unbiased policy gradient: the value of a border must not know what
comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graders.resolve import resolve
from lang_env.decoding import token_borders, token_texts
from lang_env.latex_sentences import cut_latex_sentences
from lang_env.sentences import cut_sentences
from lang_env.tokenizers import Tokenizer

_FIXED = "fixed_tokens"
_ANSWER = "\n#### "


@dataclass(frozen=True, slots=True)
class Segmenter:
    """A rule that cuts responses into steps.

    Attributes:
        name: What ``segmenter=`` calls it.
        causal: Whether a border depends on the tokens before it alone.
        cut: The rule: ``(tokens, tokenizer) -> borders``.
    """

    name: str
    causal: bool
    cut: Callable[[Sequence[int], Tokenizer], list[int]]

    def __call__(self, tokens: Sequence[int], tokenizer: Tokenizer) -> list[int]:
        """Returns the borders of a response; none for an empty one."""
        return self.cut(tokens, tokenizer) if len(tokens) else []


def split_at(tokens: Sequence[int], borders: Sequence[int]) -> list[list[int]]:
    """Returns the pieces of a response; joined they are the response.

    >>> split_at([5, 6, 7, 8], [0, 1, 3])
    [[5], [6, 7], [8]]
    """
    ends = [*borders[1:], len(tokens)]
    return [list(tokens[begin:end]) for begin, end in zip(borders, ends, strict=bool(borders))]


def cut_newline(tokens: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    r"""Cuts right after a newline, once the step holds something that is not blank.

    Blank lines belong to the step that follows them, and the answer line is a step of its own.

    >>> from lang_env.tokenizers import load_tokenizer
    >>> tokenizer = load_tokenizer("builtin")
    >>> tokens = tokenizer.encode("\n1+2=3\n\n3+4=7\n#### 7")
    >>> [tokenizer.decode(piece) for piece in split_at(tokens, cut_newline(tokens, tokenizer))]
    ['\n1+2=3\n', '\n3+4=7\n', '#### 7']
    """
    texts = token_texts(tokenizer)  # type: ignore[arg-type]  # tokenizers are hashable
    borders, blank = [0], True
    for place, token in enumerate(tokens, start=1):
        head, newline, tail = texts[token].rpartition("\n")
        if newline and not (blank and not head.strip()):
            borders.append(place)
            blank = True
        else:
            blank = blank and not tail.strip()
    return borders if borders[-1] < len(tokens) else borders[:-1]


def cut_newline_paper(tokens: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    r"""Cuts as VinePPO did on GSM8K: a step ends just before a newline. Not causal.

    The text before the first ``\n#### `` is cut at every newline, which begins the next step; blank
    lines at the start belong to the first step, and blank lines at the end and the answer line
    to the last one. Whether a token is a border depends on what follows, which biases step-wise
    advantages; it is here to reproduce the paper (arXiv 2410.01679). The original drops a response
    with two answer lines; here everything after the first belongs to the last step.

    >>> from lang_env.tokenizers import load_tokenizer
    >>> tokenizer = load_tokenizer("builtin")
    >>> tokens = tokenizer.encode("\n1+2=3\n3+4=7\n#### 7")
    >>> borders = cut_newline_paper(tokens, tokenizer)
    >>> [tokenizer.decode(piece) for piece in split_at(tokens, borders)]
    ['\n1+2=3', '\n3+4=7\n#### 7']
    """
    text = tokenizer.decode(list(tokens))
    lines = text.split(_ANSWER)[0].split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled:
        return [0]
    cuts, place = [], 0
    for number, line in enumerate(lines):
        if filled[0] < number <= filled[-1]:
            cuts.append(place - 1)  # the newline itself begins the step
        place += len(line) + 1
    borders = {0, *token_borders(cuts, tokens, tokenizer)}
    return sorted(border for border in borders if border < len(tokens))


def fixed_tokens(size: int) -> Segmenter:
    """Returns the causal segmenter ``fixed_tokens:SIZE``: a border every ``size`` tokens.

    Raises:
        ValueError: ``size`` is below 1.

    >>> from lang_env.tokenizers import load_tokenizer
    >>> fixed_tokens(2)([5, 6, 7, 8, 9], load_tokenizer("builtin"))
    [0, 2, 4]
    """
    if size < 1:
        raise ValueError(f"fixed_tokens needs a size >= 1, got {size} (for example 16)")
    return Segmenter(f"{_FIXED}:{size}", True, lambda tokens, _: [*range(0, len(tokens), size)])


NEWLINE = Segmenter("newline", True, cut_newline)
NEWLINE_PAPER = Segmenter("newline_paper", False, cut_newline_paper)
SENTENCES = Segmenter("sentences", True, cut_sentences)
LATEX_SENTENCES = Segmenter("latex_sentences", False, cut_latex_sentences)
EVERY_TOKEN = Segmenter("every_token", True, lambda tokens, _: [*range(len(tokens))])

SEGMENTERS = {
    "every_token": "lang_env.segmenters:EVERY_TOKEN",
    "latex_sentences": "lang_env.segmenters:LATEX_SENTENCES",
    "newline": "lang_env.segmenters:NEWLINE",
    "newline_paper": "lang_env.segmenters:NEWLINE_PAPER",
    "sentences": "lang_env.segmenters:SENTENCES",
}
"""Short names of the segmenters; ``fixed_tokens:16`` (any size) is one more."""


def get_segmenter(name: str | Segmenter) -> Segmenter:
    """Returns the segmenter that ``name`` stands for.

    Args:
        name: A key of ``SEGMENTERS``, ``"fixed_tokens:16"`` for steps of 16 tokens,
            ``"pkg.mod:attr"`` for a Segmenter of your own, or a Segmenter.

    Raises:
        ValueError: Unknown name, or the object is no Segmenter.

    >>> get_segmenter("newline").causal, get_segmenter("fixed_tokens:16").name
    (True, 'fixed_tokens:16')
    """
    if isinstance(name, str) and name.partition(":")[0] == _FIXED:
        size = name.partition(":")[2]
        if not (size.isascii() and size.isdigit()):
            raise ValueError(f"write fixed_tokens with its size, as in 'fixed_tokens:16': {name!r}")
        return fixed_tokens(int(size))
    known = {**SEGMENTERS, f"{_FIXED}:16": "lang_env.segmenters:fixed_tokens"}
    found = resolve(name, known, "segmenter") if isinstance(name, str) else name
    if not isinstance(found, Segmenter):
        raise ValueError(
            f"segmenter {name!r:.60} is a {type(found).__name__}; wrap it as "
            "lang_env.segmenters.Segmenter(name, causal, function)"
        )
    return found
