"""A curriculum: the level of the problems follows recent success."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from graders.resolve import nearest
from lang_env.problem import Longest, Problem, ProblemSet

OPTIONS = ("levels", "start", "window", "rise", "fall")
"""What ``curriculum={...}`` takes."""


class Curriculum:
    """Goes up a level after much recent success and down after little.

    The rate is the mean of the last ``window`` outcomes at the present level; it decides when there
    are so many, and a new level starts with none. Outcomes at another level do not count, so that
    answers to problems drawn before a change do no harm. The same outcomes in the same order always
    give the same levels.

    >>> curriculum = Curriculum((1, 2, 3), window=2)
    >>> for success in (1.0, 1.0):
    ...     curriculum.record("1", success)
    >>> curriculum.level
    2
    >>> curriculum.record("1", 0.0)  # of a problem drawn before the change
    >>> curriculum.state()
    {'level': 2, 'recent': []}
    """

    def __init__(
        self,
        levels: Sequence[int],
        *,
        start: int | None = None,
        window: int = 64,
        rise: float = 0.8,
        fall: float = 0.3,
    ) -> None:
        """Starts at the lowest level.

        Args:
            levels: At least two, from easy to hard.
            start: The first level; None: the easiest.
            window: Outcomes that decide.
            rise: A higher rate goes one level up.
            fall: A lower rate goes one level down.

        Raises:
            ValueError: A value out of range.
        """
        if not isinstance(levels, list | tuple) or any(type(level) is not int for level in levels):
            raise ValueError(f"curriculum levels must be a list of numbers, got {levels!r:.80}")
        self.levels: tuple[int, ...] = tuple(levels)
        if len(set(self.levels)) < max(2, len(self.levels)):
            raise ValueError(f"curriculum levels must be two or more different ones, got {levels}")
        start = self.levels[0] if start is None else start
        if start not in self.levels:
            raise ValueError(f"curriculum start must be one of {list(self.levels)}, got {start!r}")
        if type(window) is not int or window < 1:
            raise ValueError(f"curriculum window must be a whole number >= 1, got {window!r}")
        numbers = isinstance(fall, int | float) and isinstance(rise, int | float)
        if not numbers or not 0 <= fall < rise <= 1:
            raise ValueError(
                f"curriculum thresholds must be 0 <= fall < rise <= 1, got "
                f"fall={fall!r}, rise={rise!r}"
            )
        self.window, self.rise, self.fall = window, rise, fall
        self._place, self._recent = self.levels.index(start), list[float]()

    @property
    def level(self) -> int:
        """The present level."""
        return self.levels[self._place]

    def record(self, level: str, success: float) -> None:
        """Counts one outcome.

        Args:
            level: Of the problem, as in ``Problem.level``.
            success: From 0 to 1; the mean over the answers to one problem.

        Raises:
            ValueError: ``success`` is outside 0 to 1.
        """
        if not 0 <= success <= 1:
            raise ValueError(f"success must be between 0 and 1, got {success}")
        if level != str(self.level):
            return
        self._recent = [*self._recent, float(success)][-self.window :]
        if len(self._recent) < self.window:
            return
        rate = math.fsum(self._recent) / self.window
        step = int(rate > self.rise) - int(rate < self.fall)
        place = min(max(self._place + step, 0), len(self.levels) - 1)
        if place != self._place:
            self._place, self._recent = place, []

    def state(self) -> dict[str, Any]:
        """Returns the level and the recent outcomes, as JSON values."""
        return {"level": self.level, "recent": list(self._recent)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state; it may come from anywhere.

        Raises:
            ValueError: It is no such state, or its level is none of this curriculum's.
        """
        level, recent = state.get("level"), state.get("recent")
        if set(state) != {"level", "recent"} or type(level) is not int or level not in self.levels:
            raise ValueError(
                f"a curriculum's state has a level of {list(self.levels)} and recent outcomes, got "
                f"{state!r:.80}"
            )
        if not isinstance(recent, list) or not all(
            isinstance(rate, int | float) and 0 <= rate <= 1 for rate in recent
        ):
            raise ValueError(f"recent outcomes must be numbers from 0 to 1, got {recent!r:.80}")
        self._place = self.levels.index(level)
        self._recent = [float(rate) for rate in recent][-self.window :]


class CurriculumSet:
    """Draws from the present level's set; an index names a problem of the fixed level.

    Attributes:
        num_problems: None, as the set has no end.
        curriculum: Says which level is drawn from.
        longest: What holds the texts of every level; None where a level does not say.
        grader: The source's own, None where it has none.
    """

    num_problems: None = None

    def __init__(
        self, curriculum: Curriculum, sets: Mapping[int, ProblemSet], fixed: ProblemSet
    ) -> None:
        """Stores the sets.

        Args:
            curriculum: Says which level is drawn from.
            sets: Level -> set.
            fixed: Has the problems that are asked for by index, as evaluation does.

        Raises:
            ValueError: A set is finite.
        """
        for level, part in sets.items():
            if part.num_problems is not None:
                raise ValueError(
                    f"a curriculum draws from endless sources only, but level {level} has "
                    f"{part.num_problems} problems. Leave curriculum out, or use a procedural "
                    "family."
                )
        self.curriculum, self._sets, self._fixed = curriculum, dict(sets), fixed
        sizes: list[Longest | None] = [
            getattr(part, "longest", None) for part in (fixed, *sets.values())
        ]
        known = [size for size in sizes if size is not None]
        self.longest = reduce(or_, known) if len(known) == len(sizes) else None
        self.grader = getattr(fixed, "grader", None)

    def problem(self, index: int) -> Problem:
        """Returns problem ``index`` of the fixed level."""
        return self._fixed.problem(index)

    def sample(self, rng: np.random.Generator) -> Problem:
        """Draws a problem of the present level."""
        return self._sets[self.curriculum.level].sample(rng)


def curriculum_set(
    load: Callable[[int | str | None], ProblemSet],
    level: int | str | None,
    options: bool | Mapping[str, Any],
) -> CurriculumSet:
    """Returns the problem set of an environment with a curriculum.

    Args:
        load: Makes the set of a level; None: the source's default level.
        level: The fixed level.
        options: True, or some of ``OPTIONS``; see ``Curriculum``.

    Raises:
        ValueError: An option is unknown or out of range, or the source has no such levels.
    """
    if options is not True and not isinstance(options, Mapping):
        raise ValueError(
            f"curriculum must be true or options such as {{'window': 64}}, got {options!r}"
        )
    given: dict[str, Any] = {} if options is True else dict(options)
    for name in given:
        if name not in OPTIONS:
            raise ValueError(
                f"unknown curriculum option {name!r}.{nearest(str(name), OPTIONS)} Known: "
                f"{', '.join(OPTIONS)}"
            )
    fixed = load(level)
    levels = given.pop("levels", None) or getattr(fixed, "levels", ())
    if not levels:
        raise ValueError("these problems name no levels; give curriculum={'levels': [1, 2]}")
    curriculum = Curriculum(levels, **given)
    return CurriculumSet(curriculum, {own: load(own) for own in curriculum.levels}, fixed)
