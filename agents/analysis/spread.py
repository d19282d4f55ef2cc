"""How different the answers to one problem are: distinct answers, distinct solutions, pass@k."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import comb
from typing import Any

import numpy as np


def pass_at_k(n: int, right: int, k: int) -> float:
    """Returns the chance that k of n answers, drawn without repetition, hold a right one.

    The unbiased estimate of pass@k (Chen et al., "Evaluating Large Language Models Trained on
    Code", 2021, eq. 1).

    Raises:
        ValueError: k is larger than n, or below 1.

    >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 3, 2)
    (0.25, 0.5, 1.0)
    """
    if not 1 <= k <= n:
        raise ValueError(f"k must be in 1..{n} (the answers a problem has), got {k}")
    return 1 - comb(n - right, k) / comb(n, k)


def powers_up_to(n: int) -> list[int]:
    """Returns 1, 2, 4, ... and n itself.

    >>> powers_up_to(8), powers_up_to(6), powers_up_to(1)
    ([1, 2, 4, 8], [1, 2, 4, 6], [1])
    """
    powers = [2**i for i in range(n.bit_length()) if 2**i < n]
    return [*powers, n]


def repeats(items: Sequence[Hashable]) -> float:
    """Returns the chance that two different samples are equal; 0 for fewer than two.

    >>> repeats(["a", "a", "b"]), repeats(["a"])
    (0.3333333333333333, 0.0)
    """
    n = len(items)
    if n < 2:
        return 0.0
    return sum(count * (count - 1) for count in Counter(items).values()) / (n * (n - 1))


def diversity_of(
    answers: Sequence[Sequence[Hashable]],
    solutions: Sequence[Sequence[Hashable]],
    right: Sequence[Sequence[bool]],
) -> dict[str, Any]:
    """Returns how different the samples of a problem are, as means over problems.

    Args:
        answers: The final answers of each problem's samples, [P][n], n the same for all.
        solutions: Their whole texts or ids, [P][n].
        right: Whether each is right, [P][n].

    Returns:
        ``distinct_answers``, ``distinct_solutions`` and ``distinct_right_solutions`` (counts of n),
        ``same_answer`` and ``same_solution`` (chance that two samples agree), ``majority`` (the
        most frequent answer is right, ties by chance), ``pass_at`` by k, ``samples`` n.

    >>> found = diversity_of([["1", "1", "2"]], [["a", "b", "c"]], [[True, True, False]])
    >>> found["distinct_answers"], found["distinct_right_solutions"], found["majority"]
    (2.0, 2.0, 1.0)
    >>> {k: round(rate, 4) for k, rate in found["pass_at"].items()}
    {1: 0.6667, 2: 1.0, 3: 1.0}
    """
    n = len(right[0])

    def mean(numbers: Sequence[float]) -> float:
        return float(np.mean(numbers))

    kept = [
        {text for text, good in zip(texts, goods, strict=True) if good}
        for texts, goods in zip(solutions, right, strict=True)
    ]
    return {
        "samples": n,
        "problems": len(right),
        "distinct_answers": mean([len(set(row)) for row in answers]),
        "distinct_solutions": mean([len(set(row)) for row in solutions]),
        "distinct_right_solutions": mean([len(texts) for texts in kept]),
        "same_answer": mean([repeats(row) for row in answers]),
        "same_solution": mean([repeats(row) for row in solutions]),
        "majority": mean([_majority(a, g) for a, g in zip(answers, right, strict=True)]),
        "pass_at": {k: mean([pass_at_k(n, sum(row), k) for row in right]) for k in powers_up_to(n)},
    }


def _majority(answers: Sequence[Hashable], right: Sequence[bool]) -> float:
    """Returns the chance that a most frequent answer is right."""
    counts = Counter(answers)
    most = max(counts.values())
    tops = [answer for answer, count in counts.items() if count == most]
    good = {answer for answer, fine in zip(answers, right, strict=True) if fine}
    return sum(answer in good for answer in tops) / len(tops)
