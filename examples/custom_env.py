r"""Environments of your own: another grader and prompt for math, and a task that is not math.

    cd examples
    python -m agents.grpo --env custom_env:ThreeLines-v0
    python -m agents.vineppo --env custom_env:LastNumber-v0
    python -m agents.rloo --grader custom_env:RIGHT_AND_SHORT

An environment is an id with options; problems, prompt and grader are names of objects in this file.
``--env``, ``--grader`` and ``--prompt`` import them from the folder where the command runs.
"""

import re
from typing import Any

import gymnasium as gym

from graders import Grade, Verdict
from graders.adapters import from_trl
from lang_env import Problem, ProblemList
from lang_env.prompts import PromptTemplate


def questions(split: str) -> ProblemList:
    """Returns short programs; the answer is how many lines are asked for: always three."""
    first, last = {"train": (0, 60), "validation": (60, 80), "test": (80, 100)}[split]
    return ProblemList(
        [
            Problem(f"lines/{number}", f"a:={number // 10}+{number % 10};\na?", "3")
            for number in range(first, last)
        ]
    )


def count_lines(completion: str, answer: str) -> Grade:
    r"""Rewards a completion of as many lines as asked for; others the less the further off.

    >>> count_lines("one\ntwo\nthree", "3").score, count_lines("one", "3").score
    (1.0, 0.3333333333333333)
    """
    lines, wanted = len(completion.splitlines()), int(answer)
    verdict = Verdict.CORRECT if lines == wanted else Verdict.WRONG
    return Grade(1 / (1 + abs(lines - wanted)), verdict, f"{lines} lines")


SHOWN = PromptTemplate(
    "shown",
    "{question}\n",
    few_shot=(Problem("shown", "a:=2+3;\na?", "5", "2+3:a=5\na=5\n#### 5\n"),),
    separator="",
)
"""A prompt that shows one solved problem before the question."""


def last_number(completion: str, answer: str) -> float:
    """Rewards the last number of the completion; the answer's format does not matter.

    >>> last_number("3+4=7, so it is 7.", "7"), last_number("7 or 8", "7")
    (1.0, 0.0)
    """
    numbers = re.findall(r"-?\d+", completion)
    return float(bool(numbers) and int(numbers[-1]) == int(answer))


def right_and_short(
    completions: list[str], answer: list[str], **columns: Any
) -> list[float | None]:
    """A reward function with TRL's signature: a point if right, less a hundredth for each line."""
    return [
        last_number(completion, wanted) - 0.01 * completion.count("\n")
        for completion, wanted in zip(completions, answer, strict=True)
    ]


RIGHT_AND_SHORT = from_trl(right_and_short)
"""The same as a grader."""

gym.register(
    id="ThreeLines-v0",
    entry_point="lang_env.env:TokenEnv",
    vector_entry_point="lang_env.vector:TokenVectorEnv",
    kwargs={
        "problems": "custom_env:questions",
        "grader": "custom_env:count_lines",
        "max_prompt_tokens": 32,
        "max_new_tokens": 80,
    },
)
gym.register(
    id="LastNumber-v0",
    entry_point="lang_env.env:TokenEnv",
    vector_entry_point="lang_env.vector:TokenVectorEnv",
    kwargs={
        "problems": "ledger",
        "grader": "custom_env:last_number",
        "prompt": "custom_env:SHOWN",
        "max_prompt_tokens": 192,
        "max_new_tokens": 160,
    },
)
