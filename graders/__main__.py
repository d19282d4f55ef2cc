"""Grades a file of cases: ``python -m graders FILE.jsonl [--json]``.

A line holds ``gold`` and either ``pred`` (an answer) or ``completion`` with ``format`` (math or
gsm8k); ``kind`` groups, ``expect`` (true or false) is the right verdict. The last line of the
output is one JSON object. UNDECIDED counts as not accepted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from graders import pool
from graders.base import Verdict
from graders.math_grader import MathGrader
from graders.numeric import GSM8KGrader


def read_cases(path: str) -> Iterator[dict[str, Any]]:
    """The cases of a JSON Lines file.

    Raises:
        ValueError: A line is no JSON object with a ``gold``.
    """
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                case = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}:{number}: no JSON: {error}") from error
            if not isinstance(case, dict) or "gold" not in case:
                raise ValueError(f"{path}:{number}: a case needs 'gold' and 'pred' or 'completion'")
            yield case


def grade_cases(cases: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Grades cases one by one; each result holds kind, expect, verdict, seconds."""
    math, gsm8k = MathGrader(), GSM8KGrader()
    results = []
    for case in cases:
        start = time.perf_counter()
        if "completion" in case:
            grader = gsm8k if case.get("format") == "gsm8k" else math
            grade = grader(case["completion"], case["gold"])
        else:
            grade = math.grade_answer(case["pred"], case["gold"])
        seconds = time.perf_counter() - start
        results.append(
            {"id": case.get("id", ""), "kind": case.get("kind", "all"),
             "expect": case.get("expect"), "verdict": grade.verdict, "seconds": seconds}
        )  # fmt: skip
    return results


def summarize(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts and times of graded cases, the summary that is printed last."""
    kinds: dict[str, dict[str, Any]] = {}
    for result in results:
        row = kinds.setdefault(
            result["kind"],
            {"n": 0, "right": 0, "false_positives": 0, "false_negatives": 0, "undecided": 0},
        )
        accepted = result["verdict"] is Verdict.CORRECT
        row["n"] += 1
        row["undecided"] += result["verdict"] is Verdict.UNDECIDED
        if result["expect"] is not None:
            row["right"] += accepted == result["expect"]
            row["false_positives"] += accepted and not result["expect"]
            row["false_negatives"] += not accepted and result["expect"]
    judged = sum(result["expect"] is not None for result in results)
    seconds = sorted(result["seconds"] for result in results) or [0.0]
    total = {key: sum(row[key] for row in kinds.values()) for key in
             ("right", "false_positives", "false_negatives", "undecided")}  # fmt: skip
    return {
        "accuracy": total["right"] / judged if judged else None,
        "false_positives": total["false_positives"],
        "false_negatives": total["false_negatives"],
        "undecided": total["undecided"],
        "n": len(results),
        "median_seconds": seconds[len(seconds) // 2],
        "p99_seconds": seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)],
        "max_seconds": seconds[-1],
        "by_kind": kinds,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m graders", description=__doc__)
    parser.add_argument("file", help="cases, one JSON object a line")
    parser.add_argument("--json", action="store_true", help="print the JSON line alone")
    parser.add_argument("--wrong", action="store_true", help="also name the cases graded wrongly")
    options = parser.parse_args(arguments)
    pool.warm_up()
    try:
        results = grade_cases(read_cases(options.file))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    summary = summarize(results)
    write = sys.stdout.write
    if not options.json:
        write(f"{'kind':24}{'n':>6}{'right':>7}{'FP':>5}{'FN':>5}{'undecided':>11}\n")
        for kind, row in sorted(summary["by_kind"].items()):
            write(f"{kind:24}{row['n']:6}{row['right']:7}{row['false_positives']:5}"
                  f"{row['false_negatives']:5}{row['undecided']:11}\n")  # fmt: skip
        accuracy = summary["accuracy"]
        rate = "" if accuracy is None else f"accuracy {100 * accuracy:.2f} %, "
        write(f"{rate}median {1e6 * summary['median_seconds']:.0f} us, "
              f"p99 {1e3 * summary['p99_seconds']:.2f} ms, "
              f"max {1e3 * summary['max_seconds']:.1f} ms\n")  # fmt: skip
    if options.wrong:
        for result in results:
            accepted = result["verdict"] is Verdict.CORRECT
            if result["expect"] not in (None, accepted):
                write(f"{result['id']}: expected {result['expect']}, got {result['verdict']}\n")
    write(json.dumps(summary) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
