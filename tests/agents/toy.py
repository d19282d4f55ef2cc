"""An enumerable token MDP: an environment of somebody else's, an engine, and exact values.

Three ids, at most three tokens; id 0 stops. The policy is a table over prefixes. The environment
offers snapshot and restore and nothing more than Gymnasium's interface besides what engines read.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agents.core.streams import uniforms
from agents.engines.base import Completion

V, DEPTH, PROMPT = 3, 3, (1, 2)


class ToyStops:
    stop_candidates = frozenset({0})

    def finish(self, response):
        return "stop_token" if response[-1] == 0 else None


class ToyTokenizer:
    eos_token_id = 0

    def decode(self, tokens):
        return "".join("xyz"[token] for token in tokens)


class ToyEnv(gym.Env):
    """Reward 1 if the response's ids sum to an odd number, else 0."""

    stop_checker, tokenizer, num_problems = ToyStops(), ToyTokenizer(), 4
    max_prompt_tokens, max_new_tokens = len(PROMPT), DEPTH

    def __init__(self, step_length: int = 1, split: str = "train"):
        size = len(PROMPT) + DEPTH
        self.observation_space = spaces.Dict(
            tokens=spaces.Box(0, V - 1, (size,), np.int32),
            length=spaces.Box(0, size, (1,), np.int32),
        )
        self.action_space = spaces.Discrete(V)
        self.step_length = step_length
        self.index, self.response = 0, ()

    @property
    def remaining(self):
        return DEPTH - len(self.response)

    def segmenter(self, tokens, tokenizer):
        return list(range(0, len(tokens), self.step_length))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.index = (options or {}).get("index", 0)
        self.response = ()
        return self._observation(), {"problem_id": str(self.index)}

    def step(self, action):
        self.response += (int(action),)
        terminated = action == 0
        truncated = not terminated and len(self.response) == DEPTH
        reward = reward_of(self.response) if terminated or truncated else 0.0
        return self._observation(), reward, terminated, truncated, {"problem_id": str(self.index)}

    def snapshot(self):
        return self.index, self.response

    def restore(self, snapshot):
        self.index, self.response = snapshot
        return self._observation(), {"problem_id": str(self.index)}

    def _observation(self):
        tokens = np.zeros(len(PROMPT) + DEPTH, np.int32)
        tokens[: len(PROMPT) + len(self.response)] = PROMPT + self.response
        return {"tokens": tokens, "length": np.array([2 + len(self.response)], np.int32)}


def reward_of(response) -> float:
    return float(sum(response) % 2)


def probabilities(response) -> np.ndarray:
    """The policy: a fixed table, different at every prefix."""
    rng = np.random.default_rng([7, *response])
    weights = rng.random(V) + 0.2
    return weights / weights.sum()


def finished(response) -> bool:
    return len(response) == DEPTH or (len(response) > 0 and response[-1] == 0)


def exact_value(response) -> float:
    """V of a state that is not finished, by enumeration."""
    response = tuple(response)
    if finished(response):
        return reward_of(response)
    return float(
        sum(p * exact_value((*response, a)) for a, p in enumerate(probabilities(response)))
    )


def all_responses() -> list[tuple[int, ...]]:
    """Every finished response."""
    return [
        r
        for length in range(1, DEPTH + 1)
        for r in product(range(V), repeat=length)
        if finished(r) and 0 not in r[:-1]
    ]


class ToyEngine:
    """Samples from the table with the streams that it is given."""

    def __init__(self):
        self.calls = []

    def generate(self, prompts, sampling):
        self.calls.append([len(streams) for streams in sampling.streams])
        return [
            [self._sample(tuple(prompt[len(PROMPT) :]), key) for key in streams]
            for prompt, streams in zip(prompts, sampling.streams, strict=True)
        ]

    def sync_weights(self, model):
        pass

    def _sample(self, prefix, key):
        tokens, log_probs = [], []
        while not finished(prefix + tuple(tokens)) or not tokens:
            p = probabilities(prefix + tuple(tokens))
            draw = uniforms(np.array([key], np.uint64), np.array(len(tokens), np.uint64))[0]
            token = min(int((p.cumsum() <= draw).sum()), V - 1)
            tokens.append(token)
            log_probs.append(float(np.log(p[token])))
        return Completion(tokens, log_probs, "stop_token" if tokens[-1] == 0 else "length")


def by_levels(engine, prompts, trees, sampling):
    """A sweep by its definition: shallow states first, each gets what rows from above leave it."""
    groups, rows = [[] for _ in prompts], []
    for place in sorted(range(len(prompts)), key=lambda place: len(prompts[place])):
        tree, tokens = trees[place], list(prompts[place])
        passing = sum(
            t == tree and len(row) > len(tokens) and row[: len(tokens)] == tokens for t, row in rows
        )
        one = sampling.of([place])
        if streams := one.streams[0][: max(0, len(one.streams[0]) - passing)]:
            (groups[place],) = engine.generate([tokens], replace(one, streams=[streams]))
        rows += [(tree, tokens + row.tokens) for row in groups[place]]
    return groups


class SweepingToyEngine(ToyEngine):
    """The same with a sweep."""

    sweeps = 0

    def can_sweep(self):
        return True

    def sweep(self, prompts, trees, sampling):
        self.sweeps += 1
        return by_levels(self, prompts, trees, sampling)
