"""Agents side by side: equal prompts, answers, updates and evaluation, paired seeds.

    python -m agents.compare --env MathReason-v0 --agents ppo vineppo rloo grpo --seeds 5
    python -m agents.compare --search learning_rate --grid learning_rate=1e-4,3e-4,1e-3 --jobs 2
    python -m agents.compare --agents rloo vineppo "vineppo:num_rollouts=9,reuse=false"
    python -m agents.compare --match tokens --set iterations=40 vineppo.num_rollouts=4

Every option of the agents that is not an option of this command goes to all of them, such as
``--iterations 40``. Each run is the agent's ordinary command in a process of its own, with an
ordinary run folder under OUTPUT/runs. The same command again goes on where it was stopped; run
folders of several machines can be copied together. OUTPUT gets compare.json, compare.md and
compare.png.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.analysis.comparison import best_setting, smoothed
from agents.analysis.comparison_files import write_comparison
from agents.analysis.comparison_plan import MATCHED_AGENTS, Plan, grids, make_plan
from agents.analysis.comparison_tables import VariantResult
from agents.analysis.comparison_view import ComparisonView
from agents.analysis.jobs import log_of, run_all, summary_of
from agents.analysis.run_curves import FinishedRun, read_run
from agents.analysis.variants import Run, Variant, make_run, matched
from agents.core.command import INTERRUPTED
from agents.core.config import command_errors
from agents.core.interrupt import Interrupt


class Comparison:
    """Runs a plan: searches, runs of all variants, matched variants, report."""

    def __init__(self, plan: Plan, view: ComparisonView, interrupt: Interrupt) -> None:
        """Takes the plan, what shows it, and what knows of Ctrl-C."""
        self.plan, self.view, self.interrupt = plan, view, interrupt
        self.logs = plan.folder / "logs"
        self.failed: list[Run] = []

    def run(self) -> int:
        """Runs everything and returns the exit status."""
        plan = self.plan
        for name, values in grids(plan.config).items():
            self._search(name, values)
        self._execute(plan.variants, "runs")
        if plan.config.match == "tokens" and not self.interrupt.requested():
            added = self._matched()
            self._execute(added, "runs with as many tokens")
            plan.variants += added
        if self.interrupt.requested():
            self.view.close()
            self.view.line("stopped; the same command again goes on from here")
            return INTERRUPTED
        self.report()
        return 1 if self.failed else 0

    def report(self) -> None:
        """Writes and shows the results of the variants that finished on every seed."""
        plan = self.plan
        results, runs = [], {}
        for variant in plan.variants:
            found = self._finished(plan.runs_of(variant))
            if len(found) == plan.config.seeds:
                chosen = plan.chosen.get(variant.label, {})
                results.append(VariantResult(variant.label, chosen, list(found.values())))
                runs[variant.label] = plan.runs_of(variant)
        for run in self.failed:
            self.view.line(f"failed: {' '.join(run.command)}; see {log_of(run, self.logs)}")
        if results:
            tables = write_comparison(
                plan.folder, results, runs, plan.scores,
                command=plan.command, window=plan.config.window,
                search_seed=plan.config.search_seed, failed=self.failed,
            )  # fmt: skip
            self.view.tables(tables)
            self.view.line(f"saved in {plan.folder}: compare.json, compare.md, compare.png")

    def _execute(self, variants: Sequence[Variant], about: str) -> None:
        """Runs all seeds of the variants, all variants' first seed first."""
        by_variant = [self.plan.runs_of(variant) for variant in variants]
        self._run_all([run for same_seed in zip(*by_variant, strict=True) for run in same_seed],
                      about)  # fmt: skip

    def _run_all(self, runs: Sequence[Run], about: str) -> None:
        if self.interrupt.requested():
            return
        self.view.begin(about)
        failed = run_all(
            runs,
            jobs=self.plan.config.jobs,
            logs=self.logs,
            interrupt=self.interrupt,
            show=self.view.progress,
        )
        self.failed += failed

    def _search(self, name: str, values: Sequence[str]) -> None:
        """Sets one option of every variant that does not name it to the best of a grid."""
        plan, config = self.plan, self.plan.config
        more: dict[str, str] = {}
        if config.search_iterations is not None:
            more["iterations"] = str(config.search_iterations)
        table = {
            variant.label: {
                value: make_run(
                    variant, plan.for_all, config.search_seed, plan.folder / "runs",
                    **more, **{name: value},
                )
                for value in values
            }
            for variant in plan.variants
            if name not in variant.settings
        }  # fmt: skip
        before = len(self.failed)
        self._run_all([run for runs in table.values() for run in runs.values()], f"search {name}")
        if self.interrupt.requested():
            return
        del self.failed[before:]  # a value at which a run breaks is a bad value
        for place, variant in enumerate(plan.variants):
            if variant.label in table:
                best = self._best(table[variant.label], name, variant.label)
                plan.variants[place] = variant.with_settings({name: best})

    def _best(self, runs: Mapping[str, Run], name: str, label: str) -> str:
        found = self._finished(list(runs.values()))
        accuracy = {
            value: found[run.folder].curve.accuracy if run.folder in found else (0.0, 0.0)
            for value, run in runs.items()
        }
        window = self.plan.config.window
        scores = {value: smoothed(heights[1:], window)[-1] for value, heights in accuracy.items()}
        best = best_setting(accuracy, window)
        self.plan.scores.setdefault(label, {})[name] = scores
        self.plan.chosen.setdefault(label, {})[name] = best
        self.view.line(f"{label}: {name} {best} ({100 * scores[best]:.1f} %)")
        return best

    def _matched(self) -> list[Variant]:
        """Returns variants that generate as many tokens as the first VinePPO."""
        plan, tokens = self.plan, {}
        for variant in plan.variants:
            runs = plan.runs_of(variant)
            spent = [run.curve.spent["tokens"][-1] for run in self._finished(runs).values()]
            tokens[variant.label] = sum(spent) / max(1, len(spent))
        reference = next(v.label for v in plan.variants if v.agent == "vineppo")
        added = []
        for variant in plan.variants:
            if variant.agent in MATCHED_AGENTS and tokens[variant.label]:
                ratio = tokens[reference] / tokens[variant.label]
                added.append(matched(variant, plan.runs_of(variant)[0], ratio))
                plan.chosen[added[-1].label] = plan.chosen.get(variant.label, {}) | {
                    "num_generations": added[-1].settings["num_generations"]
                }
        return added

    def _finished(self, runs: Sequence[Run]) -> dict[Path, FinishedRun]:
        """Returns what is left of the runs that finished, by their folder."""
        summaries = {run.folder: summary_of(run) for run in runs}
        return {
            folder: read_run(folder, summary)
            for folder, summary in summaries.items()
            if summary is not None
        }


_ABOUT = str(__doc__).split("\n")[0] + " Options of the agents go to all of them."


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    with command_errors():
        plan = make_plan(sys.argv[1:] if argv is None else argv, _ABOUT)
        plan.folder.mkdir(parents=True, exist_ok=True)
    with Interrupt() as interrupt, ComparisonView(plain=plan.config.plain) as view:
        return Comparison(plan, view, interrupt).run()


if __name__ == "__main__":
    sys.exit(main())
