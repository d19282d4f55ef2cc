"""The numbers of an evaluation: of each policy, split and temperature, and of parts of a set."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from agents.analysis.answers import interval_json
from agents.analysis.evaluation_files import RESULTS
from agents.analysis.evaluation_metrics import SameAnswer, Scored, measures_of
from agents.analysis.evaluation_plan import Plan
from agents.core.disk import write_atomically
from agents.core.evaluation import temperature_label
from agents.core.run_folder import plain_value

Rows = Sequence[Mapping[str, Any]]


def write_results(plan: Plan, rows: Rows, same: SameAnswer) -> list[dict[str, Any]]:
    """Writes ``evaluation.json`` and returns its ``results``: one for each setting.

    Args:
        plan: What was evaluated.
        rows: Every line of ``samples.jsonl``.
        same: Which extracted answers are equal.
    """
    found = results_of(rows, same, seed=plan.config.seed, draws=plan.config.draws)
    document = {"options": plan.options(), "results": found}
    text = json.dumps(plain_value(document), indent=2, allow_nan=False) + "\n"
    write_atomically(plan.folder / RESULTS, text)
    return found


def results_of(rows: Rows, same: SameAnswer, *, seed: int, draws: int) -> list[dict[str, Any]]:
    """Returns the measures of each policy, split and temperature, in the order of the rows.

    Each also has ``by``: "level" and "subject", where the problems name at least two, to the
    measures of the problems of that part.
    """
    found = []
    for (iteration, split, heat), part in _grouped(
        rows, lambda row: (row["iteration"], row["split"], row["temperature"])
    ).items():

        def measured(some: Rows) -> dict[str, Any]:
            groups = list(_grouped(some, lambda row: row["slot"]).values())
            scored = [[_scored(row) for row in group] for group in groups]
            table = measures_of(scored, same, seed=seed, draws=draws)
            return {name: interval_json(interval) for name, interval in table.items()}

        by = {
            kind: {name: measured(some) for name, some in sorted(parts.items())}
            for kind in ("level", "subject")
            if len(parts := _grouped(part, lambda row, kind=kind: row[kind])) > 1
        }
        label = temperature_label(heat)
        found.append(
            {"iteration": iteration, "split": split, "temperature": heat, "label": label}
            | {"measures": measured(part), "by": by}
        )
    return found


def _grouped(rows: Rows, key: Any) -> dict[Any, list[Mapping[str, Any]]]:
    groups: defaultdict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(groups)


def _scored(row: Mapping[str, Any]) -> Scored:
    return Scored(row["extracted"], row["right"], row["verdict"], row["num_tokens"])
