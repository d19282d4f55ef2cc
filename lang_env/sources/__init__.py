"""Problem sources by name: procedural families and data sets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from graders.resolve import nearest, resolve
from lang_env.problem import Problem, ProblemSet
from lang_env.sources.lists import listed
from lang_env.sources.mixture import Mixture
from lang_env.sources.reasoning_gym import PREFIX, ReasoningGymSet

SOURCES = {
    "chain": "lang_env.sources.procedural:chain",
    "fractions": "lang_env.sources.procedural:fractions",
    "gcd_lcm": "lang_env.sources.procedural:gcd_lcm",
    "gsm8k": "lang_env.sources.gsm8k:gsm8k",
    "jsonl": "lang_env.sources.jsonl:jsonl",
    "ledger": "lang_env.sources.procedural:ledger",
    "linear": "lang_env.sources.procedural:linear",
    "math": "lang_env.sources.math:math",
    "math500": "lang_env.sources.math:math500",
    "olympiadbench": "lang_env.sources.olympiad:olympiadbench",
    "programs": "lang_env.sources.procedural:programs",
    "remainders": "lang_env.sources.procedural:remainders",
    "sequences": "lang_env.sources.procedural:sequences",
    "word": "lang_env.sources.procedural:word",
}
"""Short names of the sources, each with the function that makes the problem set."""

SPLITS = ("train", "validation", "test")
"""The parts of a source; training reads the first, and tunes on the second."""

Problems = (
    str
    | Sequence[str]
    | ProblemSet
    | Sequence[Problem]
    | Mapping[str, Sequence[Problem]]
    | Callable[..., ProblemSet]
)
"""What ``problems=`` takes."""


def load_problems(
    problems: Problems,
    *,
    split: str = "train",
    **options: Any,
) -> ProblemSet:
    """Returns the problem set that ``problems`` stands for.

    Args:
        problems: A key of ``SOURCES``, ``"reasoning_gym:TASK"``, ``"pkg.mod:attr"``, a list of
            such names (an equal mixture; a name given twice comes twice as often), a function that
            makes a problem set (called with ``options``, and with ``split`` if it names it), a
            ProblemSet, a sequence of Problem, or split -> sequence of Problem. A ProblemSet has no
            splits: it is used for each, and so is a sequence without ``holdout``.
        split: "train", "validation" or "test".
        options: Those of the source, such as ``data``, ``level`` or ``levels``; None: not given.

    Raises:
        ValueError: Unknown name or split, or an option that the source does not take.

    >>> load_problems("ledger", level=2).problem(0).level
    '2'
    >>> mixture = load_problems(["word", "linear"], level=1)
    >>> [mixture.problem(index).subject for index in range(4)]
    ['word', 'linear', 'word', 'linear']
    """
    if split not in SPLITS:
        raise ValueError(
            f"unknown split {split!r}.{nearest(str(split), SPLITS)} Known: {', '.join(SPLITS)}"
        )
    if isinstance(problems, str) and problems.startswith(PREFIX):
        maker = partial(ReasoningGymSet, problems.removeprefix(PREFIX))
        given = {name: value for name, value in options.items() if value is not None}
        return _made(maker, problems, given, split)
    if isinstance(problems, list | tuple) and problems and isinstance(problems[0], str):
        names = [str(name) for name in problems]
        parts = {name: load_problems(name, split=split, **options) for name in dict.fromkeys(names)}
        return Mixture(parts, names)
    given = {name: value for name, value in options.items() if value is not None}
    source: Any = resolve(problems, SOURCES, "problems") if isinstance(problems, str) else problems
    if callable(source) and (isinstance(source, type) or not isinstance(source, ProblemSet)):
        return _made(source, problems, given, split)
    if isinstance(source, Mapping) or (
        isinstance(source, Sequence) and not isinstance(source, str | ProblemSet)
    ):
        return _made(partial(listed, source), problems, given, split)
    if given:
        raise ValueError(
            f"problems={problems!r:.60} is a ready set of problems and takes no "
            f"{' or '.join(given)}"
        )
    return _checked(source, problems)


def _made(maker: Any, name: Problems, given: dict[str, Any], split: str) -> ProblemSet:
    parameters = inspect.signature(maker).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for option in given:
        if not takes_all and option not in parameters:
            raise ValueError(
                f"problems={name!r:.60} takes no {option}, got {given[option]!r}."
                f"{nearest(option, parameters)} It takes: {', '.join(parameters)}"
            )
    if takes_all or "split" in parameters:
        given = {**given, "split": split}
    return _checked(maker(**given), name)


def _checked(source: Any, name: Problems) -> ProblemSet:
    if isinstance(source, Sequence) and not isinstance(source, str | ProblemSet):
        return listed(source)
    if not isinstance(source, ProblemSet):
        raise ValueError(
            f"problems={name!r:.60} is a {type(source).__name__}, neither a ProblemSet nor a "
            "sequence of Problem"
        )
    return source
