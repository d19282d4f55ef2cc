"""Other sizes of action over the same environment: a text, or one reasoning step.

Both play tokens through the environment that they wrap, one ``step`` each, so that wrappers inside
see every token. They hold no state of their own: ``env.unwrapped.snapshot()`` and
``env.reset(options={"snapshot": s})`` work as without them.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from lang_env.env import TokenEnv
from lang_env.segmenters import Segmenter, get_segmenter
from lang_env.shell import Observation
from lang_env.tokenizers import Tokenizer

Result = tuple[Observation, float, bool, bool, dict[str, Any]]
"""Observation, reward, terminated, truncated, info."""

_CHARACTERS_A_TOKEN = 16  # default longest text: hardly any token has more
_SPARE = 2  # tokens of the budget that a sampled text leaves: the stop token, a prefix space


class TokenText(spaces.Text):
    """The texts that a tokenizer can write.

    Samples are made of those printable ASCII characters that it can write, and no longer than
    ``sample_length``; texts of other characters belong to the space where the tokenizer gives them
    back.

    >>> from lang_env.tokenizers import character_tokenizer
    >>> space = TokenText(character_tokenizer("01+"), max_length=4)
    >>> "1+10" in space, "" in space, "1-1" in space, "1+1+1" in space
    (True, True, False, False)
    """

    def __init__(
        self, tokenizer: Tokenizer, max_length: int, sample_length: int | None = None
    ) -> None:
        """Stores the tokenizer and the longest text and sample, in characters."""
        self.tokenizer = tokenizer
        self.sample_length = max_length if sample_length is None else sample_length
        written = [sign for sign in string.printable if self._gives_back(sign)]
        super().__init__(max_length, min_length=0, charset="".join(written))

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Returns a random text; ``mask`` and ``probability`` as in ``gymnasium.spaces.Text``."""
        if mask is None and probability is None:
            mask = (int(self.np_random.integers(self.sample_length + 1)), None)
        return super().sample(mask, probability)

    def contains(self, x: Any) -> bool:
        """Returns whether ``x`` is a text of the space."""
        if not isinstance(x, str) or len(x) > self.max_length:
            return False
        return self.character_set.issuperset(x) or self._gives_back(x)

    def _gives_back(self, text: str) -> bool:
        try:
            return self.tokenizer.decode(self.tokenizer.encode(text)) == text
        except Exception:  # whatever the tokenizer raises, this is no text of its own
            return False


class _TokenWrapper(gym.Wrapper[Observation, Any, Observation, np.int64], RecordConstructorArgs):
    """Plays several tokens as one action."""

    def __init__(self, env: gym.Env[Observation, np.int64]) -> None:
        super().__init__(env)
        if not isinstance(env.unwrapped, TokenEnv):
            raise ValueError(
                f"{type(self).__name__} wraps a lang_env.env.TokenEnv, got {env.unwrapped!r:.80}"
            )
        self.base = env.unwrapped

    def _play(self, tokens: Sequence[int]) -> tuple[Result, int]:
        """Steps through tokens until the episode ends; returns also how many were played.

        The reward is the sum. There is at least one token.
        """
        total, count, done = 0.0, 0, False
        while not done and count < len(tokens):
            step = self.env.step(np.int64(tokens[count]))
            observation, reward, terminated, truncated, info = step
            total, count, done = total + float(reward), count + 1, terminated or truncated
        return (observation, total, terminated, truncated, info), count

    def _check(self, tokens: Sequence[int]) -> None:
        """Raises ValueError if one of the tokens is no id."""
        for token in tokens:
            if not 0 <= token < len(self.base.tokenizer):
                raise ValueError(
                    f"token {token} is outside the vocabulary, whose ids are 0 to "
                    f"{len(self.base.tokenizer) - 1}"
                )


class TextAction(_TokenWrapper):
    r"""An action is a text.

    The text is encoded on its own, with no special token, and played token by token until the
    episode ends; what is left of it then is not played. Tokens played earlier are never encoded
    again: a text in two pieces may have other tokens than the same text in one. A text that spells
    a special token, such as ``</s>``, may become that token or plain characters, as the tokenizer
    has it.

    With ``whole`` (default) a text is the whole answer: a stop token follows it, so that an episode
    is one action. Without it an answer is written piece by piece, and the empty text stops.

    ``info`` has two keys more: ``prompt`` and ``response``, the texts so far, without special
    tokens.

    >>> from lang_env import Problem
    >>> problems = [Problem("p", "6*7?", "42")]
    >>> env = TextAction(TokenEnv(problems, max_prompt_tokens=16, max_new_tokens=32))
    >>> observation, info = env.reset(seed=0)
    >>> info["prompt"]
    '6*7?\n'
    >>> observation, reward, terminated, truncated, info = env.step("6*7=42\n#### 42")
    >>> reward, terminated, info["response"]
    (1.0, True, '6*7=42\n#### 42')
    """

    def __init__(
        self,
        env: gym.Env[Observation, np.int64],
        *,
        whole: bool = True,
        max_characters: int | None = None,
    ) -> None:
        """Wraps an environment.

        Args:
            env: A ``TokenEnv``, bare or with other wrappers.
            whole: Whether a text is the whole answer.
            max_characters: Longest text of the action space; ``step`` takes longer ones too. None:
                16 a token of the budget. Samples are short enough to leave the budget a token.

        Raises:
            ValueError: The environment is no ``TokenEnv``, has no stop token, or the length is < 1.
        """
        RecordConstructorArgs.__init__(self, whole=whole, max_characters=max_characters)
        super().__init__(env)
        if not self.base.stop_token_ids:
            raise ValueError(
                "TextAction ends an answer with a stop token, and this environment has none; pass "
                "stop_token_ids=[...]"
            )
        if max_characters is None:
            max_characters = _CHARACTERS_A_TOKEN * self.base.max_new_tokens
        if max_characters < 1:
            raise ValueError(f"max_characters must be >= 1, got {max_characters}")
        self.whole = whole
        short = min(max_characters, max(self.base.max_new_tokens - _SPARE, 0))
        self.action_space = TokenText(self.base.tokenizer, max_characters, short)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode; options as in ``TokenEnv.reset``."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, info | self._texts()

    def step(self, action: str) -> Result:
        """Plays a text.

        Raises:
            ValueError: The tokenizer cannot write it; nothing was played.
            gymnasium.error.ResetNeeded: There is no running episode.
        """
        result, _ = self._play(self._ids(action))
        return (*result[:4], result[4] | self._texts())

    def _ids(self, text: str) -> list[int]:
        if not isinstance(text, str):
            raise ValueError(f"an action is a text, got {text!r:.60}")
        try:
            ids = self.base.tokenizer.encode(text)
        except Exception as error:  # tokenizers raise what they like
            raise ValueError(
                f"tokenizer {self.base.tokenizer.name!r} cannot write {text!r:.60}: {error}"
            ) from error
        return [*ids, self.base.stop_token_ids[0]] if self.whole or not ids else ids

    def _texts(self) -> dict[str, str]:
        decode = self.base.tokenizer.decode
        return {
            "prompt": decode(self.base.prompt_tokens),
            "response": decode(self.base.response_tokens),
        }


