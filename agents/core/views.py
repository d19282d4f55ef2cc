"""Two ways to show a run: the ``View`` interface, and plain lines for logs (``PlainView``)."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple, Protocol

from agents.core.records import Interval, PhaseClock, Sample


@dataclass
class PhaseState:
    """How far one phase of the current iteration is.

    Attributes:
        name: The phase as it is shown: rollout, values, update, evaluation.
        total: Items there are, None if unknown.
        done: Items finished.
        tokens: Tokens produced or used.
        started: ``time.perf_counter()`` at the start.
        ended: The same at the end, None while it runs.
    """

    name: str
    total: int | None = None
    done: int = 0
    tokens: int = 0
    started: float = field(default_factory=time.perf_counter)
    ended: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds since the start, or from start to end."""
        return (time.perf_counter() if self.ended is None else self.ended) - self.started

    @property
    def seconds_left(self) -> float | None:
        """Seconds to go at the rate so far, None while unknown."""
        if self.ended is not None or self.total is None or not self.done:
            return None
        return self.seconds / self.done * max(0, self.total - self.done)


@dataclass(frozen=True)
class Summary:
    """What the end of a run shows.

    Attributes:
        iterations: Iterations finished; ``planned`` is how many there were to be.
        planned: See ``iterations``.
        seconds: Wall-clock seconds of the whole run; ``cpu_seconds`` likewise CPU.
        cpu_seconds: See ``seconds``.
        before: Accuracy by kind of decoding (``greedy``, ``T=1``) before training.
        after: The same after training.
        clock: Seconds and tokens by phase.
        folder: Where the run was saved.
        next_commands: What to type next.
    """

    iterations: int
    planned: int
    seconds: float
    cpu_seconds: float
    before: Mapping[str, Interval]
    after: Mapping[str, Interval]
    clock: PhaseClock
    folder: str
    next_commands: Sequence[str]


