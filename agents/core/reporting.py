"""The reporter: every number of a run goes to the screen, the run folder and the logger.

::

    with Reporter(folder, config, agent="vineppo") as report:
        report.header({"model": "tiny, 0.4M parameters"})
        report.evaluation("before", {"greedy": accuracy_interval(scores)})
        for _ in range(config.iterations):
            with report.phase("rollout", total=64) as phase:
                phase.advance(8, tokens=512)
            report.iteration({"reward": 0.4, "kl": 1e-4})
        report.summary({})
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console

from agents.core.live import LiveView
from agents.core.loggers import WRITES_EVENTS
from agents.core.options import Options
from agents.core.records import Interval, PhaseClock, Sample, accuracy_interval
from agents.core.run_folder import NoFiles, RunFiles, prepare_run_folder
from agents.core.views import Nowhere, PhaseState, PlainView, Summary, View

__all__ = ["Interval", "Reporter", "Sample", "accuracy_interval", "prepare_run_folder"]

_AROUND_TRAINING = ("before", "after")


class Phase:
    """The handle of a running phase."""

    def __init__(self, state: PhaseState, clock: PhaseClock, name: str) -> None:
        """Counts into ``state`` and, under the clock's own ``name``, into ``clock``."""
        self._state, self._clock, self._name = state, clock, name

    def advance(self, items: int = 1, tokens: int = 0) -> None:
        """Counts finished items and the tokens that they took."""
        self._state.done += items
        self._state.tokens += tokens
        self._clock.tokens[self._name] += tokens

    def expect(self, total: int) -> None:
        """Sets how many items there are, where that was unknown at the start."""
        self._state.total = total


