"""What the rest of a program's working depends on: a name that many wordings of a state share."""

from __future__ import annotations

import re

from lang_env.sources.procedural.program import Program, parse_program

_ASKED = re.compile(r"[a-j]\?")
_LINE = re.compile(r"\d([-+*])(\d):([a-j])=(\d)")
_LOOK_UP = re.compile(r"([a-j])=(\d)")

ProgramState = tuple[int, tuple[tuple[str, int], ...], str]
"""Lines written, the value that each variable has now, and the text of the unfinished line."""


def program_state(text: str) -> ProgramState | None:
    r"""Returns the state of a working: how far it is, and the current value of each variable.

    Two workings with the same state go on in the same way if every line is made from the question
    and the current values, as in the demonstrations: not from values that were overwritten since.
    Every variable counts, also one that is not asked, as the look-up may read it by mistake; after
    the look-up, what it gave is all that counts. The number that a line repeats before it computes
    counts no more.

    Args:
        text: The question, a newline, and the working so far.

    Returns:
        The state; None where the text is no program or its working departs from the form, so that
        only all of its tokens say how it may go on.

    >>> program_state("a:=3+4;\na:=a*7;\nb:=8-9;\na?\n3+4:a=7\n7*7:a=9\n8-")
    (2, (('a', 9),), '8-')
    >>> program_state("a:=3+4;\nb:=8-9;\na?\n3+4:a=7\n8-9:b=1\na=7\n")
    (3, (('#', 7),), '')
    >>> program_state("a:=3+4;\na:=a*7;\na?\n3+4:a=8\n9*7:a=9\n") == program_state(
    ...     "a:=3+4;\na:=a*7;\na?\n3+4:a=7\n7*7:a=9\n"
    ... )
    True
    >>> program_state("a:=3+4;\na?\nLet me think.\n") is None
    True
    """
    lines = text.split("\n")
    asked = [number for number, line in enumerate(lines) if _ASKED.fullmatch(line)]
    if len(asked) != 1:
        return None
    try:
        program = parse_program("\n".join(lines[: asked[0] + 1]))
    except ValueError:
        return None
    *written, unfinished = lines[asked[0] + 1 :] or [""]
    values: dict[str, int] = {}
    for number, line in enumerate(written):
        found = _result(program, number, line)
        if found is None:
            return None
        values = {**values, **found} if number < len(program.statements) else found
    return len(written), tuple(sorted(values.items())), unfinished


def _result(program: Program, number: int, line: str) -> dict[str, int] | None:
    """Returns the variable that a line of the working sets, and its value; None: another form."""
    if number > len(program.statements):
        return None
    if number == len(program.statements):
        look_up = _LOOK_UP.fullmatch(line)
        return {"#": int(look_up[2])} if look_up and look_up[1] == program.asked else None
    step, match = program.statements[number], _LINE.fullmatch(line)
    if match is None or match.groups()[:3] != (step.operator, str(step.right), step.target):
        return None
    return {step.target: int(match[4])}
