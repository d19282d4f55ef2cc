"""Which problems of a data set are used: by level, by subject, and which are held out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b

from graders.resolve import nearest
from lang_env.problem import Problem

Level = int | str


def text_hash(text: str, key: str = "") -> str:
    r"""Returns 12 hexadecimal digits of a text's hash; runs of white space count as one space.

    >>> text_hash("a  b\n") == text_hash("a b"), text_hash("a b") == text_hash("a c")
    (True, False)
    """
    data = " ".join(text.split()).encode()
    return blake2b(data, digest_size=6, key=key.encode()[:64]).hexdigest()


def select(
    problems: Sequence[Problem],
    *,
    levels: Level | Sequence[Level] | None = None,
    subjects: str | Sequence[str] | None = None,
) -> list[Problem]:
    """Returns the problems of some levels and subjects, in their order.

    Args:
        problems: All problems.
        levels: Such as 3 or ["1", "Level 2"]; None: all.
        subjects: Such as "algebra"; case, spaces and "&" or "and" do not matter. None: all.

    Raises:
        ValueError: No problem has such a level or subject; names the nearest.

    >>> problems = [Problem("a", "1?", "1", level="1"), Problem("b", "2?", "2", level="2")]
    >>> [problem.id for problem in select(problems, levels=2)]
    ['b']
    >>> select(problems, levels=[5])
    Traceback (most recent call last):
        ...
    ValueError: no problem has level 5. Known: 1, 2
    """
    chosen = _chosen(problems, levels, "level", lambda problem: problem.level, level_name)
    return _chosen(chosen, subjects, "subject", lambda problem: problem.subject, _subject_key)


def level_name(level: Level) -> str:
    """Returns a level without the word: ``"Level 3"`` and 3 are "3".

    >>> level_name("Level 3"), level_name(3), level_name("hard")
    ('3', '3', 'hard')
    """
    return re.sub(r"(?i)^level\s+", "", str(level).strip())


def _subject_key(subject: str) -> str:
    words = re.findall(r"[^\W_]+", str(subject).lower())
    return " ".join(word for word in words if word != "and")


def _chosen(
    problems: Sequence[Problem],
    wanted: Level | Sequence[Level] | None,
    what: str,
    value: Callable[[Problem], str],
    key: Callable[[str], str],
) -> list[Problem]:
    if wanted is None:
        return list(problems)
    listed = [wanted] if isinstance(wanted, int | str) else list(wanted)
    if not listed:
        raise ValueError(f"{what}s must name at least one {what}, got {wanted!r}")
    known = {key(value(problem)): value(problem) for problem in problems}
    known.pop("", None)
    for name in listed:
        if key(str(name)) not in known:
            hint = nearest(key(str(name)), known) if isinstance(name, str) else ""
            names = ", ".join(sorted(known.values())[:40]) or "none, the data names no " + what
            raise ValueError(f"no problem has {what} {name!r}.{hint} Known: {names}")
    keys = {key(str(name)) for name in listed}
    return [problem for problem in problems if key(value(problem)) in keys]


def held_out(
    problems: Sequence[Problem], fraction: float, seed: int = 0
) -> tuple[list[Problem], list[Problem]]:
    """Splits problems into those to train on and those to validate on.

    Which are held out depends on the questions and the seed, not on order. Equal questions stay
    together, so that no question is on both sides.

    Args:
        problems: All problems.
        fraction: Share of the questions to hold out, at least one of them; 0: none.
        seed: Another seed holds out others.

    Returns:
        Training and validation problems, each in their order.

    Raises:
        ValueError: The fraction is not in [0, 1), or there are not two different questions.

    >>> problems = [Problem(str(i), f"{i}+1?", str(i + 1)) for i in range(10)]
    >>> train, validation = held_out(problems, 0.2)
    >>> len(train), len(validation)
    (8, 2)
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"holdout must be a share of the problems in [0, 1), got {fraction!r}")
    if fraction == 0:
        return list(problems), []
    keys = [text_hash(problem.question, f"holdout {seed}") for problem in problems]
    ranked = sorted(set(keys))
    if len(ranked) < 2:
        raise ValueError(
            f"holdout={fraction} needs two different questions, got {len(ranked)}. Add problems, "
            "or pass holdout=0 to hold out none."
        )
    out = set(ranked[: min(len(ranked) - 1, max(1, round(fraction * len(ranked))))])
    pairs = list(zip(keys, problems, strict=True))
    return [p for key, p in pairs if key not in out], [p for key, p in pairs if key in out]
