"""The two-token MDP of ``agents.analysis.exact`` under short names."""

from toy import by_levels

from agents.analysis.choices import outcomes
from agents.analysis.exact import PROMPT, TableEngine, TableEnv, two_token_mdp

__all__ = [
    "DEPTH", "MDP", "PROMPT", "REWARDS", "ExactEngine", "ExactEnv", "SweepingExactEngine",
    "chance_of_one", "outcomes", "score", "true_gradient", "value",
]  # fmt: skip

MDP = two_token_mdp()
DEPTH, REWARDS = MDP.depth, MDP.rewards


def chance_of_one(prefix) -> float:
    return MDP.policy[tuple(prefix)][1]


def value(prefix) -> float:
    return MDP.value(tuple(prefix))


def score(prefix, token):
    answer = (*prefix, token, *[0] * DEPTH)[:DEPTH]
    return MDP.scores(answer)[len(prefix)]


def true_gradient():
    return MDP.gradient


class ExactEnv(TableEnv):
    """A border before every token, or as told."""

    def __init__(self, segment=None):
        super().__init__(MDP, segment and (lambda tokens, tokenizer: segment(tuple(tokens))))


class ExactEngine(TableEngine):
    def __init__(self, chooser, lump="none"):
        super().__init__(MDP, chooser, lump)


class SweepingExactEngine(ExactEngine):
    def can_sweep(self):
        return True

    def sweep(self, prompts, trees, sampling):
        return by_levels(self, prompts, trees, sampling)
