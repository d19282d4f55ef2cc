"""How a comparison shows itself: a live table of what runs, or plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from agents.analysis.comparison_tables import Table
from agents.analysis.jobs import Job, Progress
from agents.analysis.variants import Run
from agents.core.views import inert, time_text


class ComparisonView:
    """Shows batches of runs; a context manager, so that the terminal is given back."""

    def __init__(self, *, plain: bool = False, console: Console | None = None) -> None:
        """Shows on ``console`` (None: standard output), without live parts if ``plain``."""
        self._console = console or Console(force_terminal=sys.stdout.isatty())
        self._is_live = self._console.is_terminal and not plain
        self._live: Live | None = None
        self._about, self._started, self._first = "", time.monotonic(), None

    def __enter__(self) -> Self:
        """Takes the terminal only when something runs."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Gives the terminal back."""
        self.close()

    def line(self, text: str) -> None:
        """Shows a line that stays."""
        self._console.print(Text(inert(text)), soft_wrap=True)
        self._console.file.flush()  # a log file is to be followed

    def begin(self, about: str) -> None:
        """Says which batch of runs comes."""
        self.close()
        self._about, self._started = about, time.monotonic()

    def progress(self, progress: Progress) -> None:
        """Shows where the batch stands; a line for each run that ends."""
        if progress.ended is not None:
            run, finished = progress.ended
            end = "finished" if finished else "did not finish"
            self.line(f"[{progress.done}/{progress.total}] {self._about}: {_name(run)} {end}")
        if not self._is_live:
            return
        if self._live is None and progress.running:
            self._live = Live(console=self._console, refresh_per_second=4)
            self._live.start()
        if self._live is not None:
            self._live.update(self._drawn(progress))
            if progress.done == progress.total:
                self.close()

    def tables(self, tables: Sequence[Table]) -> None:
        """Shows tables."""
        self.close()
        for table in tables:
            drawn = RichTable(title=table.title, title_justify="left", header_style="bold")
            for place, heading in enumerate(table.headings):
                drawn.add_column(heading, justify="right" if place else "left")
            for row in table.rows:
                drawn.add_row(*(Text(inert(cell)) for cell in row))
            self._console.print(drawn)
            if table.note:
                self._console.print(Text(table.note, style="dim"))

    def close(self) -> None:
        """Ends the live part; closing twice does nothing more."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _drawn(self, progress: Progress) -> Group:
        elapsed = time_text(time.monotonic() - self._started)
        grid = RichTable.grid(padding=(0, 2, 0, 0), expand=True)
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1)
        grid.add_column(no_wrap=True)
        grid.add_row(
            Text(self._about, style="bold"),
            ProgressBar(float(progress.total), float(progress.done)),
            Text(f"{progress.done}/{progress.total} runs  {elapsed} elapsed"),
        )
        for job in progress.running:
            total, done = job.run.config.iterations, job.iterations
            bar = ProgressBar(float(total), float(done))
            grid.add_row(Text(f"  {inert(_name(job.run))}"), bar, _state(job, done, total))
        return Group(grid)


def _name(run: Run) -> str:
    return f"{run.variant} seed {run.config.seed}"


def _state(job: Job, done: int, total: int) -> Text:
    seconds = time.monotonic() - job.started
    left = f"  {time_text(seconds / done * (total - done))} left" if done else ""
    return Text(f"{done}/{total} iterations{left}")
