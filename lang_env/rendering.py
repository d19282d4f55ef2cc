"""An episode on a terminal: problem, response with its steps told apart, flags and score.

Everything that a model or a data set wrote is data: no markup in it is interpreted, and no
character in it reaches the terminal as a control code.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from lang_env.problem import Problem
from lang_env.snapshot import Outcome

WIDTH = 100
"""Columns of a drawing that is returned as text."""

_STEP_STYLES = ("default", "cyan")  # neighbours differ
_VERDICT_STYLES = {"correct": "bold green", "wrong": "bold red"}
_ACTING = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # control, format, surrogate, ...


def inert(text: str) -> str:
    r"""Returns ``text`` with every character that a terminal might act on written as an escape.

    Newlines stay, a tab becomes spaces.

    >>> inert("a\n\x1b[31mb")
    'a\n\\x1b[31mb'
    """
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if character != "\n" and unicodedata.category(character) in _ACTING
        else character
        for character in text.replace("\t", "    ")
    )


def draw_episode(
    problem: Problem, steps: Sequence[str], outcome: Outcome | None, used: int, budget: int
) -> RenderableType:
    """Returns a drawing of one episode.

    Args:
        problem: Its id and question are shown.
        steps: Text of each reasoning step so far.
        outcome: How the episode ended, or None while it is running.
        used: Tokens of the response.
        budget: Most tokens it may have.
    """
    response = Table.grid(padding=(0, 1))
    response.add_column(justify="right", style="dim", no_wrap=True)
    response.add_column(overflow="fold")
    for number, step in enumerate(steps, start=1):
        style = _STEP_STYLES[number % len(_STEP_STYLES)]
        response.add_row(str(number), Text(inert(step.removesuffix("\n")), style=style))
    return Group(
        Panel(
            Text(inert(problem.question)),
            title=Text(inert(problem.id).replace("\n", " ")),
            title_align="left",
        ),
        response,
        _status(problem, outcome, used, budget),
    )


def draw_text(drawing: RenderableType) -> str:
    """Returns a drawing as text with ANSI colours, the same on every machine."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=WIDTH,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        no_color=False,
        _environ={},
    )
    console.print(drawing)
    return file.getvalue()


def _status(problem: Problem, outcome: Outcome | None, used: int, budget: int) -> Text:
    status = Text().append(f"{used} of {budget} tokens", style="dim")
    if outcome is None:
        return status.append("  running")
    status.append("  terminated  " if outcome.terminated else "  truncated  ")
    verdict = inert(outcome.verdict).replace("\n", " ")
    status.append(verdict, style=_VERDICT_STYLES.get(outcome.verdict, "bold yellow"))
    status.append(f"  score {outcome.score:g}")
    if outcome.extracted:
        status.append(f"  answered {_line(outcome.extracted)}, expected {_line(problem.answer)}")
    return status


def _line(text: str) -> str:
    return repr(inert(text))[1:-1].replace("\\\\", "\\")[:WIDTH]