class Reporter:
    """Shows a run and records it; a context manager around the training loop.

    Attributes:
        clock: Seconds, CPU seconds and tokens by phase so far.
    """

    def __init__(
        self,
        run_dir: Path | str,
        config: Options,
        *,
        agent: str,
        console: Console | None = None,
        plain: bool | None = None,
        first_iteration: int = 1,
        writes: bool = True,
    ) -> None:
        """Prepares a reporter; files are opened on entry.

        Args:
            run_dir: The folder that ``prepare_run_folder`` returned.
            config: The run's configuration.
            agent: The algorithm's name.
            console: Where to show the run; None: standard output.
            plain: Plain lines instead of the live view; None: as the config says, and always
                where the output is not a terminal.
            first_iteration: 1, or the one after the checkpoint that a run goes on from.
            writes: False: neither files nor a view, for all but the first of several processes.
        """
        self.clock = PhaseClock()
        self._folder, self._config, self._agent = Path(run_dir), config, agent
        self._iterations = int(getattr(config, "iterations", 0))
        self._next = self._current = first_iteration
        self._evaluations: dict[str, dict[str, Interval]] = {}
        self._unmerged: dict[str, float] = {}
        self._spent: tuple[float, ...] = (0.0, 0.0)
        self._started = (time.perf_counter(), time.process_time())
        # FORCE_COLOR alone, as CI sets it, does not make a log file a terminal.
        console = console or Console(force_terminal=sys.stdout.isatty())
        wants_plain = getattr(config, "plain", False) if plain is None else plain
        self._view: View
        self._writes = writes
        if not writes:
            self._view = Nowhere()
        elif wants_plain or not console.is_terminal or console.is_dumb_terminal:
            self._view = PlainView(console.file, self._iterations)
        else:
            self._view = LiveView(console, self._iterations)
        self._files: RunFiles | NoFiles | None = None

    def __enter__(self) -> Self:
        """Writes ``config.yaml`` and opens the run's files."""
        self._files = RunFiles(self._folder, self._config) if self._writes else NoFiles()
        self._started = (time.perf_counter(), time.process_time())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Gives the terminal back and closes the files, also after an error or Ctrl-C."""
        try:
            self._view.close()
        finally:
            self._open_files.close()

    def state(self) -> dict[str, Any]:
        """Returns clock and evaluations, for a checkpoint."""
        return {
            "clock": self.clock.state(),
            "total": self._totals(),
            "evaluations": {
                label: {name: asdict(interval) for name, interval in results.items()}
                for label, results in self._evaluations.items()
            },
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        self.clock.load_state(state["clock"])
        self._spent = tuple(state["total"])
        self._evaluations = {
            label: {name: Interval(**interval) for name, interval in results.items()}
            for label, results in state["evaluations"].items()
        }

    def evaluated(self, label: str) -> bool:
        """Returns whether ``evaluation`` was called with this label, now or before a checkpoint."""
        return label in self._evaluations

    def _totals(self) -> tuple[float, float]:
        """Returns wall-clock and CPU seconds of the run, before and after checkpoints."""
        return (
            self._spent[0] + time.perf_counter() - self._started[0],
            self._spent[1] + time.process_time() - self._started[1],
        )

    @property
    def _open_files(self) -> RunFiles | NoFiles:
        if self._files is None:
            raise RuntimeError("the reporter is not open: use `with Reporter(...) as report:`")
        return self._files

    def header(self, info: Mapping[str, str]) -> None:
        """Shows what is run: model, parameters, environment, engine; the folder is added."""
        title = f"{self._agent} on {getattr(self._config, 'env', '?')}"
        if self._iterations:
            title += f": {self._iterations} iterations, seed {getattr(self._config, 'seed', 0)}"
        self._view.header(title, {**info, "saved in": str(self._folder)})

    @contextmanager
    def phase(self, name: str, total: int | None = None) -> Iterator[Phase]:
        """Times a phase and shows its progress.

        Args:
            name: rollout, values, grade, update or evaluation.
            total: How many items it has, None if unknown.

        Raises:
            ValueError: There is no such phase.
        """
        with self.clock.run(name) as own_name:
            self._current = self._next
            state = PhaseState(name, total)
            self._view.phase(state, self._next)
            try:
                yield Phase(state, self.clock, own_name)
            finally:
                state.ended = time.perf_counter()

    def judging(self) -> AbstractContextManager[Any]:
        """Returns a context whose time counts as grading, inside whatever phase is shown."""
        return self.clock.run("grade")

    def iteration(self, metrics: Mapping[str, Any]) -> None:
        """Ends an iteration: a line in ``metrics.jsonl``, the logger, a row of the table.

        An evaluation made since the last iteration is in it as ``eval/greedy``, ``eval/T=1``, ...
        """
        number, self._next = self._next, self._next + 1
        merged, self._unmerged = {**metrics, **self._unmerged}, {}
        self._open_files.metrics(number, merged)
        evaluated = [value for key, value in merged.items() if key.startswith("eval/")]
        shown = {**merged, "evaluated": evaluated[-1]} if evaluated else merged
        self._view.iteration(number, shown)

    def sample(self, sample: Sample) -> None:
        """Shows one answer of the iteration whose phases ran last; appends it to samples.jsonl."""
        self._open_files.sample(self._current, sample.as_dict())
        self._view.sample(sample, self._current)

    def evaluation(self, label: str, results: Mapping[str, Interval]) -> None:
        """Shows accuracies by kind of decoding, and sends them to the logger.

        Args:
            label: ``before`` and ``after`` frame the training and go to the summary; any other
                label belongs to the iteration that the next call of ``iteration`` ends.
            results: ``{"greedy": ..., "T=0.35": ..., "T=1": ...}``.
        """
        self._evaluations[label] = dict(results)
        scalars = {f"eval/{name}": interval.mean for name, interval in results.items()}
        if label in _AROUND_TRAINING:
            self._open_files.scalars(self._next - 1, scalars)
        else:
            self._unmerged = scalars
        self._view.evaluation(label, results)

    def summary(self, summary: Mapping[str, Any]) -> None:
        """Ends the run on the screen and writes ``summary.json``.

        ``accuracy_before`` and ``accuracy_after`` are those of the last kind of decoding;
        ``accuracy`` has all of them.

        Args:
            summary: More entries for the file, which win over the reporter's own; ``next``, a list
                of commands to type next, is shown after TensorBoard's and not written.
        """
        entries = dict(summary)
        commands = entries.pop("next", [])
        if getattr(self._config, "logger", None) in WRITES_EVENTS:
            commands = [f"tensorboard --logdir {self._folder}", *commands]
        seconds, cpu_seconds = self._totals()
        before, after = (self._evaluations.get(label, {}) for label in _AROUND_TRAINING)
        record: dict[str, Any] = {
            "agent": self._agent,
            "iterations": self._next - 1,
            "seed": getattr(self._config, "seed", 0),
            "seconds": self.clock.seconds,
            "cpu_seconds": self.clock.cpu_seconds,
            "tokens": self.clock.tokens,
            "total_seconds": seconds,
            "total_cpu_seconds": cpu_seconds,
        }
        for label, results in (("before", before), ("after", after)):
            if results:
                record[f"accuracy_{label}"] = asdict(list(results.values())[-1])
        if before or after:
            record["accuracy"] = {
                label: {name: asdict(interval) for name, interval in results.items()}
                for label, results in (("before", before), ("after", after))
            }
        self._open_files.summary(record | entries)
        self._view.summary(
            Summary(
                iterations=self._next - 1,
                planned=self._iterations,
                seconds=seconds,
                cpu_seconds=cpu_seconds,
                before=before,
                after=after,
                clock=self.clock,
                folder=str(self._folder),
                next_commands=commands,
            )
        )
