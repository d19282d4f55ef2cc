"""Problem sources by name: procedural families and data sets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from graders.resolve import nearest, resolve
from lang_env.problem import Problem, ProblemList, ProblemSet

SOURCES = {
    "chain": "lang_env.sources.procedural:chain",
    "gsm8k": "lang_env.sources.gsm8k:gsm8k",
    "ledger": "lang_env.sources.procedural:ledger",
    "programs": "lang_env.sources.procedural:programs",
}
"""Short names of the sources, each with the function that makes the problem set."""

SPLITS = ("train", "validation", "test")
"""The parts of a source; training reads the first, and tunes on the second."""

Problems = str | ProblemSet | Sequence[Problem] | Callable[..., ProblemSet]
"""What ``problems=`` takes."""


def load_problems(
    problems: Problems,
    *,
    data: str | Path | None = None,
    split: str = "train",
    level: int | str | None = None,
) -> ProblemSet:
    """Returns the problem set that ``problems`` stands for.

    Args:
        problems: A key of ``SOURCES``, ``"pkg.mod:attr"``, a function that makes a problem set
            (called with those of ``split``, ``data`` and ``level`` that it names), a ProblemSet,
            or a sequence of Problem. The last two have no splits: they are used for each.
        data: Folder or file, for a source that reads one.
        split: "train", "validation" or "test".
        level: Difficulty, for a source that has levels.

    Raises:
        ValueError: Unknown name or split, or a source that does not take ``data`` or ``level``.

    >>> load_problems("ledger", level=2).problem(0).level
    '2'
    """
    if split not in SPLITS:
        raise ValueError(
            f"unknown split {split!r}.{nearest(str(split), SPLITS)} Known: {', '.join(SPLITS)}"
        )
    given = {name: value for name, value in (("data", data), ("level", level)) if value is not None}
    source: Any = resolve(problems, SOURCES, "problems") if isinstance(problems, str) else problems
    if callable(source) and (isinstance(source, type) or not isinstance(source, ProblemSet)):
        return _made(source, problems, given, split)
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
            raise ValueError(f"problems={name!r:.60} takes no {option}, got {given[option]!r}")
    if takes_all or "split" in parameters:
        given = {**given, "split": split}
    return _checked(maker(**given), name)


def _checked(source: Any, name: Problems) -> ProblemSet:
    if isinstance(source, Sequence) and not isinstance(source, str):
        if not all(isinstance(problem, Problem) for problem in source):
            raise ValueError("problems must hold lang_env.Problem objects only")
        return ProblemList(source)
    if not isinstance(source, ProblemSet):
        raise ValueError(
            f"problems={name!r:.60} is a {type(source).__name__}, neither a ProblemSet nor a "
            "sequence of Problem"
        )
    return source
