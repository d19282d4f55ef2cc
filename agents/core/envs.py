"""Environments as an agent uses them: made from a config, and enumerated without repetition."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

import lang_env  # registers our ids
from agents.core.config import PlayConfig, env_kwargs_of
from agents.core.loading import TINY, model_folder, unloadable
from agents.core.rollout import Start, start_of
from agents.core.streams import generator, stream_key
from graders.resolve import nearest

_MAX_DRAWS = 100  # draws for one more distinct problem of a generator


def accepted_kwargs(env_id: str) -> set[str] | None:
    """Returns which keyword arguments an environment takes; None: any.

    Raises:
        ValueError: Unknown id, or its module cannot be imported.
    """
    module, _, name = env_id.rpartition(":")
    if module:
        try:
            import_module(module)  # registers the id, as gym.make would do
        except ImportError as error:
            raise ValueError(
                f"cannot import {module!r} of environment {env_id!r}: {error}. Write it as "
                "'pkg:Env-v0' and run where 'pkg' can be imported."
            ) from error
    if name not in gym.registry:
        ours = ", ".join(lang_env.ENVIRONMENTS)
        raise ValueError(
            f"unknown environment {env_id!r}.{nearest(name, gym.registry)} Ours: {ours}. One of "
            "your own is written 'pkg:Env-v0', where importing 'pkg' registers 'Env-v0'."
        )
    entry = gym.spec(name).entry_point
    maker = load_env_creator(entry) if isinstance(entry, str) else entry
    parameters = inspect.signature(maker).parameters.values() if maker else ()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name for parameter in parameters}


def make_env(config: PlayConfig, split: str) -> Any:
    """Makes the unwrapped environment of a run.

    What the user gave is passed on as it is. Beside it, where the environment takes them: the
    split, and for a model of the user's own its tokenizer, context length and stop tokens.

    Args:
        config: The run's configuration.
        split: "train", "validation" or "test".

    Raises:
        ValueError: Unknown id, an option that the environment does not take, or an environment
            that an engine cannot work with.
    """
    given = env_kwargs_of(config)
    known = accepted_kwargs(config.env)
    defaults: dict[str, Any] = {"split": split}
    if config.model not in (None, TINY):
        defaults |= _of_model(model_folder(config.model), given)
    usable = {name: value for name, value in defaults.items() if known is None or name in known}
    for name in given:
        if known is not None and name not in known:
            raise ValueError(
                f"environment {config.env} takes no option {name!r}. It takes: "
                f"{', '.join(sorted(known))}"
            )
    env = gym.make(config.env, disable_env_checker=True, **(usable | given)).unwrapped
    needed = ("snapshot", "restore", "tokenizer", "stop_checker", "remaining", "segmenter")
    missing = [name for name in needed if inspect.getattr_static(env, name, None) is None]
    if missing:
        raise ValueError(
            f"environment {config.env} lacks {', '.join(missing)}; an agent needs them. Subclass "
            "lang_env.env.TokenEnv, or provide them."
        )
    return env


def _of_model(folder: str, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the env options that follow from the model: tokenizer, context, stop tokens."""
    from transformers import AutoConfig, GenerationConfig

    from lang_env.tokenizers import load_tokenizer

    try:
        context = getattr(AutoConfig.from_pretrained(folder), "max_position_embeddings", None)
    except Exception as error:  # transformers raises what its many parts raise
        reason = (str(error).splitlines() or [""])[0]
        raise unloadable(folder, f"{type(error).__name__}: {reason}") from error
    tokenizer = load_tokenizer(given.get("tokenizer", folder))
    try:
        listed = GenerationConfig.from_pretrained(folder).eos_token_id
    except OSError:
        listed = None
    stops = {tokenizer.eos_token_id, *(listed if isinstance(listed, list) else [listed])}
    return {
        "tokenizer": tokenizer,
        "max_length": context,
        "stop_token_ids": sorted(stop for stop in stops if stop is not None),
    }