class View(Protocol):
    """What a view of a run can show; the reporter calls it, it never writes files."""

    def header(self, title: str, info: Mapping[str, str]) -> None:
        """Shows what is run, before the first iteration."""

    def phase(self, state: PhaseState, iteration: int) -> None:
        """Takes in a phase that has begun; the state changes as it goes on."""

    def iteration(self, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Shows an iteration that has ended."""

    def sample(self, sample: Sample, iteration: int) -> None:
        """Shows one answer."""

    def evaluation(self, label: str, results: Mapping[str, Interval]) -> None:
        """Shows accuracies."""

    def summary(self, summary: Summary) -> None:
        """Shows the end of the run."""

    def close(self) -> None:
        """Gives the terminal back; closing twice does nothing more."""


class Column(NamedTuple):
    """One number of an iteration's row.

    Attributes:
        keys: Metric names, of which the first that is there is shown.
        heading: What stands above it.
        pattern: How the number is written.
        rank: Columns of high rank are left out first where there is no room.
    """

    keys: tuple[str, ...]
    heading: str
    pattern: str
    rank: int


COLUMNS = (
    Column(("reward",), "reward", ".3f", 0),
    Column(("evaluated",), "eval acc.", ".3f", 1),
    Column(("kl",), "kl", ".2g", 2),
    Column(("entropy",), "entropy", ".3f", 4),
    Column(("clip_ratio/region_mean",), "clip frac", ".3f", 5),
    Column(("completions/mean_length",), "length", ".1f", 6),
    Column(("vine/k_fresh", "vine/fresh_rollouts"), "fresh K", ".2f", 8),
    Column(("num_tokens",), "tokens", "count", 7),
    Column(("step_time",), "time", "seconds", 3),
)


def cell_of(column: Column, metrics: Mapping[str, Any]) -> str:
    """Returns a metric as text, empty where the iteration has no such number.

    >>> cell_of(COLUMNS[0], {"reward": 0.25}), cell_of(COLUMNS[7], {"num_tokens": 51234})
    ('0.250', '51.2k')
    """
    value = next((metrics[key] for key in column.keys if metrics.get(key) is not None), None)
    if value is None:
        return ""
    number = float(value)
    if column.pattern == "count":
        return count_text(number)
    return f"{number:.1f} s" if column.pattern == "seconds" else format(number, column.pattern)


def count_text(number: float) -> str:
    """Returns a count or a rate in at most five characters.

    >>> [count_text(n) for n in (0.25, 7, 9999, 51234, 2_500_000, 3e9)]
    ['0.25', '7', '9999', '51.2k', '2.50M', '3.00G']
    """
    if number < 10 and number != int(number):
        return f"{number:.2f}"
    if number < 10_000:
        return f"{number:.0f}"
    for unit, size in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if number < 999.5 * size or unit == "G":
            break
    scaled = number / size
    return f"{scaled:.{0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2}f}{unit}"


def time_text(seconds: float) -> str:
    """Returns minutes and seconds, hours where there are any.

    >>> time_text(7.2), time_text(3725)
    ('0:07', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def inert(text: str) -> str:
    r"""Returns ``text`` on one line, with nothing in it that a terminal would act on.

    Newlines become a sign, tabs a space; control, format and surrogate characters are escaped.

    >>> inert("a\n\x1b[31mb")
    'a↵\\x1b[31mb'
    """
    shown = []
    for character in text:
        if character == "\n":
            shown.append("↵")
        elif character == "\t":
            shown.append(" ")
        elif unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
            shown.append(character.encode("unicode_escape").decode("ascii"))
        else:
            shown.append(character)
    return "".join(shown)


class Pace:
    """How long the rest of the run will take, at the mean time of the iterations so far."""

    def __init__(self, iterations: int) -> None:
        """Starts with nothing known; ``iterations`` is the number of the last one."""
        self._last = iterations
        self._first: int | None = None
        self._began = self._ended = 0.0
        self._done = 0

    def begin(self, iteration: int) -> None:
        """Takes in that an iteration is under way; only the first call counts."""
        if self._first is None:
            self._first, self._began = iteration, time.perf_counter()

    def end(self, iteration: int) -> None:
        """Takes in that an iteration has ended."""
        self.begin(iteration)
        self._done = iteration + 1 - (self._first or 0)
        self._ended = time.perf_counter()

    def seconds_left(self) -> float | None:
        """Seconds to the end of training, None before the first iteration has ended."""
        if self._first is None or not self._done:
            return None
        mean = (self._ended - self._began) / self._done
        whole = mean * max(0, self._last - self._first + 1 - self._done)
        return max(whole - (time.perf_counter() - self._ended), whole - mean, 0.0)


class Nowhere:
    """Shows nothing."""

    def header(self, title: str, info: Mapping[str, str]) -> None:
        """Does nothing."""

    def phase(self, state: PhaseState, iteration: int) -> None:
        """Does nothing."""

    def iteration(self, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Does nothing."""

    def sample(self, sample: Sample, iteration: int) -> None:
        """Does nothing."""

    def evaluation(self, label: str, results: Mapping[str, Interval]) -> None:
        """Does nothing."""

    def summary(self, summary: Summary) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


class PlainView:
    """One line per iteration, without escape codes and of any width: for logs and pipes."""

    def __init__(self, file: IO[str], iterations: int) -> None:
        """Writes to ``file``; ``iterations`` is how many the run will have."""
        self._file = file
        self._iterations = iterations
        self._pace = Pace(iterations)

    def _line(self, text: str) -> None:
        self._file.write(text + "\n")
        self._file.flush()

    def header(self, title: str, info: Mapping[str, str]) -> None:
        """Writes the title, then a line for each piece of information."""
        self._line(inert(title))
        for name, value in info.items():
            self._line(f"  {inert(name)}: {inert(value)}")

    def phase(self, state: PhaseState, iteration: int) -> None:
        """Notes when the first iteration began; phases have no lines of their own."""
        if state.name != "evaluation":
            self._pace.begin(iteration)

    def iteration(self, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Writes the iteration's numbers and the time left."""
        cells = [(column.heading, cell_of(column, metrics)) for column in COLUMNS]
        numbers = ", ".join(f"{heading} {cell}" for heading, cell in cells if cell)
        self._pace.end(iteration)
        left = time_text(self._pace.seconds_left() or 0.0)
        self._line(f"iteration {iteration}/{self._iterations}: {numbers}, left {left}")

    def sample(self, sample: Sample, iteration: int) -> None:
        """Writes nothing: ``samples.jsonl`` has the answer."""

    def evaluation(self, label: str, results: Mapping[str, Interval]) -> None:
        """Writes all accuracies on one line."""
        problems = f" of {next(iter(results.values())).n} problems" if results else ""
        shown = ", ".join(f"{name} {interval}" for name, interval in results.items())
        self._line(f"accuracy {inert(label)}: {shown}{problems}")

    def summary(self, summary: Summary) -> None:
        """Writes accuracy before and after, time and tokens by phase, folder and next command."""
        self._line(
            f"finished {summary.iterations} of {summary.planned} iterations "
            f"in {time_text(summary.seconds)} (CPU {time_text(summary.cpu_seconds)})"
        )
        for name, after in summary.after.items():
            before = summary.before.get(name)
            if before is None:
                self._line(f"  accuracy {name}: {after}")
            else:
                gain = 100 * (after.mean - before.mean)
                self._line(f"  accuracy {name}: {before} -> {after}, {gain:+.1f} points")
        for name, seconds in summary.clock.seconds.items():
            self._line(
                f"  {name}: {seconds:.1f} s, CPU {summary.clock.cpu_seconds[name]:.1f} s, "
                f"{summary.clock.tokens[name]} tokens"
            )
        self._line(f"saved in {summary.folder}")
        for command in summary.next_commands:
            self._line(f"next: {command}")

    def close(self) -> None:
        """Does nothing: the file belongs to the caller."""
