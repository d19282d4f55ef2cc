"""Random choices that can be enumerated: what a random program returns on average, exactly.

A program makes its choices through a chooser. ``outcomes`` runs it once for every path of choices,
``Dice`` lets it draw at random.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Protocol, TypeVar

import numpy as np

ResultT = TypeVar("ResultT")
Chances = tuple[float, ...]


class Chooser(Protocol):
    """What a program asks for its random choices."""

    def choose(self, chances: Sequence[float]) -> int:
        """Returns option i with chance ``chances[i]``; they sum to 1."""
        ...


class Dice:
    """Draws every choice at random."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Stores the generator."""
        self._rng = rng

    def choose(self, chances: Sequence[float]) -> int:
        """Returns option i with chance ``chances[i]``."""
        draw = self._rng.random()
        total = 0.0
        for option, chance in enumerate(chances):
            total += chance
            if draw < total:
                return option
        return len(chances) - 1


class Path:
    """Follows one path of choices, and knows the next."""

    def __init__(self) -> None:
        """Starts before the first path, where every choice is the first option."""
        self._options: list[int] = []
        self._counts: list[int] = []
        self._place = 0
        self.chance = 1.0

    def choose(self, chances: Sequence[float]) -> int:
        """Returns what this path says, and multiplies the path's chance by the option's."""
        if self._place == len(self._options):
            self._options.append(0)
            self._counts.append(len(chances))
        option = self._options[self._place]
        self._place += 1
        self.chance *= chances[option]
        return option

    def advance(self) -> bool:
        """Goes to the next path; False after the last one."""
        del self._options[self._place :], self._counts[self._place :]
        while self._options and self._options[-1] == self._counts[-1] - 1:
            self._options.pop()
            self._counts.pop()
        if self._options:
            self._options[-1] += 1
        self._place, self.chance = 0, 1.0
        return bool(self._options)


def outcomes(program: Callable[[Path], ResultT]) -> Iterator[tuple[float, ResultT]]:
    """Yields (chance, what the program returned) for every path of choices.

    >>> def two_coins(chooser):
    ...     return sum(chooser.choose((0.5, 0.5)) for _ in range(2))
    >>> [*outcomes(two_coins)]
    [(0.25, 0), (0.25, 1), (0.25, 1), (0.25, 2)]
    """
    path = Path()
    while True:
        result = program(path)
        yield path.chance, result
        if not path.advance():
            return


@lru_cache(maxsize=1024)
def multisets(chances: Chances, size: int) -> tuple[tuple[tuple[int, ...], ...], Chances]:
    """Returns what ``size`` independent draws can be, their order forgotten, and each's chance.

    >>> multisets((0.5, 0.5), 2)
    (((0, 0), (0, 1), (1, 1)), (0.25, 0.5, 0.25))
    """
    found = tuple(combinations_with_replacement(range(len(chances)), size))
    return found, tuple(_multinomial(draws, chances) for draws in found)


def _multinomial(draws: tuple[int, ...], chances: Chances) -> float:
    orders = math.factorial(len(draws))
    for count in Counter(draws).values():
        orders //= math.factorial(count)
    return orders * math.prod(chances[draw] for draw in draws)