def check_lengths(env: Any, context: int | None, buffer: int) -> None:
    """Checks that answers fit the model, and the overlong buffer the answers.

    Args:
        env: Its ``max_prompt_tokens``, ``max_new_tokens`` and ``max_length`` are read, if it has
            them.
        context: Tokens that the model can attend to; None if unknown.
        buffer: The last tokens of the budget that cost reward.

    Raises:
        ValueError: Something does not fit; says what to lower.
    """
    budget = getattr(env, "max_new_tokens", None)
    if budget is not None and buffer > budget:
        raise ValueError(
            f"overlong_buffer_len must be at most the answer budget, {budget} tokens, got "
            f"{buffer}. Lower it, or raise --max_new_tokens."
        )
    needed = getattr(env, "max_prompt_tokens", 0) + getattr(env, "max_new_tokens", 0)
    if context is not None and getattr(env, "max_length", None) is None and needed > context:
        raise ValueError(
            f"prompt and answer may take {needed} tokens, but the model's context is "
            f"{context}. Lower --max_prompt_tokens or --max_new_tokens."
        )


class ProblemCursor:
    """Draws the problems of each iteration without repetition inside it.

    A finite set is walked in a shuffled order, epoch after epoch; a generator is drawn from, and a
    problem that the iteration already has is drawn again. What an iteration gets depends on seed
    and iteration only.
    """

    def __init__(self, env: Any, num_prompts: int, seed: int) -> None:
        """Stores the environment.

        Raises:
            ValueError: The set has fewer problems than an iteration needs.
        """
        self.env, self.num_prompts, self.seed = env, num_prompts, seed
        self.indices = None if getattr(env, "num_problems", None) is None else valid_indices(env)
        if self.indices is not None and len(self.indices) < num_prompts:
            raise ValueError(
                f"an iteration draws {num_prompts} different problems, but the environment has "
                f"only {len(self.indices)}. Lower --num_prompts."
            )

    def starts(self, iteration: int) -> Iterator[Start]:
        """Yields the start states of iteration ``iteration`` (from 1), one a prompt slot."""
        if self.indices is not None:
            for slot, index in enumerate(self._indices_of(iteration)):
                yield start_of(self.env, slot, index=index)
            return
        seen: set[str] = set()
        for slot in range(self.num_prompts):
            start = self._drawn(iteration, slot, seen)
            if start is None:
                raise ValueError(
                    f"the environment gave no {slot + 1} different problems in {_MAX_DRAWS} draws. "
                    "Lower --num_prompts."
                )
            yield start

    def more(self, iteration: int, seen: set[str], slot: int) -> Iterator[Start]:
        """Yields the start states of problems that an iteration has not had, until there are none.

        Args:
            iteration: From 1.
            seen: Ids of the problems it has had; grows.
            slot: Prompt slot of the first one; no slot may be used twice in an iteration.
        """
        if self.indices is None:
            while (start := self._drawn(iteration, slot, seen)) is not None:
                yield start
                slot += 1
            return
        for place in generator(self.seed, iteration, "more").permutation(len(self.indices)):
            start = start_of(self.env, slot, index=self.indices[int(place)])
            if start.problem_id not in seen:
                seen.add(start.problem_id)
                yield start
                slot += 1

    def _drawn(self, iteration: int, slot: int, seen: set[str]) -> Start | None:
        """Draws a problem that is not in ``seen`` and adds it; None if too many draws were."""
        for draw in range(_MAX_DRAWS):
            key = stream_key(self.seed, iteration, "problem", slot, draw)
            start = start_of(self.env, slot, seed=key >> 33)
            if start.problem_id not in seen:
                seen.add(start.problem_id)
                return start
        return None

    def _indices_of(self, iteration: int) -> list[int]:
        """An iteration never crosses an epoch, so that no problem occurs in it twice."""
        assert self.indices is not None
        per_epoch = len(self.indices) // self.num_prompts
        epoch, place = divmod(iteration - 1, per_epoch)
        order = generator(self.seed, "epoch", epoch).permutation(len(self.indices))
        chosen = order[place * self.num_prompts : (place + 1) * self.num_prompts]
        return [self.indices[int(number)] for number in chosen]


def valid_indices(env: Any) -> list[int]:
    """Returns the indices that ``reset(options={"index": i})`` takes, of a finite set."""
    listed = getattr(env, "valid_indices", None)
    return list(range(env.num_problems)) if listed is None else list(listed)
