"""The live view of a terminal: phase bars, a row per iteration, one answer coloured by advantage.

Everything is drawn from what the training loop last said; the drawing thread never waits for the
loop, and the loop never for the drawing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agents.core.records import Interval, Sample
from agents.core.sample_view import draw_sample, sample_height
from agents.core.views import (
    COLUMNS,
    Column,
    Pace,
    PhaseState,
    Summary,
    cell_of,
    count_text,
    inert,
    time_text,
)

_MAX_ROWS = 12
_MIN_ROWS = 3
_MIN_SAMPLE = 5  # lines: border, question and two steps
_NAME_WIDTH = 21
_BAR_STYLE = "#4393c3"
_Row = tuple[int, Mapping[str, Any]]
_REFRESH_PER_SECOND = 4


class LiveView:
    """Draws a run on a terminal with rich; see ``agents.core.views.View`` for the calls."""

    def __init__(self, console: Console, iterations: int) -> None:
        """Draws on ``console``; ``iterations`` is how many the run will have."""
        self._console = console
        self._iterations = iterations
        self._iteration = 0
        self._done = 0
        self._started = time.perf_counter()
        self._pace = Pace(iterations)
        self._phases: dict[str, PhaseState] = {}
        self._rows: tuple[_Row, ...] = ()
        self._widths: dict[Column, int] = {}
        self._accuracies: dict[str, Mapping[str, Interval]] = {}
        self._sample: tuple[Sample, int] | None = None
        self._live: Live | None = None

    def header(self, title: str, info: Mapping[str, str]) -> None:
        """Prints what is run; it stays above the live part."""
        grid = Table.grid(padding=(0, 2))
        for name, value in info.items():
            grid.add_row(Text(inert(name), style="dim"), Text(inert(value)))
        heading = Text(inert(title), style="bold")
        self._console.print(Panel(grid, title=heading, title_align="left"))

    def phase(self, state: PhaseState, iteration: int) -> None:
        """Adds the phase's bar; the bars of the iteration before are dropped."""
        if iteration != self._iteration:
            self._iteration, self._phases = iteration, {}
        if state.name != "evaluation":
            self._pace.begin(iteration)
        self._phases = {**self._phases, state.name: state}
        self._start()

    def iteration(self, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Adds the iteration's row."""
        self._pace.end(iteration)
        self._done = iteration
        self._rows = (*self._rows, (iteration, metrics))[-_MAX_ROWS:]
        self._widths = _widened(self._widths, metrics)
        self._start()

    def sample(self, sample: Sample, iteration: int) -> None:
        """Replaces the answer that is shown."""
        self._sample = (sample, iteration)

    def evaluation(self, label: str, results: Mapping[str, Interval]) -> None:
        """Shows the accuracies; before training and the newest are kept."""
        kept = {name: old for name, old in self._accuracies.items() if name == "before"}
        self._accuracies = {**kept, label: results}

    def summary(self, summary: Summary) -> None:
        """Ends the live part and prints the final panel under it."""
        self.close()
        self._console.print(_draw_summary(summary))
        # Outside the panel and unwrapped, so that they can be copied.
        self._console.print(Text(f"saved in {inert(summary.folder)}"), soft_wrap=True)
        for command in summary.next_commands:
            self._console.print(Text(f"next: {inert(command)}", style="bold"), soft_wrap=True)

    def close(self) -> None:
        """Stops drawing and shows the cursor again."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _start(self) -> None:
        if self._live is None:
            self._live = Live(self, console=self._console, refresh_per_second=_REFRESH_PER_SECOND)
            self._live.start()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draws what fits: rows of the table give way first, then the sample."""
        top: list[RenderableType] = [self._draw_progress(), self._draw_phases()]
        used = 1 + len(self._phases) + len(self._accuracies)
        if self._accuracies:
            top.append(_draw_accuracies(self._accuracies))
        room = console.height - used - 3  # the table's heading, a blank line above and below it
        parts = [*top]
        sample_room = 0
        if self._sample is not None:
            sample_room = min(sample_height(self._sample[0]), room - _MIN_ROWS)
            sample_room = sample_room if sample_room >= _MIN_SAMPLE else 0
        if self._rows:
            count = max(_MIN_ROWS, min(_MAX_ROWS, room - sample_room))
            parts += ["", _draw_rows(self._rows[-count:], self._widths, options.max_width)]
        if self._sample is not None and sample_room:
            parts += ["", draw_sample(*self._sample, sample_room)]
        yield Group(*parts)

    def _draw_progress(self) -> Table:
        current = min(self._iteration, self._iterations)
        elapsed = time_text(time.perf_counter() - self._started)
        left = self._pace.seconds_left()
        clock = f"{elapsed} elapsed" + ("" if left is None else f", {time_text(left)} left")
        name = Text(f"iteration {current} of {self._iterations}", style="bold")
        return _bar_row(name, self._done, self._iterations, Text(clock))

    def _draw_phases(self) -> Table:
        grid = _bar_grid()
        for state in self._phases.values():
            style = "" if state.ended is None else "dim"
            grid.add_row(
                Text(f"  {state.name}", style=style),
                _bar(state.done, state.total, ended=state.ended is not None),
                _one_line(_phase_text(state), style),
            )
        return grid


def _bar_grid() -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(width=_NAME_WIDTH, no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_column(width=42, no_wrap=True, overflow="ellipsis")
    return grid


def _bar_row(name: Text, done: int, total: int, about: Text) -> Table:
    grid = _bar_grid()
    grid.add_row(name, _bar(done, total, ended=False), about)
    return grid


def _bar(done: int, total: int | None, *, ended: bool) -> ProgressBar:
    finished = ended and total is None
    return ProgressBar(
        total=1.0 if finished else total and float(total),
        completed=1.0 if finished else float(done),
        complete_style=_BAR_STYLE,
        finished_style=f"{_BAR_STYLE} dim" if ended else _BAR_STYLE,
        pulse_style=_BAR_STYLE,
    )


def _phase_text(state: PhaseState) -> str:
    """Returns for example ``32/64  1.2k tok/s  8.0/s  0:04 left``."""
    parts = [f"{state.done}/{state.total}" if state.total is not None else f"{state.done}"]
    seconds = max(state.seconds, 1e-9)
    if state.done:
        parts.append(f"{count_text(state.done / seconds)}/s")
    if state.tokens:
        parts.append(f"{count_text(state.tokens / seconds)} tok/s")
    left = state.seconds_left
    if state.ended is not None:
        parts.append(f"{seconds:.1f} s")
    elif left is not None:
        parts.append(f"{time_text(left)} left")
    return "  ".join(parts)


def _draw_accuracies(accuracies: Mapping[str, Mapping[str, Interval]]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=_NAME_WIDTH, no_wrap=True)
    grid.add_column(no_wrap=True)
    for label, results in accuracies.items():
        cells = "   ".join(f"{name} {100 * i.mean:.1f} %" for name, i in results.items())
        grid.add_row(_one_line(f"accuracy {label}"), _one_line(cells))
    return grid


def _one_line(text: str, style: str = "") -> Text:
    return Text(inert(text), style=style, no_wrap=True, overflow="ellipsis")


def _draw_rows(rows: tuple[_Row, ...], widths: Mapping[Column, int], width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("iteration", justify="right", no_wrap=True)
    columns = _columns_that_fit(widths, width - len("iteration"))
    for column in columns:
        table.add_column(
            column.heading, justify="right", no_wrap=True, min_width=min(widths[column], width)
        )
    for iteration, metrics in rows:
        table.add_row(str(iteration), *(cell_of(column, metrics) for column in columns))
    return table


def _widened(widths: Mapping[Column, int], metrics: Mapping[str, Any]) -> dict[Column, int]:
    """Returns the width of every column that has had a number, with one more row's."""
    cells = {column: len(cell_of(column, metrics)) for column in COLUMNS}
    return {
        column: max(len(column.heading), widths.get(column, 0), width)
        for column, width in cells.items()
        if width or column in widths
    }


def _columns_that_fit(widths: Mapping[Column, int], room: int) -> list[Column]:
    """Returns the columns for which there is room, those of low rank first, in their order."""
    kept = set()
    for column in sorted(widths, key=lambda column: column.rank):
        room -= 2 + widths[column]
        if room >= 0:
            kept.add(column)
    return [column for column in COLUMNS if column in kept]


def _draw_summary(summary: Summary) -> Panel:
    parts: list[RenderableType] = []
    if summary.before or summary.after:
        parts += [_draw_gains(summary.before, summary.after), ""]
    phases = _plain_table("phase", "seconds", "CPU seconds", "tokens")
    clock = summary.clock
    for name, seconds in clock.seconds.items():
        tokens = count_text(clock.tokens[name]) if clock.tokens[name] else ""
        phases.add_row(name, f"{seconds:.1f}", f"{clock.cpu_seconds[name]:.1f}", tokens)
    phases.add_row("whole run", f"{summary.seconds:.1f}", f"{summary.cpu_seconds:.1f}", "")
    title = f"finished {summary.iterations} of {summary.planned} iterations"
    return Panel(Group(*parts, phases), title=Text(title, style="bold"), title_align="left")


def _draw_gains(before: Mapping[str, Interval], after: Mapping[str, Interval]) -> RenderableType:
    table = _plain_table("accuracy", "before", "after", "change")
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        change = f"{100 * (new.mean - old.mean):+.1f}" if old and new else ""
        table.add_row(inert(name), str(old or ""), Text(str(new or ""), style="bold"), change)
    n = next(iter({**before, **after}.values())).n
    return Group(table, Text(f"95 % intervals over {n} problems", style="dim"))


def _plain_table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    return table
