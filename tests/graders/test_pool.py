"""Worker processes: order, crashes, wall limit, memory, and proofs."""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path

import pytest

from graders import Grade, Verdict, get_grader
from graders.answers import read_answer
from graders.equivalence import same_value
from graders.limits import Work
from graders.math_grader import MathGrader, grade_math
from graders.pool import GradingPool, Worker, WorkerDiedError, grade_many, prove_in_worker
from graders.symbolic import prove

PAIRS = [(f"\\boxed{{{k}}}", str(k if k % 3 else k + 1)) for k in range(200)]
EXPECTED = [1.0 if k % 3 else 0.0 for k in range(200)]


def test_results_come_in_order_here_and_in_workers() -> None:
    assert [grade.score for grade in grade_many(PAIRS)] == EXPECTED
    assert [grade.score for grade in grade_many(PAIRS, "math", workers=2)] == EXPECTED
    assert grade_many([], workers=1) == []


def test_killing_a_worker_loses_no_grade() -> None:
    with GradingPool(grade_math, workers=1) as pool:
        assert pool.grade_many(PAIRS[:3])[1].score == 1.0
        process = pool.workers[0].process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        assert [grade.score for grade in pool.grade_many(PAIRS)] == EXPECTED


def test_killing_a_worker_in_the_middle_of_a_batch_loses_no_grade() -> None:
    pairs = PAIRS * 40
    with GradingPool(grade_math, workers=1) as pool:
        pool.grade_many(PAIRS[:1])
        process = pool.workers[0].process
        assert process is not None
        killer = threading.Timer(0.05, os.kill, (process.pid, signal.SIGKILL))
        killer.start()
        scores = [grade.score for grade in pool.grade_many(pairs)]
        killer.join()
    assert scores == EXPECTED * 40


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of graders that misbehave, importable here and in workers."""
    (tmp_path / "odd_graders.py").write_text(
        "import os, time\n"
        "def slow(completion, answer):\n"
        "    time.sleep(60 if completion == 'slow' else 0)\n"
        "    return 1.0\n"
        "def greedy(completion, answer):\n"
        "    return float(len(bytearray(1 << 33)))\n"
        "def fatal(completion, answer):\n"
        "    if completion == 'die':\n"
        "        os._exit(3)\n"
        "    return 1.0\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return "odd_graders"


def test_a_grade_at_the_wall_limit_is_undecided_and_logged(
    odd: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="graders.pool")
    with GradingPool(get_grader(f"{odd}:slow"), workers=1, wall_seconds=1.0) as pool:
        grades = pool.grade_many([("a", ""), ("slow", ""), ("b", "")])
    assert [grade.verdict.value for grade in grades] == ["correct", "undecided", "correct"]
    assert "wall limit reached" in caplog.text


def test_a_grade_that_kills_its_worker_twice_is_undecided(odd: str) -> None:
    with GradingPool(get_grader(f"{odd}:fatal"), workers=1) as pool:
        grades = pool.grade_many([("a", ""), ("die", ""), ("b", "")])
    assert [grade.verdict.value for grade in grades] == ["correct", "undecided", "correct"]


def test_memory_is_capped(odd: str) -> None:
    with GradingPool(get_grader(f"{odd}:greedy"), workers=1) as pool:
        assert pool.grade_many([("a", "b")]) == [Grade(0.0, Verdict.UNDECIDED)]


def test_a_worker_that_is_gone_says_so() -> None:
    worker = Worker()
    worker.start()
    assert worker.process is not None
    worker.process.kill()
    with pytest.raises(WorkerDiedError, match="worker process died"):
        worker.receive()
    assert worker.process is None


def test_a_pool_needs_a_worker() -> None:
    with pytest.raises(ValueError, match="workers must be >= 1, got 0"):
        GradingPool(grade_math, workers=0)


def test_threads_may_grade_at_the_same_time() -> None:
    grade = get_grader("math")
    results: dict[int, list[float]] = {}

    def run(index: int) -> None:
        results[index] = [grade(*pair).score for pair in PAIRS]

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[k] == EXPECTED for k in range(4))


def test_proofs_run_in_a_worker_and_prove_what_values_cannot() -> None:
    left, right = read_answer("\\lfloor x+1\\rfloor"), read_answer("\\lfloor x\\rfloor+1")
    assert same_value(left, right, Work()) is None
    assert same_value(left, right, Work(), prove_in_worker) is True
    close = read_answer("\\lfloor x+1+10^{-9}\\rfloor")
    assert same_value(close, right, Work(), prove_in_worker) is None


def test_a_proof_has_a_budget_of_calls() -> None:
    left, right = read_answer("\\sqrt{x^2+2x+1}"), read_answer("|x+1|")
    assert prove(left, right) is True
    assert prove(left, right, max_calls=10) is None


def test_a_pair_asks_for_few_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("graders.pool.prove_in_worker", lambda *pair: asked.append(pair))
    floors = ",".join(f"\\lfloor x+{k}\\rfloor" for k in range(1, 9))
    swapped = ",".join(f"\\lfloor x\\rfloor+{k}" for k in range(1, 9))
    assert MathGrader().grade_answer(floors, swapped).verdict is Verdict.UNDECIDED
    assert len(asked) == 2
