"""From an environment's options to its MDP: names are looked up and values checked here."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from graders import Grade, Grader, get_grader
from lang_env.curriculum import curriculum_set
from lang_env.mdp import TokenMDP
from lang_env.pool import ProblemPool
from lang_env.problem import Longest, Problem, ProblemSet
from lang_env.prompts import PromptTemplate, get_prompt
from lang_env.segmenters import Segmenter, get_segmenter
from lang_env.sources import Problems, load_problems
from lang_env.stopping import StopChecker
from lang_env.tokenizers import Tokenizer, load_tokenizer

MOST_TOKENS = 2**20
"""Largest token budget: an observation has a place for each token."""

_DEFAULT_TOKENS = 512  # budget where neither the user nor the source names one
_SPARE = 2  # tokens beyond one a character of ASCII text
_EMPTY = Problem("", "", "")


def build_mdp(
    problems: Problems,
    *,
    data: str | Path | None = None,
    split: str = "train",
    tokenizer: str | Tokenizer = "builtin",
    grader: str | Callable[[str, str], Grade | float] | None = None,
    prompt: str | Mapping[str, Any] | PromptTemplate = "plain",
    chat_template: bool | Mapping[str, Any] | None = None,
    segmenter: str | Segmenter = "newline",
    max_prompt_tokens: int | None = None,
    max_new_tokens: int | None = None,
    max_length: int | None = None,
    stop_token_ids: Sequence[int] | None = None,
    stop: str | Sequence[str] | None = None,
    unfinished_reward: float = 0.0,
    undecided_reward: float = 0.0,
    level: int | str | None = None,
    levels: int | str | Sequence[int | str] | None = None,
    subjects: str | Sequence[str] | None = None,
    partition: str | None = None,
    fields: Mapping[str, str] | None = None,
    holdout: float | None = None,
    holdout_seed: int | None = None,
    curriculum: bool | Mapping[str, Any] | None = None,
) -> TokenMDP:
    """Builds the fixed part of an environment; see ``TokenEnv`` for the options.

    Raises:
        ValueError: A name is unknown or a value out of range.
    """
    vocabulary = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    template = get_prompt(prompt)
    if chat_template is not None:
        template = replace(template, chat=chat_template)

    def load(level: int | str | None) -> ProblemSet:
        return load_problems(
            problems,
            split=split,
            data=data,
            level=level,
            levels=levels,
            subjects=subjects,
            partition=partition,
            fields=fields,
            holdout=holdout,
            holdout_seed=holdout_seed,
        )

    source = curriculum_set(load, level, curriculum) if curriculum else load(level)
    suited = _suited_budgets(source, template, vocabulary)
    max_prompt_tokens = suited[0] if max_prompt_tokens is None else max_prompt_tokens
    max_new_tokens = suited[1] if max_new_tokens is None else max_new_tokens
    for name, value in (
        ("max_prompt_tokens", max_prompt_tokens),
        ("max_new_tokens", max_new_tokens),
    ):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise ValueError(f"{name} must be a whole number, got {value!r}")
        if value < 1:
            raise ValueError(f"{name} must be >= 1, got {value}")
        if value > MOST_TOKENS:
            raise ValueError(f"{name} must be <= {MOST_TOKENS}, got {value}")
    if max_length is not None and max_length < 2:
        raise ValueError(f"max_length must hold a prompt and a response (>= 2), got {max_length}")
    for name, reward in (
        ("unfinished_reward", unfinished_reward),
        ("undecided_reward", undecided_reward),
    ):
        if not math.isfinite(reward):
            raise ValueError(f"{name} must be a finite number, got {reward}")
    end = template.end(vocabulary)
    if stop_token_ids is None:
        eos = vocabulary.eos_token_id
        stop_token_ids = [token for token in (end, eos) if token is not None]
    elif template.is_chat and end is not None:
        stop_token_ids = (end, *stop_token_ids)
    strings = template.stop if stop is None else (stop,) if isinstance(stop, str) else tuple(stop)
    longest = max_prompt_tokens
    if max_length is not None:
        longest = min(longest, max_length - 1)
    own_grader: Grader | None = getattr(source, "grader", None)
    return TokenMDP(
        pool=ProblemPool(source, template, vocabulary, longest),
        tokenizer=vocabulary,
        grader=own_grader if grader is None and own_grader else get_grader(grader or "gsm8k"),
        segmenter=get_segmenter(segmenter),
        stop_checker=StopChecker(vocabulary, stop_token_ids, strings),
        max_prompt_tokens=max_prompt_tokens,
        max_new_tokens=max_new_tokens,
        max_length=max_length,
        unfinished_reward=float(unfinished_reward),
        undecided_reward=float(undecided_reward),
        split=split,
        padding=array("i", [vocabulary.pad_token_id or 0]) * (max_prompt_tokens + max_new_tokens),
    )


def _suited_budgets(
    source: ProblemSet, template: PromptTemplate, tokenizer: Tokenizer
) -> tuple[int, int]:
    """Returns the prompt and answer budgets that hold every problem and solution of a source.

    Its texts are ASCII, which never has more tokens than characters.
    """
    longest: Longest | None = getattr(source, "longest", None)
    if longest is None:
        return _DEFAULT_TOKENS, _DEFAULT_TOKENS
    around = len(template.encode(_EMPTY, tokenizer))
    behind = len(tokenizer.encode(template.target(_EMPTY))) + 1  # the stop token
    return longest.question + around + _SPARE, longest.solution + behind + _SPARE
