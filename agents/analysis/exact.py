"""A small MDP that can be enumerated: V, Q and the policy gradient without noise.

Policy and rewards are tables, so that the truth follows by dynamic programming. Environment and
engine have the interfaces of the real ones and make their random choices through a chooser, so that
the library's own estimators run on them, and ``outcomes`` gives their exact expectation::

    >>> from agents.analysis.choices import outcomes
    >>> from agents.core.rollout import Sampler, start_of
    >>> mdp = two_token_mdp()
    >>> def one_reward(chooser):
    ...     sampler = Sampler(TableEngine(mdp, chooser), TableEnv(mdp), 0, 1.0)
    ...     start = start_of(sampler.env, 0)
    ...     return sampler.sample([start], 1, iteration=1, purpose="rollout")[0][0].reward
    >>> expected = sum(chance * reward for chance, reward in outcomes(one_reward))
    >>> abs(expected - mdp.value(())) < 1e-12
    True
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agents.analysis.choices import Chances, Chooser, multisets
from agents.engines.base import Completion, SamplingParams

Tokens = tuple[int, ...]
FloatArray = NDArray[np.float64]
Lump = Literal["none", "order", "reward"]

PROMPT: Tokens = (1,)
"""The prompt of every TableEnv."""


class TableMDP:
    """Answers of ``depth`` tokens, each of ``num_tokens`` ids; then the reward.

    Attributes:
        num_tokens: V, ids are 0 to V - 1.
        depth: Tokens of an answer.
        rewards: Reward of each answer.
        policy: Chances of the V ids after each unfinished prefix, V numbers that sum to 1.
    """

    def __init__(
        self,
        num_tokens: int,
        depth: int,
        policy: Callable[[Tokens], Iterable[float]],
        reward: Callable[[Tokens], float],
    ) -> None:
        """Fills the tables.

        Args:
            num_tokens: V >= 2.
            depth: >= 1; there are V**depth answers.
            policy: Maps an unfinished prefix to the chances of the next id.
            reward: Maps an answer to its reward.
        """
        self.num_tokens, self.depth = num_tokens, depth
        ids = range(num_tokens)
        self.prefixes = [r for t in range(depth) for r in product(ids, repeat=t)]
        self.answers = [*product(ids, repeat=depth)]
        self.policy: dict[Tokens, Chances] = {
            prefix: tuple(map(float, policy(prefix))) for prefix in self.prefixes
        }
        self.rewards = {answer: float(reward(answer)) for answer in self.answers}
        self._place = {prefix: number for number, prefix in enumerate(self.prefixes)}
        self._values = dict(self.rewards)
        for prefix in reversed(self.prefixes):
            self._values[prefix] = sum(
                p * self._values[(*prefix, token)] for token, p in enumerate(self.policy[prefix])
            )
        self._scores = {answer: self._scores_of(answer) for answer in self.answers}
        self._continuations: dict[Tokens, tuple[tuple[Tokens, ...], Chances]] = {}

    def value(self, prefix: Tokens) -> float:
        """Returns V of a prefix; of a whole answer, its reward.

        >>> mdp = two_token_mdp()
        >>> p = mdp.policy[()]
        >>> abs(mdp.value(()) - p[0] * mdp.value((0,)) - p[1] * mdp.value((1,))) < 1e-15
        True
        """
        return self._values[prefix]

    def q(self, prefix: Tokens, token: int) -> float:
        """Returns Q of a token after a prefix: V of the state that it leads to."""
        return self._values[(*prefix, token)]

    def chance(self, answer: Tokens) -> float:
        """Returns how likely an answer is."""
        return self._product(answer, 0)

    def scores(self, answer: Tokens) -> FloatArray:
        """Returns the gradient of log pi of each token of an answer, [depth, parameters].

        The parameters are the logits of ids 1 to V - 1 after each prefix; that of id 0 is fixed.
        """
        return self._scores[answer]

    @cached_property
    def gradient(self) -> FloatArray:
        """The gradient of V of the prompt, [parameters], from Q and V.

        It is the sum over prefixes of the chance to come there times, for each id,
        pi(id) * (Q(id) - V).
        """
        rows = []
        for prefix in self.prefixes:
            reached = self._product(prefix, 0)
            gains = [self.q(prefix, token) - self.value(prefix) for token in range(self.num_tokens)]
            rows.append(reached * np.array(self.policy[prefix]) * gains)
        return np.concatenate([row[1:] for row in rows])

    def continuations(self, prefix: Tokens) -> tuple[tuple[Tokens, ...], Chances]:
        """Returns the ways to go on after a prefix to the end, and the chance of each."""
        found = self._continuations.get(prefix)
        if found is None:
            rests = tuple(product(range(self.num_tokens), repeat=self.depth - len(prefix)))
            chances = tuple(self._product((*prefix, *rest), len(prefix)) for rest in rests)
            found = self._continuations[prefix] = rests, chances
        return found

    def _product(self, tokens: Tokens, begin: int) -> float:
        chance = 1.0
        for t in range(begin, len(tokens)):
            chance *= self.policy[tokens[:t]][tokens[t]]
        return chance

    def _scores_of(self, answer: Tokens) -> FloatArray:
        width = self.num_tokens - 1
        scores = np.zeros((self.depth, len(self.prefixes) * width))
        for t, token in enumerate(answer):
            row = -np.array(self.policy[answer[:t]])
            row[token] += 1.0
            begin = self._place[answer[:t]] * width
            scores[t, begin : begin + width] = row[1:]
        return scores


def two_token_mdp() -> TableMDP:
    """Returns the one of the tests and of ``benchmarks/exact_mdp.py``: two ids, three tokens."""

    def policy(prefix: Tokens) -> tuple[float, float]:
        one = 0.2 + 0.6 * np.random.default_rng([3, *prefix]).random()
        return 1 - one, one

    return TableMDP(2, 3, policy, lambda answer: sum(answer) == 2 or answer == (0, 0, 1))


def random_mdp(num_tokens: int, depth: int, seed: int = 0) -> TableMDP:
    """Returns an MDP with random chances, none below 0.2 / (1.2 V), and rewards of 0 or 1.

    >>> random_mdp(3, 4).gradient.shape
    (80,)
    """
    rewarded = np.random.default_rng([seed, 0]).random((num_tokens,) * depth) < 0.5

    def policy(prefix: Tokens) -> FloatArray:
        weights = 0.2 + np.random.default_rng([seed, 1, *prefix]).random(num_tokens)
        chances: FloatArray = weights / weights.sum()
        return chances

    return TableMDP(num_tokens, depth, policy, lambda answer: rewarded[answer])


class TableTokenizer:
    r"""Decodes each id to a text of one's choice, so that segmenters of text can be tried.

    >>> TableTokenizer(("a", "\n")).decode([0, 1, 0])
    'a\na'
    """

    eos_token_id = None

    def __init__(self, texts: Sequence[str]) -> None:
        """Stores the text of each id."""
        self.texts = tuple(texts)

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of ids."""
        return "".join(self.texts[token] for token in tokens)


