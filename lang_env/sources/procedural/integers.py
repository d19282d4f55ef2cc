"""Divisors, multiples and remainders of whole numbers, by Euclid's algorithm and by division."""

from __future__ import annotations

from math import gcd

import numpy as np

from lang_env.problem import Longest
from lang_env.sources.procedural.base import Level, ProceduralSet, between, worked


def _division(number: int, by: int) -> str:
    return f"{number} = {number // by} * {by} + {number % by}"


def _euclid(a: int, b: int) -> list[str]:
    """Returns the lines of Euclid's algorithm, down to the remainder 0."""
    a, b, lines = max(a, b), min(a, b), []
    while b:
        lines.append(_division(a, b))
        a, b = b, a % b
    return lines


def _pair(rng: np.random.Generator, factor: int, most: int) -> tuple[int, int]:
    """Draws two different multiples of one number."""
    shared, a = between(rng, 1, factor), between(rng, 2, most)
    b = between(rng, 2, most)
    while b == a:
        b = between(rng, 2, most)
    return shared * a, shared * b


def _ask_gcd(*numbers: int) -> str:
    return f"What is the greatest common divisor of {_listed(numbers)}?"


def _ask_lcm(*numbers: int) -> str:
    return f"What is the least common multiple of {_listed(numbers)}?"


def _listed(numbers: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _multiple(a: int, b: int) -> tuple[list[str], int]:
    """Returns the working of the least common multiple, and the number."""
    divisor = gcd(a, b)
    multiple = a * b // divisor
    return [*_euclid(a, b), f"{a} * {b} / {divisor} = {multiple}"], multiple


def _divisor_of_two(rng: np.random.Generator, factor: int, most: int) -> tuple[str, str, str]:
    a, b = _pair(rng, factor, most)
    return _ask_gcd(a, b), str(gcd(a, b)), worked(_euclid(a, b), gcd(a, b))


def _small_divisor(rng: np.random.Generator) -> tuple[str, str, str]:
    return _divisor_of_two(rng, factor=10, most=20)


def _large_divisor(rng: np.random.Generator) -> tuple[str, str, str]:
    return _divisor_of_two(rng, factor=30, most=40)


def _multiple_of_two(rng: np.random.Generator) -> tuple[str, str, str]:
    a, b = _pair(rng, factor=10, most=20)
    lines, multiple = _multiple(a, b)
    return _ask_lcm(a, b), str(multiple), worked(lines, multiple)


def _of_three(rng: np.random.Generator) -> tuple[str, str, str]:
    a, b = _pair(rng, factor=6, most=12)
    c = between(rng, 2, 40)
    if rng.random() < 0.5:
        inner, answer = gcd(a, b), gcd(a, b, c)
        question, lines = _ask_gcd(a, b, c), [*_euclid(a, b), *_euclid(inner, c)]
    else:
        question = _ask_lcm(a, b, c)
        before, inner = _multiple(a, b)
        after, answer = _multiple(inner, c)
        lines = before + after
    return question, str(answer), worked(lines, answer)


def _ask_remainder(formula: str, by: int) -> str:
    return f"What is the remainder when {formula} is divided by {by}?"


def _remainder(rng: np.random.Generator) -> tuple[str, str, str]:
    number, by = between(rng, 20, 300), between(rng, 3, 15)
    answer = number % by
    return _ask_remainder(str(number), by), str(answer), worked([_division(number, by)], answer)


def _remainder_of_two(rng: np.random.Generator) -> tuple[str, str, str]:
    a, b, by = between(rng, 20, 99), between(rng, 20, 99), between(rng, 3, 15)
    sign, left, right = "+*"[between(rng, 0, 1)], a % by, b % by
    whole = left + right if sign == "+" else left * right
    lines = [_division(a, by), _division(b, by), f"{left} {sign} {right} = {whole}"]
    if whole >= by:
        lines.append(_division(whole, by))
    answer = whole % by
    return _ask_remainder(f"{a} {sign} {b}", by), str(answer), worked(lines, answer)


def _remainder_of_power(rng: np.random.Generator) -> tuple[str, str, str]:
    base, power, by = between(rng, 2, 99), between(rng, 3, 8), between(rng, 3, 19)
    while base % by == 0:
        base += 1
    left = base % by
    lines, answer = [_division(base, by)], left
    for _ in range(power - 1):
        lines.append(f"{answer} * {left} = {_division(answer * left, by)}")
        answer = answer * left % by
    return _ask_remainder(f"{base}^{power}", by), str(answer), worked(lines, answer)


def _two_remainders(rng: np.random.Generator) -> tuple[str, str, str]:
    small, large = between(rng, 3, 9), between(rng, 10, 30)
    while gcd(small, large) > 1:
        small, large = between(rng, 3, 9), between(rng, 10, 30)
    wanted, rest = between(rng, 1, small - 1), between(rng, 1, large - 1)
    tried = [rest]
    while tried[-1] % small != wanted:
        tried.append(tried[-1] + large)
    question = (
        f"What is the smallest positive number that leaves remainder {wanted} when divided by "
        f"{small} and remainder {rest} when divided by {large}?"
    )
    return question, str(tried[-1]), worked([_division(n, small) for n in tried], tried[-1])


_DIVISORS = {
    1: Level(_small_divisor, Longest(question=60, solution=110)),
    2: Level(_multiple_of_two, Longest(question=60, solution=130)),
    3: Level(_large_divisor, Longest(question=60, solution=150)),
    4: Level(_of_three, Longest(question=64, solution=230)),
}
_REMAINDERS = {
    1: Level(_remainder, Longest(question=56, solution=32)),
    2: Level(_remainder_of_two, Longest(question=60, solution=80)),
    3: Level(_remainder_of_power, Longest(question=56, solution=240)),
    4: Level(_two_remainders, Longest(question=130, solution=180)),
}


def gcd_lcm(*, split: str = "train", level: int | None = None) -> ProceduralSet:
    """Greatest common divisors and least common multiples.

    Args:
        split: "train", "validation" or "test"; no question is in two of them.
        level: 1: divisor of two numbers up to 200 (default). 2: multiple of two. 3: divisor of two
            numbers up to 1,200. 4: either, of three numbers.

    >>> problem = gcd_lcm(level=2).problem(1)
    >>> print(problem.question)
    What is the least common multiple of 85 and 50?
    >>> print(problem.solution)
    85 = 1 * 50 + 35
    50 = 1 * 35 + 15
    35 = 2 * 15 + 5
    15 = 3 * 5 + 0
    85 * 50 / 5 = 850
    #### 850
    """
    return ProceduralSet("gcd_lcm", _DIVISORS, split=split, level=level, default=1)


def remainders(*, split: str = "train", level: int | None = None) -> ProceduralSet:
    """Remainders of division.

    Args:
        split: "train", "validation" or "test"; no question is in two of them.
        level: 1: of a number (default). 2: of a sum or product. 3: of a power. 4: the smallest
            number with two given remainders.

    >>> problem = remainders(level=2).problem(1)
    >>> print(problem.question)
    What is the remainder when 97 * 88 is divided by 13?
    >>> print(problem.solution)
    97 = 7 * 13 + 6
    88 = 6 * 13 + 10
    6 * 10 = 60
    60 = 4 * 13 + 8
    #### 8
    """
    return ProceduralSet("remainders", _REMAINDERS, split=split, level=level, default=1)
