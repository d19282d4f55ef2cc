"""Several endless sources in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

import numpy as np

from lang_env.problem import Longest, Problem, ProblemSet


class Mixture:
    """Draws from each of its parts equally often; a part listed twice comes twice as often.

    Attributes:
        num_problems: None, as the set has no end.
        longest: What holds the texts of every part; None where a part does not say.
        levels: The levels that every part has.
        grader: The parts' own, None where they have none.
    """

    num_problems: None = None

    def __init__(self, parts: Mapping[str, ProblemSet], order: Sequence[str]) -> None:
        """Stores the parts.

        Args:
            parts: Name -> source.
            order: Names of the parts as they take turns.

        Raises:
            ValueError: A part is finite, or has a grader of its own that not every part has.
        """
        for name, part in parts.items():
            if part.num_problems is not None:
                raise ValueError(
                    f"a mixture takes endless sources only, but {name!r} has {part.num_problems} "
                    "problems. Use it alone, or give one list of Problem."
                )
        graders = {type(getattr(part, "grader", None)) for part in parts.values()}
        if len(graders) > 1:
            raise ValueError(
                f"the parts of a mixture must be judged alike, but some of {', '.join(parts)} have "
                "a grader of their own. Train on them apart."
            )
        self.grader = getattr(next(iter(parts.values())), "grader", None)
        self._order = [
            (parts[name], order[:place].count(name), order.count(name))
            for place, name in enumerate(order)
        ]
        sizes: list[Longest | None] = [getattr(part, "longest", None) for part in parts.values()]
        known = [size for size in sizes if size is not None]
        self.longest = reduce(or_, known) if len(known) == len(sizes) else None
        levels = [set(getattr(part, "levels", ())) for part in parts.values()]
        self.levels = tuple(sorted(set.intersection(*levels)))

    def problem(self, index: int) -> Problem:
        """Returns problem ``index``: the parts take turns."""
        turn, place = divmod(index, len(self._order))
        part, earlier, times = self._order[place]
        return part.problem(turn * times + earlier)

    def sample(self, rng: np.random.Generator) -> Problem:
        """Draws a part and then one of its problems."""
        part, _, _ = self._order[int(rng.integers(len(self._order)))]
        return part.sample(rng)
