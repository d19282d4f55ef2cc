"""When a response ends: stop tokens and stop strings, decided the same way for envs and engines."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

from lang_env.tokenizers import Tokenizer

STOP_TOKEN, STOP_STRING = "stop_token", "stop_string"
_REPLACEMENT = "\ufffd"  # what a decoder writes for bytes that are no character (yet)
_ANCHOR = "a"  # decoded before a token, as some decoders strip the first token's space


class StopChecker:
    """The stop rules of one environment.

    A response ends at the first stop token, or at the first token after which its decoded text
    contains a stop string. The text is decoded as a whole, so that a string spread over tokens,
    and a character spread over byte tokens, is found.

    Attributes:
        stop_token_ids: Ids that end a response.
        stop: Strings that end a response.
    """

    def __init__(
        self, tokenizer: Tokenizer, stop_token_ids: Sequence[int], stop: Sequence[str] = ()
    ) -> None:
        """Stores the rules.

        Args:
            tokenizer: Decodes responses.
            stop_token_ids: Ids of the tokenizer, each >= 0.
            stop: Non-empty strings.

        Raises:
            ValueError: An id outside the vocabulary, or a string that cannot be matched.
        """
        for token in stop_token_ids:
            if not 0 <= token < len(tokenizer):
                raise ValueError(
                    f"stop token id {token} is outside the vocabulary of {len(tokenizer)} ids of "
                    f"tokenizer {tokenizer.name!r}; pass stop_token_ids of that tokenizer"
                )
        for string in stop:
            if not string or _REPLACEMENT in string:
                raise ValueError(
                    f"a stop string must be non-empty text without U+FFFD, got {string!r}"
                )
        self._tokenizer = tokenizer
        self.stop_token_ids = tuple(dict.fromkeys(int(token) for token in stop_token_ids))
        self.stop = tuple(dict.fromkeys(stop))
        self._ids = frozenset(self.stop_token_ids)
        last_characters = frozenset(string[-1] for string in self.stop)
        self._string_ids = _ids_holding(tokenizer, last_characters)  # type: ignore[arg-type]
        self._candidates = self._ids | self._string_ids

    @property
    def stop_candidates(self) -> frozenset[int]:
        """The ids after which ``finish`` must be asked; no other id can end a response."""
        return self._candidates

    def may_stop(self, token: int) -> bool:
        """Returns whether a response could end at ``token``: a cheap test before ``finish``."""
        return token in self._candidates

    def finish(self, response: Sequence[int]) -> str | None:
        r"""Returns why ``response`` ends at its last token, or None if it does not.

        Args:
            response: Token ids since the prompt, none of which before the last ended it.

        Returns:
            "stop_token", "stop_string" or None. A stop token that also completes a stop string
            counts as a stop token.

        >>> from lang_env.tokenizers import load_tokenizer
        >>> tokenizer = load_tokenizer("builtin")
        >>> checker = StopChecker(tokenizer, [tokenizer.eos_token_id], ["\n\n"])
        >>> checker.finish(tokenizer.encode("a\n\n")), checker.finish(tokenizer.encode("a\n"))
        ('stop_string', None)
        """
        if not response:
            return None
        last = response[-1]
        if last in self._ids:
            return STOP_TOKEN
        if last in self._string_ids and self._contains_stop(response):
            return STOP_STRING
        return None

    def first_end(self, prefix: Sequence[int], tokens: Sequence[int]) -> tuple[int, str] | None:
        """Returns where the response ``prefix + tokens`` first ends within ``tokens``.

        It is the same as asking ``finish`` after each token, with few decodings: a text that holds
        a stop string goes on holding it, so that its place can be bisected. Only bytes that are no
        character can take it back (a byte-fallback decoder replaces the whole run of bytes); then
        each candidate is asked.

        Args:
            prefix: The response so far; it has not ended.
            tokens: What is appended.

        Returns:
            (how many of ``tokens`` are played, the last included, reason), or None.
        """
        if self._candidates.isdisjoint(tokens):
            return None
        place = next((i for i, token in enumerate(tokens) if token in self._ids), None)
        before = tokens if place is None else tokens[:place]
        asked = [i for i, token in enumerate(before) if token in self._string_ids]
        if asked:
            whole = [*prefix, *before]

            def ended(i: int) -> bool:
                return self._contains_stop(whole[: len(prefix) + i + 1])

            text = self._tokenizer.decode(whole)
            if _REPLACEMENT in text:
                end = next((i for i in asked if ended(i)), None)
            elif any(string in text for string in self.stop):
                end = asked[bisect_left(asked, True, key=ended)]
            else:
                end = None
            if end is not None:
                return end + 1, STOP_STRING
        return None if place is None else (place + 1, STOP_TOKEN)

    def text(self, response: Sequence[int], reason: str | None) -> str:
        """Returns the text of a response that ended for ``reason``, without what ended it."""
        if reason == STOP_TOKEN:
            return self._tokenizer.decode(list(response[:-1]))
        text = self._tokenizer.decode(list(response))
        if reason == STOP_STRING:
            text = text[: min(place for s in self.stop if (place := text.find(s)) >= 0)]
        return text

    def _contains_stop(self, response: Sequence[int]) -> bool:
        text = self._tokenizer.decode(list(response))
        return any(string in text for string in self.stop)


@lru_cache(maxsize=16)
def _ids_holding(tokenizer: Tokenizer, characters: frozenset[str]) -> frozenset[int]:
    """Returns the ids that can add one of ``characters`` to a text.

    A stop string is complete only when its last character appears, and that character belongs to
    the text of the token that came last, or, beyond ASCII, it ends in that token's bytes, which
    decode to U+FFFD on their own.
    """
    if not characters:
        return frozenset()
    wanted = characters if "".join(characters).isascii() else characters | {_REPLACEMENT}
    anchor = tokenizer.encode(_ANCHOR)
    head = tokenizer.decode(anchor)
    return frozenset(
        token
        for token in range(len(tokenizer))
        if not wanted.isdisjoint(tokenizer.decode([*anchor, token]).removeprefix(head))
    )
