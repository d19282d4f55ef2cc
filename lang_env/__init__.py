"""Math reasoning as a token-level environment that can be reset to any intermediate state.

Importing this package registers its environments with Gymnasium; nothing else is loaded until one
is made.

    import gymnasium as gym, lang_env

    env = gym.make("MathReason-v0")
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from lang_env.problem import Problem, ProblemList, ProblemSet
from lang_env.snapshot import Snapshot

__all__ = ["ENVIRONMENTS", "Problem", "ProblemList", "ProblemSet", "Snapshot"]

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "MathReason-v0": {
        "problems": "ledger",
        "prompt": "plain",
    },
    "GSM8K-v0": {
        "problems": "gsm8k",
        "prompt": "gsm8k",
        "grader": "gsm8k",
        "max_prompt_tokens": 1024,
        "max_new_tokens": 512,
    },
    "MATH-v0": {
        "problems": "math",
        "prompt": "math",
        "grader": "math",
        "segmenter": "sentences",
        "max_prompt_tokens": 4608,
        "max_new_tokens": 1024,
    },
    "MATH500-v0": {
        "problems": "math500",
        "split": "test",
        "prompt": "math",
        "grader": "math",
        "segmenter": "sentences",
        "max_prompt_tokens": 4608,
        "max_new_tokens": 1024,
    },
    "OlympiadBench-v0": {
        "problems": "olympiadbench",
        "split": "test",
        "prompt": "math",
        "grader": "math",
        "segmenter": "sentences",
        "max_prompt_tokens": 4608,
        "max_new_tokens": 1024,
    },
}
"""Our ids and their default options; each can be overridden in ``gym.make``."""


def _register() -> None:
    for name, kwargs in ENVIRONMENTS.items():
        if name not in gym.registry:
            gym.register(
                id=name,
                entry_point="lang_env.env:TokenEnv",
                vector_entry_point="lang_env.vector:TokenVectorEnv",
                kwargs=kwargs,
            )


_register()
