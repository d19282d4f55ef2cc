"""Word problems in plain English, of one to four steps, from templates of our own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from lang_env.problem import Longest
from lang_env.sources.procedural.base import Level, ProceduralSet, between, worked

_PEOPLE = (
    ("Tom", "He"), ("Anna", "She"), ("Ben", "He"), ("Lucy", "She"), ("Omar", "He"),
    ("Mia", "She"), ("Sam", "He"), ("Nina", "She"), ("Leo", "He"), ("Ruth", "She"),
    ("Ivan", "He"), ("Clara", "She"), ("Raj", "He"), ("Emma", "She"), ("Kofi", "He"),
    ("Yuki", "She"),
)  # fmt: skip
_THINGS = (
    "apples", "pens", "books", "marbles", "stickers", "shells", "coins", "cards", "eggs",
    "pencils", "stamps", "oranges", "buttons", "cookies", "flowers", "balloons",
)  # fmt: skip
_LEAST, _MOST = 2, 2000  # of any result: things are counted in the plural
_MAX_DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class Template:
    """A story with places for people, things and numbers.

    Attributes:
        text: The question; ``{a}`` to ``{e}`` are numbers, ``{name}``, ``{other}`` and ``{third}``
            people (``{He}``: the first one's pronoun), ``{things}`` and ``{more}`` two kinds.
        ranges: Lowest and highest value of each number in turn.
        steps: The working, such as ``"f = a + b {things}"``: a new name, two operands (a name or a
            number) with their operator, and what is counted.
    """

    text: str
    ranges: tuple[tuple[int, int], ...]
    steps: tuple[str, ...]


def work(steps: tuple[str, ...], numbers: dict[str, int]) -> list[tuple[int, str, int, int]] | None:
    """Runs the steps of a template.

    Args:
        steps: As in ``Template``.
        numbers: Value of each name; the results are added.

    Returns:
        Left operand, operator, right operand and result of each step; None where a result is no
        whole number from 2 to 2,000.

    >>> work(("c = a * b eggs", "d = c - 2 eggs"), {"a": 3, "b": 4})
    [(3, '*', 4, 12), (12, '-', 2, 10)]
    >>> work(("c = a / b eggs",), {"a": 3, "b": 4})
    """
    done = []
    for step in steps:
        name, _, *operands = step.split()[:5]
        left, right = (numbers[o] if o.isalpha() else int(o) for o in (operands[0], operands[2]))
        if operands[1] == "/":
            result, rest = divmod(left, right)
        else:
            rest = 0
            result = {"+": left + right, "-": left - right, "*": left * right}[operands[1]]
        if rest or not _LEAST <= result <= _MOST:
            return None
        numbers[name] = result
        done.append((left, operands[1], right, result))
    return done


_SMALL, _UPTO20, _UPTO60 = (2, 9), (2, 20), (10, 60)

ONE_STEP = (
    Template(
        "{name} has {a} {things} and buys {b} more. How many {things} does {name} have now?",
        (_UPTO20, _UPTO20),
        ("c = a + b {things}",),
    ),
    Template(
        "{name} has {a} {things} and {other} has {b} {things}. How many {things} do they have "
        "together?",
        (_UPTO20, _UPTO20),
        ("c = a + b {things}",),
    ),
    Template(
        "{name} has {a} {things} and gives {b} of them to {other}. How many {things} does {name} "
        "have left?",
        (_UPTO20, _UPTO20),
        ("c = a - b {things}",),
    ),
    Template(
        "{name} needs {a} {things} and has {b} so far. How many more {things} does {name} need?",
        (_UPTO20, _UPTO20),
        ("c = a - b {things}",),
    ),
    Template(
        "{name} has {a} boxes with {b} {things} in each box. How many {things} does {name} have in "
        "all?",
        (_SMALL, _UPTO20),
        ("c = a * b {things}",),
    ),
    Template(
        "{name} shares {a} {things} equally among {b} friends. How many {things} does each friend "
        "get?",
        ((4, 80), _SMALL),
        ("c = a / b {things}",),
    ),
)
TWO_STEPS = (
    Template(
        "{name} has {a} {things}. {He} buys {b} more and then gives {c} to {other}. How many "
        "{things} does {name} have now?",
        (_UPTO20, _UPTO20, _UPTO20),
        ("d = a + b {things}", "e = d - c {things}"),
    ),
    Template(
        "{name} buys {a} bags with {b} {things} in each and gives away {c} {things}. How many "
        "{things} does {name} have left?",
        (_SMALL, _UPTO20, _UPTO20),
        ("d = a * b {things}", "e = d - c {things}"),
    ),
    Template(
        "{name} has {a} {things}, and {other} has {b} times as many. How many {things} do they "
        "have together?",
        (_UPTO20, _SMALL),
        ("c = a * b {things}", "d = a + c {things}"),
    ),
    Template(
        "{name} has {a} {things} and {other} has {b}. They put them together and share them "
        "equally among {c} children. How many {things} does each child get?",
        (_UPTO60, _UPTO60, _SMALL),
        ("d = a + b {things}", "e = d / c {things}"),
    ),
    Template(
        "{name} buys {a} {things} at {b} dollars each and pays with {c} dollars. How many dollars "
        "does {name} get back?",
        (_SMALL, _SMALL, (10, 100)),
        ("d = a * b dollars", "e = c - d dollars"),
    ),
    Template(
        "{name} reads {a} pages a day for {b} days. The book has {c} pages. How many pages are "
        "left to read?",
        (_UPTO60, _SMALL, (100, 600)),
        ("d = a * b pages", "e = c - d pages"),
    ),
)
THREE_STEPS = (
    Template(
        "{name} buys {a} boxes with {b} {things} in each and {c} bags with {d} {things} in each. "
        "How many {things} does {name} buy in all?",
        (_SMALL, _UPTO20, _SMALL, _UPTO20),
        ("e = a * b {things}", "f = c * d {things}", "g = e + f {things}"),
    ),
    Template(
        "{name} has {a} {things} and buys {b} boxes with {c} more in each. Then {name} gives {d} "
        "{things} to {other}. How many {things} does {name} have left?",
        (_UPTO60, _SMALL, _UPTO20, _UPTO60),
        ("e = b * c {things}", "f = a + e {things}", "g = f - d {things}"),
    ),
    Template(
        "{name} earns {a} dollars an hour and works {b} hours a day for {c} days. {He} then spends "
        "{d} dollars. How many dollars does {name} have left?",
        (_UPTO20, _SMALL, _SMALL, (20, 200)),
        ("e = a * b dollars", "f = e * c dollars", "g = f - d dollars"),
    ),
    Template(
        "{name} picks {a} {things} and {other} picks {b} more than {name}. They share all of them "
        "equally among {c} friends. How many {things} does each friend get?",
        (_UPTO60, _UPTO20, _SMALL),
        ("d = a + b {things}", "e = a + d {things}", "f = e / c {things}"),
    ),
    Template(
        "A bus has {a} people on it. At the first stop {b} people get off and {c} get on. At the "
        "second stop {d} people get off. How many people are on the bus now?",
        ((20, 80), _UPTO20, _UPTO20, _UPTO20),
        ("e = a - b people", "f = e + c people", "g = f - d people"),
    ),
)
FOUR_STEPS = (
    Template(
        "{name} buys {a} {things} at {b} dollars each and {c} {more} at {d} dollars each. {He} "
        "pays with {e} dollars. How many dollars does {name} get back?",
        (_SMALL, _UPTO20, _SMALL, _UPTO20, (50, 400)),
        ("f = a * b dollars", "g = c * d dollars", "h = f + g dollars", "i = e - h dollars"),
    ),
    Template(
        "{name} has {a} {things}. {other} has {b} times as many as {name}, and {third} has {c} "
        "fewer than {other}. How many {things} do the three have together?",
        (_UPTO60, _SMALL, _UPTO60),
        ("d = a * b {things}", "e = d - c {things}", "f = a + d {things}", "g = f + e {things}"),
    ),
    Template(
        "{name} has {a} rows of {b} trees and picks {c} apples from each tree. {He} eats {d} of "
        "the apples and packs the rest into bags of {e}. How many bags does {name} fill?",
        (_SMALL, _SMALL, _UPTO20, _UPTO20, _SMALL),
        ("f = a * b trees", "g = f * c apples", "h = g - d apples", "i = h / e bags"),
    ),
    Template(
        "{name} works {a} hours on Monday and {b} hours on Tuesday for {c} dollars an hour. {He} "
        "spends {d} dollars and shares the rest equally with {other}. How many dollars does each "
        "of the two get?",
        (_SMALL, _SMALL, _UPTO20, _UPTO60),
        ("e = a + b hours", "f = e * c dollars", "g = f - d dollars", "h = g / 2 dollars"),
    ),
    Template(
        "{name} had {a} {things}, gave {b} of them to {other} and {c} to {third}, and then bought "
        "{d} boxes with {e} {things} in each. How many {things} does {name} have now?",
        ((30, 99), _UPTO20, _UPTO20, _SMALL, _UPTO20),
        ("f = a - b {things}", "g = f - c {things}", "h = d * e {things}", "i = g + h {things}"),
    ),
)


def _draw(rng: np.random.Generator, templates: tuple[Template, ...]) -> tuple[str, str, str]:
    template = templates[int(rng.integers(len(templates)))]
    (name, pronoun), (other, _), (third, _) = (
        _PEOPLE[int(k)] for k in rng.permutation(len(_PEOPLE))[:3]
    )
    things, more = (_THINGS[int(k)] for k in rng.permutation(len(_THINGS))[:2])
    for _ in range(_MAX_DRAWS):
        values = [between(rng, *bounds) for bounds in template.ranges]
        numbers = dict(zip("abcde", values, strict=False))
        done = work(template.steps, dict(numbers))
        if done is not None:
            break
    else:
        raise RuntimeError(f"template {template.text!r:.60} has no numbers that fit")
    words = {"name": name, "He": pronoun, "other": other, "third": third, "things": things}
    words["more"] = more
    lines = [
        f"{left} {operator} {right} = {result} {step.split()[5].format(**words)}"
        for step, (left, operator, right, result) in zip(template.steps, done, strict=True)
    ]
    answer = done[-1][3]
    return template.text.format(**words, **numbers), str(answer), worked(lines, answer)


_LEVELS = {
    1: Level(partial(_draw, templates=ONE_STEP), Longest(question=110, solution=40)),
    2: Level(partial(_draw, templates=TWO_STEPS), Longest(question=160, solution=64)),
    3: Level(partial(_draw, templates=THREE_STEPS), Longest(question=190, solution=90)),
    4: Level(partial(_draw, templates=FOUR_STEPS), Longest(question=220, solution=120)),
}


def word(*, split: str = "train", level: int | None = None) -> ProceduralSet:
    """Word problems in plain English, which a pretrained model can read.

    Args:
        split: "train", "validation" or "test"; no question is in two of them.
        level: 1 to 4: how many steps of arithmetic (default 1).

    >>> problem = word(level=2).problem(23)
    >>> print(problem.question)
    Lucy buys 7 bags with 16 pens in each and gives away 18 pens. How many pens does Lucy have left?
    >>> print(problem.solution)
    7 * 16 = 112 pens
    112 - 18 = 94 pens
    #### 94
    """
    return ProceduralSet("word", _LEVELS, split=split, level=level, default=1)
