"""Demonstrations with systematic slips: what the embedded policy is taught, so that RL has work.

A slip is a habit, not noise: the same fact goes wrong in the same way, more often than not. A
policy trained on such text is wrong when it decodes greedily, so that reinforcement learning has to
move probability to answers that are less likely at first. Three habits:

- a forgotten wrap: ``2-5`` gives 3, the difference without its sign (rate ``borrow``);
- a misremembered fact: a fixed share (``facts``) of the sums and products has one fixed wrong
  result that is written down at a rate between ``fact_low`` and ``fact_high``;
- the wrong variable: the look-up reads another variable (rate ``variable``).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from lang_env.problem import Problem
from lang_env.sources.procedural.program import MODULUS, exact, parse_program, worked_solution


@dataclass(frozen=True, slots=True)
class SlipRates:
    """How often each habit shows; all between 0 and 1.

    Attributes:
        borrow: Chance that a subtraction below zero forgets to wrap.
        facts: Share of the sums and products that are misremembered.
        fact_low: Lowest chance that a misremembered fact is written down wrong.
        fact_high: Highest such chance.
        variable: Chance that the look-up reads another variable.
    """

    borrow: float = 0.65
    facts: float = 0.35
    fact_low: float = 0.55
    fact_high: float = 0.75
    variable: float = 0.03


def _unit(operator: str, left: int, right: int, salt: str) -> float:
    digest = hashlib.blake2b(f"{salt}{left}{operator}{right}".encode(), digest_size=4).digest()
    return int.from_bytes(digest) / 2**32


def habit(operator: str, left: int, right: int, rates: SlipRates) -> tuple[int, float]:
    """Returns the wrong result that this fact tends to, and how often it is written down.

    >>> habit("-", 2, 5, SlipRates())
    (3, 0.65)
    >>> habit("-", 5, 2, SlipRates())
    (3, 0.0)
    """
    truth = exact(operator, left, right)
    if operator == "-":
        wrong = abs(left - right)
        return (wrong, rates.borrow) if wrong != truth else (truth, 0.0)
    if _unit(operator, left, right, "fact") >= rates.facts:
        return truth, 0.0
    share = _unit(operator, left, right, "rate")
    wrong = (truth + 1 + int(_unit(operator, left, right, "off") * (MODULUS - 1))) % MODULUS
    return wrong, rates.fact_low + share * (rates.fact_high - rates.fact_low)


def demonstration(question: str, rng: np.random.Generator, rates: SlipRates) -> str:
    """Writes a solution of a program question with the habits' slips.

    The working stays coherent: later steps go on from a slipped value.

    Args:
        question: The text of a ``chain`` or ``ledger`` problem.
        rng: Decides which slips happen.
        rates: How often.

    Raises:
        ValueError: The question is not a program.
    """
    program = parse_program(question)

    def apply(operator: str, left: int, right: int) -> int:
        wrong, rate = habit(operator, left, right, rates)
        return wrong if rng.random() < rate else exact(operator, left, right)

    lines, values = program.run(apply)
    read, others = program.asked, [name for name in values if name != program.asked]
    if others and rng.random() < rates.variable:
        read = others[int(rng.integers(len(others)))]
    return worked_solution(lines, program.asked, values[read])


def slipped_solution(problem: Problem, rng: np.random.Generator, **rates: float) -> str:
    """Writes a demonstration of a ``chain`` or ``ledger`` problem.

    Args:
        problem: Its question is read.
        rng: Decides which slips happen.
        rates: Fields of ``SlipRates`` that differ from the default.
    """
    return demonstration(problem.question, rng, SlipRates(**rates))
