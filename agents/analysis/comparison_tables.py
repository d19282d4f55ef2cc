"""The tables of a comparison, as data that a terminal, Markdown and JSON show alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

from agents.analysis.comparison import (
    Curve,
    Difference,
    collapsed,
    median_time,
    paired_difference,
    shared_end,
    times_to_peak,
)
from agents.analysis.run_curves import FinishedRun
from agents.core.views import count_text


@dataclass(frozen=True)
class VariantResult:
    """What the runs of one variant gave; lists have one entry a seed, the same for all variants.

    Attributes:
        label: The variant's name.
        chosen: What the search chose, such as ``{"learning_rate": "1e-3"}``.
        runs: The finished runs.
    """

    label: str
    chosen: dict[str, str]
    runs: Sequence[FinishedRun]

    @property
    def curves(self) -> list[Curve]:
        """The learning curves, [seeds]."""
        return [run.curve for run in self.runs]

    @property
    def final(self) -> list[float]:
        """Accuracy after training, [seeds]."""
        return [curve.accuracy[-1] for curve in self.curves]

    @property
    def collapses(self) -> int:
        """How many runs fell apart; they stay in the means."""
        return sum(collapsed(curve.accuracy) for curve in self.curves)

    def spent(self, axis: str) -> float:
        """Returns what a run spent on average."""
        return fmean(curve.spent[axis][-1] for curve in self.curves)


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        title: What it shows.
        headings: One a column.
        rows: Cells, as many as headings.
        note: A sentence under it.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self) -> str:
        """Returns the table in Markdown.

        >>> print(Table("A", ("x", "y"), [("1", "2")]).markdown())
        ### A
        <BLANKLINE>
        | x | y |
        | --- | --- |
        | 1 | 2 |
        <BLANKLINE>
        """
        lines = [self.headings, ["---"] * len(self.headings), *self.rows]
        text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"### {self.title}\n\n{text}\n" + (f"\n{self.note}\n" if self.note else "")


def accuracy_table(results: Sequence[VariantResult]) -> Table:
    """Returns a row a variant: accuracies and how many runs collapsed."""
    rows = [
        (
            result.label,
            ", ".join(f"{key} {value}" for key, value in result.chosen.items()) or "-",
            _percent(fmean(curve.accuracy[0] for curve in result.curves)),
            _percent(fmean(result.final)),
            " ".join(map(_percent, result.final)),
            f"{result.collapses} of {len(result.runs)}",
        )
        for result in results
    ]
    note = "Held-out accuracy in per cent; means are over all seeds, collapsed ones too."
    headings = ("agent", "searched", "before", "after", "each seed", "collapsed")
    return Table("Accuracy", headings, rows, note)


def cost_table(results: Sequence[VariantResult]) -> Table:
    """Returns a row a variant: what a run cost on average."""
    rows = []
    for result in results:
        iterations = result.spent("iterations")
        phases = [
            f"{1000 * fmean(run.cpu_seconds[phase] for run in result.runs) / iterations:.0f}"
            for phase in _PHASES
        ]
        rows.append(
            (
                result.label,
                count_text(result.spent("tokens")),
                f"{result.spent('seconds'):.1f}",
                f"{result.spent('cpu_seconds'):.1f}",
                *phases,
            )
        )
    headings = ("agent", "tokens", "seconds", "CPU s", *(f"{name}, ms" for name in _PHASES))
    note = (
        "A run on average. Tokens hold value rollouts; seconds hold collecting, values and "
        "updates, no evaluation. By phase: CPU milliseconds an iteration."
    )
    return Table("Cost", headings, rows, note)


def differences(one: VariantResult, other: VariantResult) -> dict[str, Difference]:
    """Returns ``one - other`` with equal iterations, and with what both have spent of the rest."""
    both = [*one.curves, *other.curves]
    result = {}
    for axis in ("iterations", "tokens", "cpu_seconds"):
        end = shared_end(both, axis)
        ours, theirs = ([c.at(axis, end) for c in side.curves] for side in (one, other))
        result[axis] = paired_difference(ours, theirs)
    return result


def differences_table(results: Sequence[VariantResult]) -> Table:
    """Returns a row a pair of variants."""
    rows = [
        (f"{one.label} - {other.label}", *map(_points, differences(one, other).values()))
        for one, other in combinations(results, 2)
    ]
    note = (
        "Points, mean over paired seeds and 95 % bootstrap interval over seeds; with few seeds it "
        "is too narrow. Equal tokens and equal CPU seconds: where the cheaper of the two ended; "
        "the other's learning rate has not come down to its end there."
    )
    headings = ("difference", "equal iterations", "equal tokens", "equal CPU seconds")
    return Table("Paired differences", headings, rows, note)


def peak_tables(results: Sequence[VariantResult], window: int) -> list[Table]:
    """Returns for iterations, tokens and CPU seconds when each variant reached each one's peak."""
    tables = []
    for axis, (name, shown) in _SHOWN.items():
        rows = [
            (
                one.label,
                *(
                    _time(times_to_peak(one.curves, other.curves, axis, window), shown)
                    for other in results
                ),
            )
            for one in results
        ]
        headings = (f"{name} to", *(f"peak of {other.label}" for other in results))
        tables.append(Table(f"Time to the others' peak: {name}", headings, rows))
    note = (
        f"Median over seeds of when the agent's curve (mean of {window} evaluations, looking "
        "back) reached the peak of the column's agent with the same seed; in brackets how many "
        "seeds did. never: half of the seeds or more did not within the run."
    )
    return [*tables[:-1], replace(tables[-1], note=note)]


def search_table(scores: dict[str, dict[str, dict[str, float]]], seed: int) -> Table:
    """Returns a row a variant and option.

    Args:
        scores: Variant, option, value: accuracy at the end.
        seed: The seed of the search.
    """
    rows = [
        (label, option, ", ".join(f"{value}: {_percent(score)}" for value, score in tried.items()))
        for label, options in scores.items()
        for option, tried in options.items()
    ]
    note = f"Seed {seed}, which is none of the reported ones; one run a value."
    return Table("Search", ("agent", "option", "accuracy at the end by value"), rows, note)


def _count(amount: float) -> str:
    return f"{amount:.0f}"


def _seconds(amount: float) -> str:
    return f"{amount:.1f}"


_SHOWN: dict[str, tuple[str, Callable[[float], str]]] = {
    "iterations": ("iterations", _count),
    "tokens": ("tokens", count_text),
    "cpu_seconds": ("CPU seconds", _seconds),
}
_PHASES = ("rollout", "value", "update")


def _time(times: Sequence[float | None], shown: Callable[[float], str]) -> str:
    middle = median_time(times)
    reached = sum(time is not None for time in times)
    return f"{'never' if middle is None else shown(middle)} ({reached}/{len(times)})"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def _points(difference: Difference) -> str:
    low, high = 100 * difference.low, 100 * difference.high
    return f"{100 * difference.mean:+.1f} ({low:+.1f} to {high:+.1f})"
