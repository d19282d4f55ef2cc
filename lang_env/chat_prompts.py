"""Shipped prompts for instruction models: they go through the tokenizer's chat template."""

from __future__ import annotations

from lang_env.problem import Problem
from lang_env.prompts import PromptTemplate

WORD_CHAT = PromptTemplate(
    "word_chat",
    "{question}",
    few_shot=(
        Problem(
            "shown/1",
            "Lily has 7 lemons and buys 6 more. How many lemons does Lily have now?",
            "13",
            "Lily has 7 + 6 = 13 lemons.\n#### 13",
        ),
        Problem(
            "shown/2",
            "Max has 9 kites and gives 5 of them to Eva. How many kites does Max have left?",
            "4",
            "Max has 9 - 5 = 4 kites left.\n#### 4",
        ),
    ),
    chat=True,
)
"""Two solved problems of one step before the question, for ``problems="word", level=1``.

Small models that know little more than the four operations answer in the format.
"""

GSM8K_CHAT = PromptTemplate(
    "gsm8k_chat",
    "{question}\n\nThink step by step, one step a line. End with a line that holds only #### and "
    "the number.",
    chat=True,
)
"""GSM8K for a model that follows instructions; answers end in ``#### 42``."""

MATH_CHAT = PromptTemplate(
    "math_chat",
    "{question}\n\nThink step by step. Put the final answer into \\boxed{}.",
    chat=True,
)
"""MATH for a model that follows instructions; answers end in ``\\boxed{42}``."""
