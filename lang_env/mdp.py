"""Math reasoning as a Markov decision process over tokens.

A state is the tokens so far, an action is the next token, and the transition appends it.
``TokenMDP`` holds the fixed part and ``Episode`` the mutable part; ``TokenEnv`` and
``TokenVectorEnv`` are thin shells over the two, so that they agree by construction.
"""

from __future__ import annotations

import json
import operator
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
from gymnasium.error import ResetNeeded

from graders import Grader, Verdict
from graders.resolve import nearest
from lang_env.curriculum import Curriculum
from lang_env.episode import Episode
from lang_env.pool import ProblemPool
from lang_env.problem import Problem
from lang_env.prompts import PromptTemplate
from lang_env.segmenters import Segmenter
from lang_env.snapshot import Outcome, Snapshot
from lang_env.stopping import StopChecker
from lang_env.tokenizers import Tokenizer

RESET_OPTIONS = ("index", "problem", "snapshot")
"""What ``reset(options=...)`` takes, at most one of them."""


@dataclass(frozen=True, slots=True)
class TokenMDP:
    """The fixed part of an environment; see ``TokenEnv`` for what each value means.

    ``padding`` is an empty observation: L = max_prompt_tokens + max_new_tokens times the id that
    fills unused places.
    """

    pool: ProblemPool
    tokenizer: Tokenizer
    grader: Grader
    segmenter: Segmenter
    stop_checker: StopChecker
    max_prompt_tokens: int
    max_new_tokens: int
    max_length: int | None
    unfinished_reward: float
    undecided_reward: float
    split: str
    padding: array[int]

    @property
    def prompt(self) -> PromptTemplate:
        """The prompt template."""
        return self.pool.prompt

    @property
    def curriculum(self) -> Curriculum | None:
        """What chooses the level of drawn problems, or None."""
        found: Curriculum | None = getattr(self.pool.problems, "curriculum", None)
        return found

    @property
    def vocab_size(self) -> int:
        """V: every id is below it."""
        return len(self.tokenizer)

    def budget(self, prompt_length: int) -> int:
        """Returns how many tokens a response to a prompt of this length may have."""
        if self.max_length is None:
            return self.max_new_tokens
        return min(self.max_new_tokens, self.max_length - prompt_length)

    def begin(
        self, episode: Episode | None, rng: np.random.Generator, options: Mapping[str, Any] | None
    ) -> Episode:
        """Begins an episode as ``reset`` does.

        Args:
            episode: The one to reuse, or None.
            rng: Draws the problem if no option names it.
            options: At most one of "index", "problem" and "snapshot".

        Raises:
            ValueError: Unknown or contradicting options, or one that does not fit.
            IndexError: No problem has that index.
        """
        name, value = _the_option(options)
        if name == "snapshot":
            return self.restore(episode, value, rng)
        if name == "index":
            problem, prompt = self.pool.by_index(_as_index(value, "index"))
        elif name == "problem":
            if not isinstance(value, Problem):
                raise ValueError(f"option 'problem' takes a Problem, got {value!r:.80}")
            problem, prompt = value, self.pool.encode(value)
        else:
            problem, prompt = self.pool.draw(rng)
        budget = self.budget(len(prompt))
        if episode is None:
            return Episode(problem, prompt, budget, drawn=not name)
        episode.begin(problem, prompt, budget, drawn=not name)
        return episode

    def judge(self, episode: Episode, action: SupportsIndex) -> tuple[int, Outcome | None]:
        """Decides what one more token does; ``episode.apply`` then does it.

        Returns:
            The token, and how the episode ends by it, or None if it goes on.

        Raises:
            ValueError: The action is no id of the tokenizer.
            ResetNeeded: The episode has ended.
        """
        if episode.outcome is not None:
            raise _finished(episode)
        token = _as_index(action, "action")
        if not 0 <= token < self.vocab_size:
            raise self._not_an_id(token)
        checker = self.stop_checker
        reason = None
        if checker.may_stop(token):
            reason = checker.finish([*episode.response, token])
        if reason is None and episode.length + 1 < episode.budget:
            return token, None
        return token, self._grade(episode, (token,), reason)

    def judge_all(
        self, episode: Episode, tokens: Sequence[int]
    ) -> tuple[array[int], Outcome | None]:
        """Decides what more tokens do, at least one; ``episode.apply`` then does it.

        Returns:
            The tokens, and how the episode ends by the last, or None if it goes on.

        Raises:
            ValueError: No tokens, one that is no id, or some beyond the end of the episode.
            ResetNeeded: The episode has ended.
        """
        if episode.outcome is not None:
            raise _finished(episode)
        ids = self._as_ids(tokens)
        room = episode.budget - episode.length
        end = self.stop_checker.first_end(episode.response, ids if len(ids) <= room else ids[:room])
        if end is None and len(ids) < room:
            return ids, None
        count, reason = (room, None) if end is None else end
        if len(ids) > count:
            raise ValueError(
                f"the episode ends after {count} of the {len(ids)} tokens "
                f"({reason or 'out of budget'}); play no token beyond its end"
            )
        return ids, self._grade(episode, ids, reason)

    def count_success(self, episode: Episode) -> None:
        """Tells the curriculum, if there is one, how an episode ended that began with a draw."""
        if episode.outcome is not None and episode.drawn and self.curriculum is not None:
            success = float(episode.outcome.verdict == Verdict.CORRECT)
            self.curriculum.record(episode.problem.level, success)

    def snapshot(self, episode: Episode, rng: np.random.Generator | None = None) -> Snapshot:
        """Returns the state as a value, in constant time; ``rng``: whose state to include."""
        state = "" if rng is None else json.dumps(rng.bit_generator.state, sort_keys=True)
        return Snapshot(
            episode.problem,
            episode.prompt,
            episode.history,
            episode.length,
            episode.outcome,
            self.tokenizer.fingerprint,
            self.vocab_size,
            state,
        )

    def restore(
        self, episode: Episode | None, snapshot: Snapshot, rng: np.random.Generator
    ) -> Episode:
        """Returns an episode in the snapshot's state; ``rng`` is set if its state was included.

        Raises:
            ValueError: The snapshot does not fit this environment.
        """
        budget = self.check_fit(snapshot)
        if snapshot.rng_state:
            _set_state(rng, snapshot.rng_state)
        if episode is None:
            episode = Episode(snapshot.problem, snapshot._prompt, budget)
        episode.load(snapshot, budget)
        return episode

    def check_fit(self, snapshot: Snapshot) -> int:
        """Returns the budget of a snapshot's episode here.

        Raises:
            ValueError: The snapshot does not fit this environment.
        """
        if not isinstance(snapshot, Snapshot):
            raise ValueError(f"a Snapshot is needed, got {snapshot!r:.80}")
        prompt, length = len(snapshot._prompt), snapshot.num_tokens
        if snapshot.fingerprint != self.tokenizer.fingerprint:
            raise ValueError(
                f"this snapshot's ids belong to another tokenizer (vocabulary hash "
                f"{snapshot.fingerprint!r:.40}, here {self.tokenizer.fingerprint!r} of "
                f"{self.tokenizer.name!r}); restore it where that tokenizer is used"
            )
        if snapshot.id_bound > self.vocab_size:
            raise self._not_an_id(snapshot.id_bound - 1)
        budget = self.budget(prompt)
        if prompt > self.max_prompt_tokens or length > budget:
            raise ValueError(
                f"this snapshot has {prompt} prompt and {length} response tokens; this environment "
                f"takes {self.max_prompt_tokens} (max_prompt_tokens) and {max(budget, 0)} "
                f"(max_new_tokens={self.max_new_tokens}, max_length={self.max_length})"
            )
        if snapshot.outcome is None and length == budget:
            raise ValueError(
                f"this snapshot is not finished, and its {length} response tokens leave no budget "
                f"here (max_new_tokens={self.max_new_tokens}, max_length={self.max_length})"
            )
        if snapshot.rng_state:
            _set_state(np.random.default_rng(0), snapshot.rng_state)
        return budget

    def _grade(self, episode: Episode, tokens: Sequence[int], reason: str | None) -> Outcome:
        """Returns how the episode ends after ``tokens``; ``reason`` None: by its budget."""
        if reason is None:
            return Outcome(False, True, self.unfinished_reward, "unfinished")
        text = self.stop_checker.text([*episode.response, *tokens], reason)
        try:
            by_problem = getattr(self.grader, "grade_problem", None)
            if by_problem is not None:
                grade = by_problem(text, episode.problem)
            else:
                grade = self.grader(text, episode.problem.answer)
        except Exception as error:
            raise RuntimeError(
                f"the grader failed on an answer to problem {episode.problem.id!r}: "
                f"{type(error).__name__}: {error}"
            ) from error
        undecided = grade.verdict == Verdict.UNDECIDED
        score = self.undecided_reward if undecided else float(grade.score)
        return Outcome(True, False, score, str(grade.verdict), grade.extracted)

    def _as_ids(self, tokens: Sequence[int]) -> array[int]:
        try:
            ids = array("i", tokens if isinstance(tokens, (list, tuple)) else list(tokens))
        except (TypeError, OverflowError) as error:
            raise ValueError(f"tokens must be ids of the tokenizer: {error}") from error
        if not ids:
            raise ValueError("play needs at least one token, got none")
        for extreme in (min(ids), max(ids)):
            if not 0 <= extreme < self.vocab_size:
                raise self._not_an_id(extreme)
        return ids

    def _not_an_id(self, token: int) -> ValueError:
        return ValueError(
            f"token {token} is outside the vocabulary of tokenizer {self.tokenizer.name!r}, whose "
            f"ids are 0 to {self.vocab_size - 1}; mask larger ids of the model before sampling"
        )


def _the_option(options: Mapping[str, Any] | None) -> tuple[str, Any]:
    if not options:
        return "", None
    for name in options:
        if name not in RESET_OPTIONS:
            raise ValueError(
                f"unknown reset option {name!r}.{nearest(str(name), RESET_OPTIONS)} Known: "
                f"{', '.join(RESET_OPTIONS)}"
            )
    if len(options) > 1:
        raise ValueError(f"give one reset option, got {' and '.join(sorted(options))}")
    return next(iter(options.items()))


def _as_index(value: SupportsIndex, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError as error:
        raise ValueError(f"{name} must be an integer, got {value!r:.60}") from error


def _finished(episode: Episode) -> ResetNeeded:
    return ResetNeeded(
        f"the episode of problem {episode.problem.id!r} ended after {episode.length} tokens; call "
        "reset(), or restore() a snapshot, before the next token"
    )


def _set_state(rng: np.random.Generator, text: str) -> None:
    try:
        rng.bit_generator.state = json.loads(text)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ValueError(f"the snapshot's random state cannot be used here: {error!r}") from error
