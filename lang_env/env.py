"""Math reasoning as a Gymnasium environment: one token an action, any state can be restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from rich.console import Console

from graders import Grade
from lang_env.build import build_mdp
from lang_env.episode import Episode
from lang_env.problem import Problem
from lang_env.prompts import PromptTemplate
from lang_env.rendering import draw_text
from lang_env.segmenters import Segmenter
from lang_env.shell import (
    MDPAttributes,
    Observation,
    checked_render_mode,
    draw,
    observation_space,
)
from lang_env.snapshot import Snapshot
from lang_env.sources import Problems
from lang_env.tokenizers import Tokenizer

Step = tuple[Observation, float, bool, bool, dict[str, Any]]
"""Observation, reward, terminated, truncated, info."""


class TokenEnv(MDPAttributes, gym.Env[Observation, np.int64]):
    """Write the answer to a math problem, one token an action.

    The observation is ``{"tokens": int32 [L], "length": int32 [1]}``, right padded, with
    L = max_prompt_tokens + max_new_tokens. The action is an id of the tokenizer. The episode is
    terminated by a stop token or stop string, and truncated where the budget ends. The reward is
    0.0 before the last step; there it is the grader's score, or one of the two rewards below.

    ``info`` has the same keys at every step: ``problem_id``, ``num_tokens`` (of the response),
    ``score`` (the last reward), ``verdict`` ("correct", "wrong", "undecided", "unfinished"),
    ``extracted`` (the answer that was found) and ``is_success``; empty or zero before the end.

    Behind ``gym.make``, call ``env.unwrapped.snapshot()`` and
    ``env.reset(options={"snapshot": s})``: a wrapper forwards no other method, and its own state is
    not part of a snapshot.

    >>> env = TokenEnv([Problem("p", "6*7?", "42")], max_prompt_tokens=16, max_new_tokens=16)
    >>> observation, info = env.reset(seed=0)
    >>> state = env.snapshot()
    >>> answer = [*env.tokenizer.encode("#### 42"), env.tokenizer.eos_token_id]
    >>> _, reward, terminated, truncated, info = env.play(answer)
    >>> reward, terminated, truncated, info["verdict"]
    (1.0, True, False, 'correct')
    >>> observation, info = env.restore(state)
    >>> env.step(answer[0])[1]
    0.0
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - declared this way by Gymnasium
        "render_modes": ["human", "ansi"],
        "render_fps": 4,
    }

    def __init__(
        self,
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
        render_mode: str | None = None,
    ) -> None:
        """Builds the environment; names are looked up here.

        Args:
            problems: A source ("ledger", "word", "gsm8k", ...), a list of sources to mix,
                ``"pkg.mod:attr"``, a ProblemSet or a sequence of Problem.
            data: Local folder or file of a source that reads one.
            split: "train", "validation" or "test".
            tokenizer: "builtin", a folder or hub name, or a Tokenizer.
            grader: "gsm8k", "exact", ..., ``"pkg.mod:attr"`` or a callable
                ``(completion, answer) -> Grade | float``; None: the source's own, else "gsm8k".
            prompt: "plain", "gsm8k", "math", a JSON file, ``"pkg.mod:attr"``, a mapping or a
                PromptTemplate.
            chat_template: Whether the tokenizer's chat template is applied to the prompt, or
                options for it, such as ``{"enable_thinking": False}``; None: as the prompt says.
            segmenter: "newline", "sentences", "fixed_tokens:16", ..., ``"pkg.mod:attr"`` or a
                Segmenter.
            max_prompt_tokens: Longest prompt; longer ones are left out of a finite source. None:
                what the procedural source's longest question needs, 512 for other sources.
            max_new_tokens: Longest response. None: what its longest worked solution needs, or 512.
            max_length: Longest prompt and response together (the model's context); None: no limit.
            stop_token_ids: Ids that end a response; None: the tokenizer's EOS. In a chat the token
                that ends a turn is always one.
            stop: Strings that end a response; None: those of the prompt template.
            unfinished_reward: Reward of a truncated response.
            undecided_reward: Reward where the grader could not decide.
            level: Difficulty, for procedural sources.
            levels: Levels of a data set to keep, such as [1, 2]; None: all.
            subjects: Subjects of a data set to keep; None: all.
            partition: "paper" or "original", how MATH is split.
            fields: Columns of a JSON-lines file, such as ``{"question": "input"}``.
            holdout: Share of the training problems held out for validation, where the data names
                no such part.
            holdout_seed: Another seed holds out others.
            curriculum: True, or options of ``lang_env.curriculum.Curriculum``: problems are drawn
                at a level that follows recent success. Those asked for by index stay at ``level``.
            render_mode: "human" (drawn at every reset, step and play), "ansi" or None.

        Raises:
            ValueError: A name is unknown or a value out of range.
        """
        self.mdp = build_mdp(
            problems,
            data=data,
            split=split,
            tokenizer=tokenizer,
            grader=grader,
            prompt=prompt,
            chat_template=chat_template,
            segmenter=segmenter,
            max_prompt_tokens=max_prompt_tokens,
            max_new_tokens=max_new_tokens,
            max_length=max_length,
            stop_token_ids=stop_token_ids,
            stop=stop,
            unfinished_reward=unfinished_reward,
            undecided_reward=undecided_reward,
            level=level,
            levels=levels,
            subjects=subjects,
            partition=partition,
            fields=fields,
            holdout=holdout,
            holdout_seed=holdout_seed,
            curriculum=curriculum,
        )
        self.render_mode = checked_render_mode(render_mode, self.metadata["render_modes"])
        self.observation_space = observation_space(self.mdp)
        self.action_space = spaces.Discrete(self.mdp.vocab_size)
        self._episode: Episode | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode.

        Args:
            seed: Seeds ``np_random``; None goes on with it.
            options: None to draw a problem, or one of ``{"index": i}`` (the source's own index),
                ``{"problem": Problem(...)}`` and ``{"snapshot": Snapshot}``. A snapshot that
                includes a random state sets it, after ``seed``.

        Raises:
            ValueError: An unknown option, or one that does not fit this environment.
            IndexError: No problem has that index.
        """
        super().reset(seed=seed)
        return self._begun(self.mdp.begin(self._episode, self.np_random, options))

    def step(self, action: np.int64 | int) -> Step:
        """Appends one token.

        Raises:
            ValueError: The action is no id of the tokenizer.
            gymnasium.error.ResetNeeded: There is no running episode.
        """
        episode = self._started()
        token, outcome = self.mdp.judge(episode, action)
        reward = episode.apply((token,), outcome)
        return self._stepped(episode, reward)

    def play(self, tokens: Sequence[int]) -> Step:
        """Steps through ``tokens``: the last step's result, with the sum of the rewards.

        Args:
            tokens: At least one id, none beyond the end of the episode.

        Raises:
            ValueError: No tokens, one that is no id, or some beyond the end; the episode stays
                where it was.
            gymnasium.error.ResetNeeded: There is no running episode.
        """
        episode = self._started()
        reward = episode.apply(*self.mdp.judge_all(episode, tokens))
        return self._stepped(episode, reward)

    def snapshot(self, include_rng: bool = False) -> Snapshot:
        """Returns the current state as a value.

        Args:
            include_rng: Whether ``restore`` shall also set the random state, from which later
                problems are drawn.

        Raises:
            gymnasium.error.ResetNeeded: Nothing was reset yet.
        """
        return self.mdp.snapshot(self._started(), self.np_random if include_rng else None)

    def restore(self, snapshot: Snapshot) -> tuple[Observation, dict[str, Any]]:
        """Goes to a state, from this environment or another, running or finished.

        Raises:
            ValueError: The snapshot does not fit this environment.
        """
        return self._begun(self.mdp.restore(self._episode, snapshot, self.np_random))

    @property
    def problem(self) -> Problem:
        """The problem of the current episode."""
        return self._started().problem

    @property
    def prompt_tokens(self) -> list[int]:
        """Prompt ids of the current episode."""
        return self._started().prompt.tolist()

    @property
    def response_tokens(self) -> list[int]:
        """Response ids of the current episode so far."""
        return self._started().response.tolist()

    @property
    def remaining(self) -> int:
        """Tokens that this episode may still have; 0 when it has ended or none has begun."""
        return 0 if self._episode is None else self._episode.remaining

    def render(self) -> str | None:
        """Returns a drawing for "ansi"; "human" is drawn at every reset, step and play already."""
        if self.render_mode != "ansi":
            return None
        return draw_text(draw(self.mdp, self._started()))

    def _started(self) -> Episode:
        if self._episode is None:
            raise ResetNeeded("call reset() before anything else")
        return self._episode

    def _observe(self, episode: Episode) -> Observation:
        return {
            "tokens": episode.padded(self.mdp.padding),
            "length": np.array((episode.num_tokens,), np.int32),
        }

    def _begun(self, episode: Episode) -> tuple[Observation, dict[str, Any]]:
        self._episode = episode
        if self.render_mode == "human":
            Console().print(draw(self.mdp, episode))
        return self._observe(episode), episode.info()

    def _stepped(self, episode: Episode, reward: float) -> Step:
        self.mdp.count_success(episode)
        outcome = episode.outcome
        terminated = outcome is not None and outcome.terminated
        truncated = outcome is not None and outcome.truncated
        if self.render_mode == "human":
            Console().print(draw(self.mdp, episode))
        return self._observe(episode), reward, terminated, truncated, episode.info()
