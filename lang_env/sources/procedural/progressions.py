"""Terms and sums of sequences whose rule is stated, so that the answer is unique."""

from __future__ import annotations

import numpy as np

from lang_env.problem import Longest
from lang_env.sources.procedural.base import Level, ProceduralSet, between, nonzero, worked


def _ordinal(number: int) -> str:
    """Returns 1st, 2nd, 3rd, 4th, 11th and so on."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number // 10 % 10 == 1 else ending}"


def _arithmetic(rng: np.random.Generator) -> tuple[list[int], int]:
    """Draws the first three terms of an arithmetic sequence, and its difference."""
    first, difference = between(rng, 1, 99), nonzero(rng, 20)
    return [first + k * difference for k in range(3)], difference


def _begins(kind: str, terms: list[int]) -> str:
    return f"{kind} begins {', '.join(map(str, terms))}."


def _difference_line(terms: list[int]) -> str:
    return f"{terms[1]} - {terms[0]} = {terms[1] - terms[0]}"


def _added(left: int, right: int) -> str:
    return f"{left} {'+' if right >= 0 else '-'} {abs(right)} = {left + right}"


def _nth(terms: list[int], difference: int, place: int) -> tuple[list[str], int]:
    """Returns the working of term number ``place``, and the term."""
    gap = (place - 1) * difference
    lines = [f"{place} - 1 = {place - 1}", f"{place - 1} * {difference} = {gap}"]
    return [*lines, _added(terms[0], gap)], terms[0] + gap


def _next_term(rng: np.random.Generator) -> tuple[str, str, str]:
    terms, difference = _arithmetic(rng)
    answer = terms[-1] + difference
    question = f"{_begins('An arithmetic sequence', terms)} What is its next term?"
    lines = [_difference_line(terms), _added(terms[-1], difference)]
    return question, str(answer), worked(lines, answer)


def _far_term(rng: np.random.Generator) -> tuple[str, str, str]:
    (terms, difference), place = _arithmetic(rng), between(rng, 6, 40)
    lines, answer = _nth(terms, difference, place)
    question = f"{_begins('An arithmetic sequence', terms)} What is its {_ordinal(place)} term?"
    return question, str(answer), worked([_difference_line(terms), *lines], answer)


def _sum_of_terms(rng: np.random.Generator) -> tuple[str, str, str]:
    (terms, difference), count = _arithmetic(rng), between(rng, 5, 20)
    lines, last = _nth(terms, difference, count)
    ends = terms[0] + last
    answer = count * ends // 2
    lines += [_added(terms[0], last), f"{count} * {ends} / 2 = {answer}"]
    question = (
        f"{_begins('An arithmetic sequence', terms)} What is the sum of its first {count} terms?"
    )
    return question, str(answer), worked([_difference_line(terms), *lines], answer)


def _geometric(rng: np.random.Generator) -> tuple[str, str, str]:
    first, ratio, place = between(rng, 1, 60), between(rng, 2, 5), between(rng, 5, 7)
    terms = [first, first * ratio, first * ratio**2]
    lines, answer = [f"{terms[1]} / {first} = {ratio}"], terms[-1]
    for _ in range(place - 3):
        lines.append(f"{answer} * {ratio} = {answer * ratio}")
        answer *= ratio
    question = f"{_begins('A geometric sequence', terms)} What is its {_ordinal(place)} term?"
    return question, str(answer), worked(lines, answer)


def _sum_or_geometric(rng: np.random.Generator) -> tuple[str, str, str]:
    return _geometric(rng) if rng.random() < 0.25 else _sum_of_terms(rng)


def _two_before(rng: np.random.Generator) -> tuple[str, str, str]:
    terms, place = [between(rng, 1, 30), between(rng, 1, 30)], between(rng, 6, 9)
    begin, lines = f"A sequence begins {terms[0]}, {terms[1]}.", []
    while len(terms) < place:
        lines.append(_added(terms[-2], terms[-1]))
        terms.append(terms[-2] + terms[-1])
    question = (
        f"{begin} Each later term is the sum of the two terms before it. What is the "
        f"{_ordinal(place)} term?"
    )
    return question, str(terms[-1]), worked(lines, terms[-1])


def _one_before(rng: np.random.Generator) -> tuple[str, str, str]:
    term, factor, shift = between(rng, 1, 20), between(rng, 2, 4), nonzero(rng, 9)
    place, lines = between(rng, 4, 6), []
    how = f"{factor} times the term before it, {'plus' if shift > 0 else 'minus'} {abs(shift)}"
    question = (
        f"A sequence begins with {term}. Each later term is {how}. What is the "
        f"{_ordinal(place)} term?"
    )
    for _ in range(place - 1):
        product = factor * term
        lines += [f"{factor} * {term} = {product}", _added(product, shift)]
        term = product + shift
    return question, str(term), worked(lines, term)


def _recurrence(rng: np.random.Generator) -> tuple[str, str, str]:
    return _two_before(rng) if rng.random() < 0.5 else _one_before(rng)


_LEVELS = {
    1: Level(_next_term, Longest(question=80, solution=46)),
    2: Level(_far_term, Longest(question=80, solution=80)),
    3: Level(_sum_or_geometric, Longest(question=92, solution=110)),
    4: Level(_recurrence, Longest(question=120, solution=180)),
}


def sequences(*, split: str = "train", level: int | None = None) -> ProceduralSet:
    """Sequences whose rule is stated: arithmetic, geometric, or by the terms before.

    Args:
        split: "train", "validation" or "test"; no question is in two of them.
        level: 1: the next term of an arithmetic sequence (default). 2: a far term of one. 3: the
            sum of one, or a term of a geometric sequence. 4: terms made from those before.

    >>> problem = sequences(level=2).problem(1)
    >>> print(problem.question)
    An arithmetic sequence begins 95, 106, 117. What is its 23rd term?
    >>> print(problem.solution)
    106 - 95 = 11
    23 - 1 = 22
    22 * 11 = 242
    95 + 242 = 337
    #### 337
    """
    return ProceduralSet("sequences", _LEVELS, split=split, level=level, default=1)
