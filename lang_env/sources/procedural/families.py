"""The two program families: a chain, where every step counts, and a ledger, where few do."""

from __future__ import annotations

from functools import partial

import numpy as np

from lang_env.problem import Longest
from lang_env.sources.procedural.base import Level, ProceduralSet
from lang_env.sources.procedural.program import Program, Statement, worked_solution
from lang_env.sources.procedural.state import program_state

CHAIN_LEVELS = {1: 4, 2: 6, 3: 9, 4: 16}
"""Level -> operations of the one variable."""

LEDGER_LEVELS = {1: (2, 2), 2: (2, 3), 3: (3, 3), 4: (4, 4)}
"""Level -> (variables, operations of each); only one variable is asked."""

_ADDENDS = (1, 2, 3, 4, 5)
_FACTORS = (3, 7, 9)  # invertible modulo 10, so that a product keeps all ten values possible


def _statement(rng: np.random.Generator, target: str, first: bool) -> Statement:
    operator = "+-*"[int(rng.integers(3))]
    choices = _FACTORS if operator == "*" else _ADDENDS
    right = choices[int(rng.integers(len(choices)))]
    return Statement(target, int(rng.integers(10)) if first else None, operator, right)


def _draw(rng: np.random.Generator, variables: int, operations: int) -> tuple[str, str, str]:
    names = "abcdefghij"[:variables]
    statements = [
        _statement(rng, name, first=step == 0) for name in names for step in range(operations)
    ]
    program = Program(tuple(statements), names[int(rng.integers(variables))])
    lines, values = program.run()
    answer = values[program.asked]
    return str(program), str(answer), worked_solution(lines, program.asked, answer)


def _draw_either(rng: np.random.Generator, level: int) -> tuple[str, str, str]:
    if rng.random() < 0.25:
        return _draw(rng, 1, CHAIN_LEVELS[level])
    return _draw(rng, *LEDGER_LEVELS[level])


_PROGRAM = Longest(question=156, solution=157)  # in the plain prompt: 160 tokens each
_CHAIN = {
    level: Level(partial(_draw, variables=1, operations=operations), _PROGRAM)
    for level, operations in CHAIN_LEVELS.items()
}
_LEDGER = {
    level: Level(partial(_draw, variables=variables, operations=operations), _PROGRAM)
    for level, (variables, operations) in LEDGER_LEVELS.items()
}
_EITHER = {level: Level(partial(_draw_either, level=level), _PROGRAM) for level in LEDGER_LEVELS}


def chain(*, split: str = "train", level: int | None = None) -> ProceduralSet:
    """Chains of arithmetic on one variable, modulo 10: every step decides the answer.

    Args:
        split: "train", "validation" or "test"; no question is in two of them.
        level: 1 to 4 for 4, 6, 9 or 16 operations (default 2).

    >>> problem = chain(level=1).problem(0)
    >>> len(problem.question.splitlines()), len(problem.solution.splitlines())
    (5, 6)
    """
    return ProceduralSet(
        "chain", _CHAIN, split=split, level=level, default=2, state_key=program_state
    )


def ledger(*, split: str = "train", level: int | None = None) -> ProceduralSet:
    """Programs over several variables, of which one is asked: most steps do not matter.

    Args:
        split: "train", "validation" or "test"; no question is in two of them.
        level: 1 to 4 for 2x2, 2x3, 3x3 or 4x4 variables x operations (default 2).

    >>> problem = ledger(level=2).problem(0)
    >>> len(problem.question.splitlines()), problem.answer in "0123456789"
    (7, True)
    """
    return ProceduralSet(
        "ledger", _LEDGER, split=split, level=level, default=2, state_key=program_state
    )


def programs(*, split: str = "train", level: int | None = None) -> ProceduralSet:
    """Ledgers (three of four) and chains of one level, which have as many statements.

    Args:
        split: "train", "validation" or "test"; no question is in two of them.
        level: 1 to 4, see ``ledger`` and ``chain`` (default 2).
    """
    return ProceduralSet(
        "programs", _EITHER, split=split, level=level, default=2, state_key=program_state
    )