class _NoStops:
    stop_candidates: frozenset[int] = frozenset()

    def finish(self, response: Sequence[int]) -> str | None:
        return None


class TableEnv:
    """The environment of a TableMDP: one problem, a reward after the last token.

    Attributes:
        mdp: The tables.
        segmenter: Where a step begins; a border before every token, if it is not told otherwise.
        state_key: Names a state by the prompt's and the response's tokens; None: it does not.
    """

    stop_checker, num_problems = _NoStops(), 1

    def __init__(
        self,
        mdp: TableMDP,
        segmenter: Callable[[Sequence[int], Any], list[int]] | None = None,
        texts: Sequence[str] = "",
        state_key: Callable[[Sequence[int]], Hashable | None] | None = None,
    ) -> None:
        """Stores the tables and the cuts; ``texts`` are those of the ids, for the segmenter."""
        self.mdp, self.state_key = mdp, state_key
        self.segmenter = segmenter or (lambda tokens, tokenizer: [*range(len(tokens))])
        self.tokenizer = TableTokenizer(texts or [chr(97 + i) for i in range(mdp.num_tokens)])
        self._response: Tokens = ()

    @property
    def remaining(self) -> int:
        """Tokens that are still to come."""
        return self.mdp.depth - len(self._response)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Goes to the prompt."""
        return self.restore(())

    def snapshot(self) -> Tokens:
        """Returns the state."""
        return self._response

    def restore(self, snapshot: Tokens) -> tuple[Any, dict[str, Any]]:
        """Goes to a state."""
        self._response = snapshot
        tokens = np.array(PROMPT + snapshot + (0,) * self.remaining)
        return {"tokens": tokens, "length": [len(PROMPT + snapshot)]}, {"problem_id": "p"}

    def play(self, tokens: Sequence[int]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Appends tokens; the answer is truncated when its budget of ``depth`` tokens is spent."""
        self._response += tuple(tokens)
        done = self.remaining == 0
        return None, self.mdp.rewards[self._response] if done else 0.0, False, done, {}


class TableEngine:
    """The engine of a TableMDP: continuations as the table and a chooser say.

    Attributes:
        lump: What may be forgotten to have fewer paths to enumerate. "order": in which order the
            continuations of a prompt come. "reward": their tokens too, of which only the reward is
            right; for rollouts that count with their reward and nowhere but where they began.
    """

    def __init__(self, mdp: TableMDP, chooser: Chooser, lump: Lump = "none") -> None:
        """Stores the tables and the chooser."""
        self._mdp, self._chooser, self.lump = mdp, chooser, lump

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: SamplingParams
    ) -> list[list[Completion]]:
        """Returns the continuations of each prompt, as many as it has streams."""
        pairs = zip(prompts, sampling.streams, strict=True)
        return [self._continue(tuple(p[len(PROMPT) :]), len(keys)) for p, keys in pairs]

    def sync_weights(self, model: Any) -> None:
        """Does nothing: the policy is the table."""

    def _continue(self, prefix: Tokens, count: int) -> list[Completion]:
        rests, chances = self._mdp.continuations(prefix)
        if self.lump == "reward":
            rests, chances = self._one_a_reward(prefix)
        if self.lump == "none":
            chosen = [self._chooser.choose(chances) for _ in range(count)]
        else:
            draws, weights = multisets(chances, count)
            chosen = [*draws[self._chooser.choose(weights)]]
        return [Completion([*rests[i]], [0.0] * len(rests[i]), "length") for i in chosen]

    def _one_a_reward(self, prefix: Tokens) -> tuple[tuple[Tokens, ...], Chances]:
        """Returns one continuation for each reward that is possible, and the reward's chance."""
        total: dict[float, float] = {}
        example: dict[float, Tokens] = {}
        for rest, chance in zip(*self._mdp.continuations(prefix), strict=True):
            reward = self._mdp.rewards[(*prefix, *rest)]
            total[reward] = total.get(reward, 0.0) + chance
            example.setdefault(reward, rest)
        return tuple(example.values()), tuple(total.values())
