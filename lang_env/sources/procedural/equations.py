"""Linear equations in x with a whole-number solution, solved a line at a time."""

from __future__ import annotations

import numpy as np

from lang_env.problem import Longest
from lang_env.sources.procedural.base import Level, ProceduralSet, between, nonzero, worked


def _times_x(factor: int) -> str:
    return {1: "x", -1: "-x"}.get(factor, f"{factor}x")


def _plus(number: int) -> str:
    return f"+ {number}" if number >= 0 else f"- {-number}"


def _ask(equation: str) -> str:
    return f"Solve for x: {equation}"


def _divided(factor: int, right: int) -> list[str]:
    """The last lines of ``factor * x = right``."""
    if factor == 1:
        return []
    return [f"x = {right} / {factor} = {right // factor}"]


def _gathered(a: int, b: int, c: int, d: int) -> list[str]:
    """The lines of ``a x + b = c x + d``."""
    left, right = a - c, d - b
    move = f"{_times_x(a)} - {_times_x(c)} = {d} {_plus(-b)}"
    return [move, f"{_times_x(left)} = {right}", *_divided(left, right)]


def _one_step(rng: np.random.Generator) -> tuple[str, str, str]:
    x, a, kind = between(rng, 1, 60), between(rng, 2, 30), between(rng, 0, 3)
    if kind == 0:
        equation, line = f"x + {a} = {x + a}", f"x = {x + a} - {a} = {x}"
    elif kind == 1:
        equation, line = f"x - {a} = {x - a}", f"x = {x - a} + {a} = {x}"
    elif kind == 2:
        equation, line = f"{a}x = {a * x}", f"x = {a * x} / {a} = {x}"
    else:
        x *= a
        equation, line = f"x / {a} = {x // a}", f"x = {x // a} * {a} = {x}"
    return _ask(equation), str(x), worked([line], x)


def _two_steps(rng: np.random.Generator) -> tuple[str, str, str]:
    x, a, b = nonzero(rng, 20), between(rng, 2, 12), nonzero(rng, 30)
    right = a * x + b
    lines = [f"{_times_x(a)} = {right} {_plus(-b)} = {a * x}", *_divided(a, a * x)]
    return _ask(f"{_times_x(a)} {_plus(b)} = {right}"), str(x), worked(lines, x)


def _both_sides(rng: np.random.Generator) -> tuple[str, str, str]:
    x, c, b = nonzero(rng, 20), between(rng, 2, 9), nonzero(rng, 30)
    a = c + between(rng, 2, 9)
    d = (a - c) * x + b
    equation = f"{_times_x(a)} {_plus(b)} = {_times_x(c)} {_plus(d)}"
    return _ask(equation), str(x), worked(_gathered(a, b, c, d), x)


def _brackets(rng: np.random.Generator) -> tuple[str, str, str]:
    x, d, b, c = nonzero(rng, 20), between(rng, 2, 6), nonzero(rng, 9), nonzero(rng, 20)
    a = d + between(rng, 2, 6)
    e = a * (x + b) + c - d * x
    right = f"{_times_x(d)} {_plus(e)}"
    lines = [
        f"{_times_x(a)} {_plus(a * b)} {_plus(c)} = {right}",
        f"{_times_x(a)} {_plus(a * b + c)} = {right}",
        *_gathered(a, a * b + c, d, e),
    ]
    return _ask(f"{a}(x {_plus(b)}) {_plus(c)} = {right}"), str(x), worked(lines, x)


_LEVELS = {
    1: Level(_one_step, Longest(question=32, solution=40)),
    2: Level(_two_steps, Longest(question=32, solution=60)),
    3: Level(_both_sides, Longest(question=36, solution=70)),
    4: Level(_brackets, Longest(question=44, solution=120)),
}


def linear(*, split: str = "train", level: int | None = None) -> ProceduralSet:
    r"""Linear equations in x; the solution is a whole number, from level 2 on of either sign.

    Args:
        split: "train", "validation" or "test"; no question is in two of them.
        level: 1: one operation (default). 2: ``ax + b = c``. 3: x on both sides. 4: with brackets.

    >>> problem = linear(level=3).problem(1)
    >>> print(problem.question)
    Solve for x: 9x + 28 = 6x + 67
    >>> print(problem.solution)
    9x - 6x = 67 - 28
    3x = 39
    x = 39 / 3 = 13
    #### 13
    """
    return ProceduralSet("linear", _LEVELS, split=split, level=level, default=1)
