"""Which characters of a decoded text come from which tokens, in linear time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import accumulate, takewhile

from lang_env.tokenizers import Tokenizer

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # bytes that are no character, or not yet one
_LONGEST_RUN = 16  # tokens after which bytes that are no character are taken as they are


class TokenTexts(dict[int, str]):
    """Id -> its text inside a text, made when first asked for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Stores the tokenizer."""
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, token: int) -> str:
        """Decodes ``token`` after itself, since some decoders strip the first space of a text."""
        alone, twice = self._tokenizer.decode([token]), self._tokenizer.decode([token, token])
        text = self[token] = twice[len(alone) :] if twice.startswith(alone) else alone
        return text


@lru_cache(maxsize=16)
def token_texts(tokenizer: Tokenizer) -> TokenTexts:
    """Returns the texts of a tokenizer's ids, one table for each tokenizer."""
    return TokenTexts(tokenizer)


def token_borders(cuts: Sequence[int], tokens: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    r"""Maps places in the decoded text to borders; a place inside a token moves to its end.

    Args:
        cuts: Numbers of characters of the text.
        tokens: The response.
        tokenizer: Decodes it.

    >>> from lang_env.tokenizers import load_tokenizer
    >>> tokenizer = load_tokenizer("builtin")
    >>> token_borders([1, 3, 4], tokenizer.encode("€ the\n"), tokenizer)
    [3, 4, 4]
    """
    text = tokenizer.decode(list(tokens))
    offsets = _offsets(tokens, tokenizer, text)
    if offsets is not None:
        return [bisect_left(offsets, cut) for cut in cuts]

    @cache
    def covered(count: int) -> int:
        return _common(tokenizer.decode(list(tokens[:count])), text)

    return [bisect_left(range(len(tokens)), cut, key=covered) for cut in cuts]


def _common(text: str, other: str) -> int:
    """Returns how many first characters two texts share."""
    pairs = zip(text, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _offsets(tokens: Sequence[int], tokenizer: Tokenizer, text: str) -> list[int] | None:
    """Returns how many characters are certain after 0, 1, ... n tokens.

    None if the texts of the tokens do not add up to ``text``, as with a decoder that looks at
    neighbours.
    """
    if not tokens:
        return [0]
    texts = token_texts(tokenizer)  # type: ignore[arg-type]  # tokenizers are hashable
    pieces = [texts[token] for token in tokens]
    if len(pieces[0]) + sum(map(len, pieces[1:])) != len(text):
        pieces[0] = tokenizer.decode([tokens[0]])
    if _REPLACEMENT not in text and "".join(pieces) == text:
        return list(accumulate(map(len, pieces), initial=0))
    offsets, begin = [0], 0
    parts: list[str] = []
    while begin < len(tokens):
        if _REPLACEMENT not in pieces[begin]:
            parts.append(pieces[begin])
            offsets.append(offsets[-1] + len(pieces[begin]))
            begin += 1
            continue
        end = begin
        while end < len(tokens) and _REPLACEMENT in pieces[end]:
            end += 1
        parts += _add_run(offsets, tokens[begin:end], tokenizer, text)
        begin = end
    return offsets if "".join(parts) == text else None


def _add_run(
    offsets: list[int], run: Sequence[int], tokenizer: Tokenizer, text: str
) -> Iterator[str]:
    """Appends the offsets of tokens that hold parts of characters; yields their texts."""
    base, begin = offsets[-1], 0
    for end in range(1, len(run) + 1):
        piece = tokenizer.decode(list(run[begin:end]))
        if piece[-1:] != _REPLACEMENT or end - begin == _LONGEST_RUN or end == len(run):
            base, begin = base + len(piece), end
            offsets.append(base)
            yield piece
        else:
            offsets.append(base + _common(piece, text[base : base + len(piece)]))
