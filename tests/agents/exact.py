"""All joint outcomes of a random program, with their probabilities: expectations without noise.

``outcomes(run)`` calls ``run(chooser)`` once for every path through its choices. The two-token MDP
below, its engine and its environment make their choices through a chooser, so that the expectation
of whatever an estimator returns is a finite sum.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from toy import ToyTokenizer

from agents.engines.base import Completion

DEPTH, PROMPT = 3, (1,)
REWARDS = {r: float(sum(r) == 2 or r == (0, 0, 1)) for r in product((0, 1), repeat=DEPTH)}
PREFIXES = sorted((r for t in range(DEPTH) for r in product((0, 1), repeat=t)), key=len)
PLACE = {prefix: number for number, prefix in enumerate(PREFIXES)}


def chance_of_one(prefix) -> float:
    return 0.2 + 0.6 * np.random.default_rng([3, *prefix]).random()


def value(prefix) -> float:
    if len(prefix) == DEPTH:
        return REWARDS[tuple(prefix)]
    p = chance_of_one(prefix)
    return p * value((*prefix, 1)) + (1 - p) * value((*prefix, 0))


def score(prefix, token) -> np.ndarray:
    """Gradient of log pi(token | prefix) with respect to the logit of 1 at every prefix."""
    gradient = np.zeros(len(PREFIXES))
    gradient[PLACE[tuple(prefix)]] = token - chance_of_one(prefix)
    return gradient


def true_gradient() -> np.ndarray:
    """Gradient of V(prompt)."""
    total = np.zeros(len(PREFIXES))
    for response, reward in REWARDS.items():
        steps = [(response[:t], token) for t, token in enumerate(response)]
        chances = [chance_of_one(s) if a else 1 - chance_of_one(s) for s, a in steps]
        total += np.prod(chances) * reward * sum(score(s, a) for s, a in steps)
    return total


class Chooser:
    """Follows one path of choices, and knows the next."""

    def __init__(self):
        self.path, self.options = [], []

    def begin(self):
        self.place, self.chance = 0, 1.0

    def choose(self, p: float) -> int:
        """Returns 1 with chance p, else 0."""
        if self.place == len(self.path):
            self.path.append(0)
        choice = self.path[self.place]
        self.place += 1
        self.chance *= p if choice else 1 - p
        return choice

    def advance(self) -> bool:
        del self.path[self.place :]
        while self.path and self.path[-1] == 1:
            self.path.pop()
        if self.path:
            self.path[-1] = 1
        return bool(self.path)


def outcomes(run):
    """Yields (probability, what run returned) for every path of choices."""
    chooser = Chooser()
    while True:
        chooser.begin()
        result = run(chooser)
        yield chooser.chance, result
        if not chooser.advance():
            return


class NoStops:
    stop_candidates = frozenset()

    def finish(self, response):
        return None


class ExactEnv:
    """Three tokens of 0 or 1, then the reward; a border before every token, or as told."""

    stop_checker, tokenizer, num_problems = NoStops(), ToyTokenizer(), 1
    response = ()

    def __init__(self, segment=lambda response: list(range(len(response)))):
        self.segmenter = lambda tokens, tokenizer: segment(tuple(tokens))

    remaining = property(lambda self: DEPTH - len(self.response))

    def reset(self, *, seed=None, options=None):
        return self.restore(())

    def snapshot(self):
        return self.response

    def restore(self, snapshot):
        self.response = tuple(snapshot)
        tokens = np.array(PROMPT + self.response + (0,) * self.remaining)
        return {"tokens": tokens, "length": [len(PROMPT) + len(self.response)]}, {"problem_id": "p"}

    def step(self, action):
        self.response += (action,)
        done = len(self.response) == DEPTH
        return None, REWARDS[self.response] if done else 0.0, False, done, {}


class ExactEngine:
    def __init__(self, chooser):
        self.chooser = chooser

    def generate(self, prompts, sampling):
        pairs = zip(prompts, sampling.streams, strict=True)
        return [[self._continue(tuple(p[len(PROMPT) :])) for _ in keys] for p, keys in pairs]

    def _continue(self, prefix):
        tokens = []
        while len(prefix) + len(tokens) < DEPTH:
            tokens.append(self.chooser.choose(chance_of_one((*prefix, *tokens))))
        return Completion(tokens, [0.0] * len(tokens), "length")
