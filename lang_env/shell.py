"""What the single and the vectorised environment share: attributes, spaces, drawings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from rich.console import RenderableType

from lang_env.episode import Episode
from lang_env.mdp import TokenMDP
from lang_env.prompts import PromptTemplate
from lang_env.rendering import draw_episode
from lang_env.segmenters import Segmenter, split_at
from lang_env.snapshot import Snapshot
from lang_env.stopping import StopChecker
from lang_env.tokenizers import Tokenizer

Observation = dict[str, NDArray[np.int32]]
"""``tokens`` [L], right padded, and ``length`` [1]."""


class MDPAttributes:
    """What engines and agents read from an environment, single or vectorised.

    Attributes:
        mdp: The fixed part of the environment.
    """

    mdp: TokenMDP

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the ids belong to."""
        return self.mdp.tokenizer

    @property
    def prompt(self) -> PromptTemplate:
        """The prompt template."""
        return self.mdp.prompt

    @property
    def segmenter(self) -> Segmenter:
        """Where a reasoning step ends."""
        return self.mdp.segmenter

    @property
    def stop_checker(self) -> StopChecker:
        """The stop rules, for engines."""
        return self.mdp.stop_checker

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Ids that end a response."""
        return self.mdp.stop_checker.stop_token_ids

    @property
    def stop(self) -> tuple[str, ...]:
        """Strings that end a response."""
        return self.mdp.stop_checker.stop

    @property
    def max_prompt_tokens(self) -> int:
        """Longest prompt."""
        return self.mdp.max_prompt_tokens

    @property
    def max_new_tokens(self) -> int:
        """Longest response."""
        return self.mdp.max_new_tokens

    @property
    def max_length(self) -> int | None:
        """Longest prompt and response together, or None."""
        return self.mdp.max_length

    @property
    def split(self) -> str:
        """Part of the source that the problems are from."""
        return self.mdp.split

    @property
    def num_problems(self) -> int | None:
        """How many problems can be drawn, or None for a generator."""
        return self.mdp.pool.num_problems

    @property
    def num_filtered(self) -> int:
        """How many problems of a finite source were left out as their prompt is too long."""
        return self.mdp.pool.num_filtered

    @property
    def state_key(self) -> Callable[[Sequence[int]], Hashable | None] | None:
        """Names a state by its tokens (prompt and response), or None: the source has no names.

        States of one problem with the same name are the same to whoever values them: the number of
        tokens, and with it the budget, is part of it. A name of None means that only the tokens
        say which state it is.
        """
        of_text: Callable[[str], Hashable | None] | None
        of_text = getattr(self.mdp.pool.problems, "state_key", None)
        if of_text is None:
            return None
        decode = self.mdp.tokenizer.decode

        def name(tokens: Sequence[int]) -> Hashable | None:
            found = of_text(decode(list(tokens)))
            return None if found is None else (len(tokens), found)

        return name

    @property
    def valid_indices(self) -> tuple[int, ...] | None:
        """What ``reset(options={"index": i})`` takes, or None for a generator (any i >= 0)."""
        return self.mdp.pool.valid_indices

    def curriculum_state(self) -> dict[str, Any]:
        """Returns where the curriculum stands as JSON values: its level, and recent outcomes.

        Empty without a curriculum.
        """
        curriculum = self.mdp.curriculum
        return {} if curriculum is None else curriculum.state()

    def set_curriculum_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``curriculum_state`` returned, here or elsewhere.

        Raises:
            ValueError: It is no such state, or there is no curriculum here.
        """
        curriculum = self.mdp.curriculum
        if curriculum is not None:
            curriculum.load(state)
        elif state:
            raise ValueError("this environment has no curriculum; make it with curriculum=True")

    def record_success(self, snapshot: Snapshot, success: float) -> None:
        """Tells the curriculum, if there is one, how a drawn problem was answered.

        An episode that begins with a draw and is stepped or played to its end does so by itself.
        Who restores states, for example to answer one problem several times, calls this once a
        problem.

        Args:
            snapshot: A state of the problem's.
            success: The mean over its answers, from 0 to 1.
        """
        if self.mdp.curriculum is not None:
            self.mdp.curriculum.record(snapshot.problem.level, success)


def observation_space(mdp: TokenMDP) -> spaces.Space[Observation]:
    """Returns the observation space of one environment."""
    length = len(mdp.padding)
    space: spaces.Space[Any] = spaces.Dict(
        {
            "tokens": spaces.Box(0, mdp.vocab_size - 1, (length,), np.int32),
            "length": spaces.Box(0, length, (1,), np.int32),
        }
    )
    return space


def checked_render_mode(render_mode: str | None, known: Sequence[str]) -> str | None:
    """Returns the mode; raises ValueError for one that is not known."""
    if render_mode is not None and render_mode not in known:
        raise ValueError(f"render_mode must be None or one of {list(known)}, got {render_mode!r}")
    return render_mode


def draw(mdp: TokenMDP, episode: Episode) -> RenderableType:
    """Returns a drawing of an episode with its steps told apart."""
    response = episode.response.tolist()
    pieces = split_at(response, mdp.segmenter(response, mdp.tokenizer))
    steps = [mdp.tokenizer.decode(piece) for piece in pieces]
    return draw_episode(episode.problem, steps, episode.outcome, episode.length, episode.budget)
