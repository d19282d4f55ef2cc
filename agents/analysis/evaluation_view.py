"""An evaluation on a terminal: a bar while it samples, then its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from agents.core.views import inert

_COLUMNS = ("unfinished", "no_answer", "undecided", "tokens")
_SHORT = {"unfinished": "cut", "no_answer": "none", "undecided": "open"}


class EvaluationView:
    """Shows progress on stderr and results on stdout."""

    def __init__(self) -> None:
        """Starts nothing."""
        self._errors = Console(stderr=True)
        self._bar = Progress(
            TextColumn("samples"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[tokens]} tokens"), console=self._errors, transient=True,
            disable=not self._errors.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=None, tokens=0)
        self._tokens = 0

    def __enter__(self) -> Self:
        """Starts the bar, where stderr is a terminal."""
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Takes the bar away."""
        self._bar.stop()

    def begin(self, total: int, done: int) -> None:
        """Says how many samples there are, and how many were there already."""
        self._bar.update(self._task, total=total, completed=done)
        if done:
            self.line(f"{done} of {total} samples are there already")

    def advance(self, items: int, tokens: int) -> None:
        """Counts finished samples and their tokens."""
        self._tokens += tokens
        self._bar.update(self._task, advance=items, tokens=self._tokens)

    def line(self, text: str) -> None:
        """Shows a line on stderr."""
        self._errors.print(Text(text))

    def results(self, results: Sequence[Mapping[str, Any]], folder: Path) -> None:
        """Shows the tables, and where the files are."""
        self._bar.stop()
        console = Console()
        for result in results:
            console.print(table_of(result))
        console.print(Text(f"saved in {folder}: evaluation.json, samples.jsonl"))


def table_of(result: Mapping[str, Any]) -> Table:
    """Returns one setting's table: a line for all problems, and one for each level and subject."""
    measures = result["measures"]
    rates = [name for name in measures if name not in _COLUMNS]
    shown = [rates[0], *[name for name in rates if name.endswith(f"@{_most(rates)}")][:2]]
    title = f"{result['split']}, {result['label']}, iteration {result['iteration']} "
    caption = "%, 95 % intervals; cut: unfinished, none: no answer, open: undecided"
    table = Table(caption=caption, caption_justify="left", title=Text(title), title_justify="left")
    table.add_column("problems", min_width=8)
    for name in dict.fromkeys([*shown, *_COLUMNS]):  # an interval may stand below its number
        table.add_column(_SHORT.get(name, name), justify="right")
    lines = {"all": measures} | {
        f"{kind} {name}": part
        for kind, parts in result["by"].items()
        for name, part in parts.items()
    }
    for name, part in lines.items():
        cells = [Text(inert(f"{name} ({part[rates[0]]['n']})"))]
        cells += [Text(_rate(part[column])) for column in dict.fromkeys(shown)]
        cells += [Text(f"{100 * part[column]['mean']:.1f}") for column in _COLUMNS[:-1]]
        cells.append(Text(f"{part['tokens']['mean']:.1f}"))
        table.add_row(*cells)
    return table


def _most(rates: Sequence[str]) -> int:
    return max(int(name.partition("@")[2]) for name in rates)


def _rate(interval: Mapping[str, float]) -> str:
    low, high = 100 * interval["low"], 100 * interval["high"]
    return f"{100 * interval['mean']:.1f} ({low:.0f}-{high:.0f})"
