"""Many episodes side by side: one [N, L] buffer, no process and no wrapper between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from rich.console import Console

from graders.resolve import nearest
from lang_env.build import build_mdp
from lang_env.episode import Episode
from lang_env.mdp import RESET_OPTIONS
from lang_env.rendering import draw_text
from lang_env.shell import (
    MDPAttributes,
    Observation,
    checked_render_mode,
    draw,
    observation_space,
)
from lang_env.snapshot import Snapshot
from lang_env.sources import Problems

VectorStep = tuple[
    Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
]
"""Observation, rewards [N], terminations [N], truncations [N], infos."""

_MASK = "reset_mask"
_INFO_TYPES: dict[str, type] = {
    "problem_id": object,
    "num_tokens": int,
    "score": float,
    "verdict": object,
    "extracted": object,
    "is_success": bool,
}


class TokenVectorEnv(MDPAttributes, gym.vector.VectorEnv[Observation, NDArray[np.int64], Any]):
    """N ``TokenEnv`` in one: the same transitions, batched observations.

    The observation is ``{"tokens": int32 [N, L], "length": int32 [N, 1]}``. Nothing resets itself
    (``AutoresetMode.DISABLED``): a finished episode waits for ``reset`` with a ``reset_mask``.
    ``infos`` holds an array [N] for each key of ``TokenEnv``'s info, and under ``_key`` the mask
    of the episodes that it is about.

    >>> from lang_env.problem import Problem
    >>> problems = [Problem("p", "6*7?", "42")]
    >>> envs = TokenVectorEnv(3, problems=problems, max_prompt_tokens=16, max_new_tokens=16)
    >>> _ = envs.reset(seed=0)
    >>> state = envs.snapshot(0)
    >>> answer = [*envs.tokenizer.encode("#### 42"), envs.tokenizer.eos_token_id]
    >>> envs.play([answer, [], answer[:2]])[1]
    array([1., 0., 0.])
    >>> envs.restore({0: state})[0]["length"].ravel()
    array([6, 6, 8], dtype=int32)
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - declared this way by Gymnasium
        "render_modes": ["human", "ansi"],
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.DISABLED,
    }

    def __init__(
        self, num_envs: int, *, problems: Problems, render_mode: str | None = None, **options: Any
    ) -> None:
        """Builds the environment.

        Args:
            num_envs: N, how many episodes.
            problems: As in ``TokenEnv``.
            render_mode: "human", "ansi" or None.
            options: All others of ``TokenEnv``.

        Raises:
            ValueError: A name is unknown or a value out of range.
        """
        if num_envs < 1:
            raise ValueError(f"num_envs must be >= 1, got {num_envs}")
        self.num_envs = num_envs
        self.mdp = build_mdp(problems, **options)
        self.render_mode = checked_render_mode(render_mode, self.metadata["render_modes"])
        self.single_observation_space = observation_space(self.mdp)
        self.single_action_space = spaces.Discrete(self.mdp.vocab_size)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        self._episodes: list[Episode | None] = [None] * num_envs
        self._rows = np.tile(np.array(self.mdp.padding, np.int32), (num_envs, 1))
        self._lengths = np.zeros((num_envs, 1), np.int32)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins episodes.

        Args:
            seed: An int seeds episode i with ``seed + i``, a sequence of length N each with its
                own; None goes on.
            options: ``{"reset_mask": bool [N]}`` resets the marked episodes only. "index",
                "problem" and "snapshot" are as in ``TokenEnv``, for all episodes, or a list or
                array of length N with one for each (None: draw).

        Raises:
            TypeError: The mask is no array of bool.
            ValueError: An option or seed does not fit; nothing was reset.
            IndexError: No problem has that index; nothing was reset.
        """
        chosen, each = self._read_options(options)
        seeds = self._read_seeds(seed)
        rngs = {i: self._seeded(i, seeds[i]) for i in chosen}
        begun = {i: self.mdp.begin(None, rngs[i], each[i]) for i in chosen}
        for i in chosen:
            self._rngs[i], self._episodes[i] = rngs[i], begun[i]
        self._write(chosen)
        return self._observed(chosen)

    def step(self, actions: Sequence[int] | NDArray[Any]) -> VectorStep:
        """Appends one token to each episode.

        Args:
            actions: Ids, shape [N].

        Raises:
            ValueError: Not N ids of the tokenizer.
            gymnasium.error.ResetNeeded: An episode has ended. No episode was changed.
        """
        if len(actions) != self.num_envs:
            raise ValueError(f"step needs {self.num_envs} actions, got {len(actions)}")
        episodes = [self._episode(i) for i in range(self.num_envs)]
        judged = [
            self.mdp.judge(episode, action)
            for episode, action in zip(episodes, np.asarray(actions).tolist(), strict=True)
        ]
        rewards = [
            episode.apply((token,), outcome)
            for episode, (token, outcome) in zip(episodes, judged, strict=True)
        ]
        self._rows[np.arange(self.num_envs), self._lengths[:, 0]] = [token for token, _ in judged]
        self._lengths += 1
        return self._stepped(range(self.num_envs), np.array(rewards))

    def play(self, tokens: Sequence[Sequence[int]]) -> VectorStep:
        """Plays a list of tokens in each episode; an empty one leaves its episode alone.

        Rewards of episodes that were left alone are 0.0, their flags stay, and ``infos`` does not
        cover them.

        Raises:
            ValueError: Not N lists of ids, or some beyond the end of an episode.
            gymnasium.error.ResetNeeded: An episode has ended. No episode was changed.
        """
        if len(tokens) != self.num_envs:
            raise ValueError(f"play needs {self.num_envs} lists of tokens, got {len(tokens)}")
        chosen = [i for i, own in enumerate(tokens) if len(own)]
        judged = [(i, *self.mdp.judge_all(self._episode(i), tokens[i])) for i in chosen]
        rewards = np.zeros(self.num_envs)
        for i, ids, outcome in judged:
            rewards[i] = self._episode(i).apply(ids, outcome)
        self._write(chosen)
        return self._stepped(chosen, rewards)

    def snapshot(self, i: int, include_rng: bool = False) -> Snapshot:
        """Returns the state of episode ``i`` as a value."""
        return self.mdp.snapshot(self._episode(i), self._rng(i) if include_rng else None)

    def restore(self, snapshots: Mapping[int, Snapshot]) -> tuple[Observation, dict[str, Any]]:
        """Puts some episodes into states; the others stay as they are.

        Args:
            snapshots: Episode number -> state. One state may be given to many.

        Raises:
            ValueError: A snapshot does not fit, or there is no such episode; no episode was
                changed.
        """
        for i in snapshots:
            if not 0 <= i < self.num_envs:
                raise ValueError(f"there is no episode {i!r}, only 0 to {self.num_envs - 1}")
        for state in snapshots.values():
            self.mdp.check_fit(state)
        for i, state in snapshots.items():
            self._episodes[i] = self.mdp.restore(self._episodes[i], state, self._rng(i))
        chosen = sorted(snapshots)
        self._write(chosen)
        return self._observed(chosen)

    @property
    def remaining(self) -> NDArray[np.int64]:
        """Tokens that each episode may still have, int64 [N]; 0 if it has ended or not begun."""
        return np.array([0 if e is None else e.remaining for e in self._episodes], np.int64)

    @property  # type: ignore[misc]  # Gymnasium's own vector envs narrow it this way too
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The random generator of each episode."""
        return tuple(self._rng(i) for i in range(self.num_envs))

    def render(self) -> tuple[str, ...] | None:
        """Returns N drawings for "ansi"; "human" is drawn at every call already."""
        if self.render_mode != "ansi":
            return None
        return tuple(draw_text(draw(self.mdp, self._episode(i))) for i in range(self.num_envs))

    def _episode(self, i: int) -> Episode:
        episode = self._episodes[i]
        if episode is None:
            raise ResetNeeded("call reset() before anything else")
        return episode

    def _rng(self, i: int) -> np.random.Generator:
        rng = self._rngs[i]
        if rng is None:
            rng = self._rngs[i] = seeding.np_random()[0]
        return rng

    def _seeded(self, i: int, seed: int | None) -> np.random.Generator:
        return self._rng(i) if seed is None else seeding.np_random(seed)[0]

    def _write(self, chosen: Iterable[int]) -> None:
        """Brings the rows of these episodes up to date."""
        for i in chosen:
            episode = self._episode(i)
            self._rows[i], self._lengths[i] = episode.padded(self.mdp.padding), episode.num_tokens

    def _observed(self, chosen: Sequence[int]) -> tuple[Observation, dict[str, Any]]:
        if self.render_mode == "human":
            for i in chosen:
                Console().print(draw(self.mdp, self._episode(i)))
        observation = {"tokens": self._rows.copy(), "length": self._lengths.copy()}
        return observation, self._infos(chosen)

    def _stepped(self, chosen: Sequence[int], rewards: NDArray[np.float64]) -> VectorStep:
        for i in chosen:
            self.mdp.count_success(self._episode(i))
        observation, infos = self._observed(chosen)
        outcomes = [self._episode(i).outcome for i in range(self.num_envs)]
        terminations = np.array([o is not None and o.terminated for o in outcomes], np.bool_)
        truncations = np.array([o is not None and o.truncated for o in outcomes], np.bool_)
        return observation, rewards, terminations, truncations, infos

    def _infos(self, chosen: Sequence[int]) -> dict[str, Any]:
        """Returns what ``VectorEnv._add_info`` would make of the infos, a column at a time."""
        rows = [self._episode(i).info() for i in chosen]
        infos: dict[str, Any] = {}
        for key, kind in _INFO_TYPES.items():
            empty = None if kind is object else kind()
            column: NDArray[Any] = np.full(self.num_envs, empty, dtype=kind)
            mask = np.zeros(self.num_envs, np.bool_)
            if rows:
                column[chosen] = np.array([row[key] for row in rows], dtype=kind)
                mask[chosen] = True
            infos[key], infos[f"_{key}"] = column, mask
        return infos

    def _read_seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int):
            return [seed + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"{self.num_envs} episodes need {self.num_envs} seeds, got {seed!r}")
        return list(seed)

    def _read_options(
        self, options: Mapping[str, Any] | None
    ) -> tuple[list[int], list[dict[str, Any]]]:
        """Returns which episodes to reset, and the options of each of the N."""
        options = dict(options or {})
        mask = options.pop(_MASK, None)
        each: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for name, value in options.items():
            if name not in RESET_OPTIONS:
                known = (_MASK, *RESET_OPTIONS)
                raise ValueError(
                    f"unknown reset option {name!r}.{nearest(str(name), known)} Known: "
                    f"{', '.join(known)}"
                )
            per_episode = isinstance(value, (list, tuple, np.ndarray))
            values = list(value) if per_episode else [value] * self.num_envs
            if len(values) != self.num_envs:
                raise ValueError(
                    f"option {name!r} needs a list of {self.num_envs}, got {len(values)}"
                )
            for place, own in zip(each, values, strict=True):
                if own is not None:
                    place[name] = own
        if mask is None:
            return list(range(self.num_envs)), each
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            raise TypeError(f"option {_MASK!r} must be an array of bool, got {mask!r:.80}")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"option {_MASK!r} must have shape ({self.num_envs},) and mark an episode, "
                f"got {mask!r:.80}"
            )
        return np.flatnonzero(mask).tolist(), each
