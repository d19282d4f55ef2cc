r"""Throughput of our graders and of Math-Verify, measured in turn in one run.

    LANG_ENV_DATA=data python benchmarks/graders.py [--pairs 2000] [--rounds 3] [--variants FILE]

Three sets: short answers (the distinct MATH answers, typeset again, spelt otherwise and changed;
or the pairs of a file with ``gold`` and ``pred``), MATH gold solutions as completions, GSM8K gold
solutions as completions. Each grader runs in one process, the rounds alternate. At the end,
41,000 mixed completions are graded in worker processes, as one VinePPO iteration needs. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # this file has the package's name

from graders import Grader, get_grader  # noqa: E402 - after the line above
from graders.adapters import MathVerifyGrader  # noqa: E402
from graders.extract import boxed_answer  # noqa: E402
from graders.pool import GradingPool  # noqa: E402

Pairs = list[tuple[str, str]]


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def variants(answers: Sequence[str], stream: random.Random) -> Pairs:
    """Answers against themselves (40 %), typeset again (30), spelt otherwise (15), changed (15)."""
    pairs: Pairs = []
    for answer in answers:
        draw = stream.random()
        pred = answer
        if 0.4 <= draw < 0.7:
            pred = answer.replace("\\frac", "\\dfrac").replace(",", ", ")
        elif 0.7 <= draw < 0.85:
            plain = answer.isdecimal()
            pred = f"{answer}.0" if plain else f"${answer}$."
        elif draw >= 0.85:
            place = next((k for k, c in enumerate(answer) if c.isdecimal()), None)
            if place is not None:
                digit = str((int(answer[place]) + 1) % 10)
                pred = answer[:place] + digit + answer[place + 1 :]
        pairs.append((f"\\boxed{{{pred}}}", answer))
    return pairs


def measure(grade: Grader, pairs: Pairs) -> tuple[float, float, float]:
    """Grades a second, and the 99th percentile and the maximum of one grade in milliseconds."""
    times = []
    start = time.perf_counter()
    for completion, answer in pairs:
        begin = time.perf_counter()
        grade(completion, answer)
        times.append(time.perf_counter() - begin)
    total = time.perf_counter() - start
    times.sort()
    return len(pairs) / total, 1e3 * times[len(times) * 99 // 100], 1e3 * times[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000, help="pairs for each set and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--variants", help="a JSON Lines file with gold and pred")
    options = parser.parse_args()
    folder = os.environ.get("LANG_ENV_DATA")
    if not folder:
        parser.error("set LANG_ENV_DATA to the folder with math/ and gsm8k/")
    stream = random.Random(0)
    math = rows(Path(folder), "math/train.jsonl") + rows(Path(folder), "math/test.jsonl")
    gsm8k = rows(Path(folder), "gsm8k/train.jsonl") + rows(Path(folder), "gsm8k/test.jsonl")
    solved = [(row["solution"], boxed_answer(row["solution"], join=False) or "") for row in math]
    solved = [pair for pair in solved if pair[1]]
    counted = [(row["answer"], row["answer"].split("####")[1].strip()) for row in gsm8k]
    if options.variants:
        with open(options.variants, encoding="utf-8") as lines:
            cases = [json.loads(line) for line in lines]
        short = [(f"\\boxed{{{case['pred']}}}", case["gold"]) for case in cases]
    else:
        short = variants(sorted({answer for _, answer in solved}), stream)
    graders: dict[str, dict[str, Grader]] = {
        "MATH answers": {"ours": get_grader("math"), "Math-Verify": MathVerifyGrader(5)},
        "MATH solutions": {"ours": get_grader("math"), "Math-Verify": MathVerifyGrader(5)},
        "GSM8K solutions": {"ours": get_grader("gsm8k"), "Math-Verify": MathVerifyGrader(5)},
    }
    pools = {"MATH answers": short, "MATH solutions": solved, "GSM8K solutions": counted}
    report: dict[str, object] = {}
    write = sys.stdout.write
    write(f"{'set':18}{'grader':14}{'grades/s':>12}{'p99 ms':>10}{'max ms':>10}\n")
    for name, pool in pools.items():
        results: dict[str, list[tuple[float, float, float]]] = {"ours": [], "Math-Verify": []}
        for _ in range(options.rounds):
            sample = stream.sample(pool, min(options.pairs, len(pool)))
            for grader, grade in graders[name].items():
                results[grader].append(measure(grade, sample))
        for grader, rounds in results.items():
            speed, p99, top = (statistics.median(column) for column in zip(*rounds, strict=True))
            write(f"{name:18}{grader:14}{speed:12.0f}{p99:10.2f}{top:10.1f}\n")
        ratios = [a[0] / b[0] for a, b in zip(results["ours"], results["Math-Verify"], strict=True)]
        write(f"{name:18}ratio {min(ratios):.0f} to {max(ratios):.0f}\n")
        report[name] = {"rounds": results, "ratios": ratios}
    mixed = stream.choices(short + solved, k=41_000)
    with GradingPool(get_grader("math"), options.workers) as workers:
        workers.grade_many(mixed[: 128 * options.workers])  # starts the processes
        start = time.perf_counter()
        workers.grade_many(mixed)
        seconds = time.perf_counter() - start
    write(f"41,000 mixed grades in {options.workers} workers: {seconds:.1f} s\n")
    report["mixed_41000_seconds"] = seconds
    write(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