class StepAction(_TokenWrapper):
    r"""An action is one reasoning step.

    The action space is ``MultiDiscrete([V] * T)``: T ids, of which the first are played, until the
    step ends (the next border of the segmenter), or the episode does. The ids behind that are not
    played and have no effect. ``step`` also takes a shorter list, of at least one id. An action
    that ends before the step does leaves the episode inside the step, and the next action goes on
    there. By default T is half the token budget, so that no single action uses it up.

    Where a step ends is known when its last token is: the segmenter must be causal.

    ``info`` has two keys more: ``step_tokens``, how many ids were played, and ``at_border``,
    whether the state is at a step border (or finished).

    >>> from lang_env import Problem
    >>> problems = [Problem("p", "6*7?", "42")]
    >>> env = StepAction(TokenEnv(problems, max_prompt_tokens=16, max_new_tokens=32))
    >>> observation, info = env.reset(seed=0)
    >>> answer = env.base.tokenizer.encode("6*7=42\n#### 42")
    >>> observation, reward, terminated, truncated, info = env.step(answer)
    >>> info["step_tokens"], info["at_border"], env.base.response_tokens == answer[:7]
    (7, True, True)
    """

    def __init__(
        self,
        env: gym.Env[Observation, np.int64],
        *,
        max_step_tokens: int | None = None,
        segmenter: str | Segmenter | None = None,
    ) -> None:
        """Wraps an environment.

        Args:
            env: A ``TokenEnv``, bare or with other wrappers.
            max_step_tokens: T, most ids an action; None: half of ``max_new_tokens``.
            segmenter: Where a step ends; None: the environment's own.

        Raises:
            ValueError: The environment is no ``TokenEnv``, the segmenter looks ahead, or T < 1.
        """
        RecordConstructorArgs.__init__(self, max_step_tokens=max_step_tokens, segmenter=segmenter)
        super().__init__(env)
        self.segmenter = self.base.segmenter if segmenter is None else get_segmenter(segmenter)
        if not self.segmenter.causal:
            raise ValueError(
                f"segmenter {self.segmenter.name!r} looks ahead, so that the end of a step is not "
                "known when it comes; pass segmenter='newline' or 'sentences'"
            )
        half = max(1, self.base.max_new_tokens // 2)
        length = half if max_step_tokens is None else max_step_tokens
        if length < 1:
            raise ValueError(f"max_step_tokens must be >= 1, got {length}")
        self.max_step_tokens = int(length)
        self.action_space = spaces.MultiDiscrete([len(self.base.tokenizer)] * self.max_step_tokens)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode; options as in ``TokenEnv.reset``."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, info | self._about(0)

    def step(self, action: NDArray[np.int64] | Sequence[int]) -> Result:
        """Plays ids until the step or the episode ends.

        Args:
            action: Ids, shape [t] with 1 <= t <= T.

        Raises:
            ValueError: No ids, too many, or one outside the vocabulary; nothing was played.
            gymnasium.error.ResetNeeded: There is no running episode.
        """
        ids = np.asarray(action)
        if ids.ndim != 1 or not 1 <= len(ids) <= self.max_step_tokens or ids.dtype.kind not in "iu":
            raise ValueError(f"an action is 1 to {self.max_step_tokens} ids, got {action!r:.60}")
        tokens = ids.tolist()
        self._check(tokens)
        done = self.base.response_tokens
        ends = [border for border in self._borders([*done, *tokens]) if border > len(done)]
        result, count = self._play(tokens[: ends[0] - len(done)] if ends else tokens)
        return (*result[:4], result[4] | self._about(count))

    def _borders(self, tokens: list[int]) -> list[int]:
        """Returns the borders of a response, its end too if a step ends there.

        A border at the end shows when one more token follows; a causal segmenter does not care
        which.
        """
        return self.segmenter([*tokens, tokens[-1]], self.base.tokenizer)

    def _about(self, count: int) -> dict[str, Any]:
        done = self.base.response_tokens
        at_border = not done or not self.base.remaining or len(done) in self._borders(done)
        return {"step_tokens": count, "at_border": at_border}
