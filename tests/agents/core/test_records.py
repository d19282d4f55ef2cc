"""Intervals of accuracy, the phase clock and the sample record."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core import records
from agents.core.records import CLOCK_PHASES, Interval, PhaseClock, Sample, accuracy_interval


def wilson(successes: int, n: int) -> tuple[float, float]:
    """The textbook interval, written out on its own."""
    z, p = 1.959963984540054, successes / n
    root = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (p + z * z / (2 * n) - root) / (1 + z * z / n), (p + z * z / (2 * n) + root) / (
        1 + z * z / n
    )


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (3, 10), (10, 10), (128, 500), (1, 1)])
def test_one_answer_a_problem_is_wilsons_interval(successes: int, n: int) -> None:
    interval = accuracy_interval([[1.0]] * successes + [[0.0]] * (n - successes))
    low, high = wilson(successes, n)
    assert (interval.mean, interval.n) == (successes / n, n)
    assert interval.low == pytest.approx(max(0.0, low), abs=1e-12)
    assert interval.high == pytest.approx(min(1.0, high), abs=1e-12)


def test_problems_and_not_answers_are_the_unit() -> None:
    once = accuracy_interval([[1.0], [0.0]] * 20)
    repeated = accuracy_interval([[1.0] * 16, [0.0] * 16] * 20)
    assert (repeated.low, repeated.high) == pytest.approx((once.low, once.high))


def test_equal_problems_are_as_narrow_as_their_answers_allow() -> None:
    interval = accuracy_interval([[1.0, 0.0]] * 50)
    assert (interval.low, interval.high) == pytest.approx(wilson(50, 100))


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=1, max_size=8))
def test_the_mean_lies_in_the_interval_and_all_in_zero_to_one(scores: list[list[float]]) -> None:
    interval = accuracy_interval(scores)
    assert 0.0 <= interval.low <= interval.mean + 1e-12
    assert interval.mean <= interval.high + 1e-12 <= 1.0 + 1e-12


def test_the_interval_covers_the_truth_about_95_times_in_100() -> None:
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(600):
        chances = rng.beta(0.5, 1.5, size=60)
        scores = rng.binomial(1, chances[:, None], (60, 4)).astype(float).tolist()
        interval = accuracy_interval(scores)
        covered.append(interval.low <= 0.25 <= interval.high)
    assert 0.92 <= np.mean(covered) <= 0.98


@pytest.mark.parametrize("scores", [[], [[]], [[0.0], []], [[1.5]], [[-0.1]], [[math.nan]]])
def test_scores_that_are_no_accuracy_are_refused(scores: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="accuracy needs"):
        accuracy_interval(scores)


def test_an_interval_reads_as_percent() -> None:
    assert str(Interval(0.41, 0.352, 0.471, 9)) == "41.0 % (35.2 to 47.1)"


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    now = {"wall": 0.0, "cpu": 0.0}
    monkeypatch.setattr(records.time, "perf_counter", lambda: now["wall"])
    monkeypatch.setattr(records.time, "process_time", lambda: now["cpu"])
    return now


def test_nested_phases_add_up(clocks: dict[str, float]) -> None:
    clock = PhaseClock()
    with clock.run("rollout") as name:
        assert name == "rollout"
        clocks.update(wall=2.0, cpu=3.0)
        with clock.run("grade"):
            clocks.update(wall=5.0, cpu=3.5)
        clocks.update(wall=6.0, cpu=4.0)
    clocks.update(wall=60.0, cpu=40.0)
    with clock.run("values"):
        clocks.update(wall=61.0, cpu=40.0)
    assert clock.seconds == {
        **dict.fromkeys(CLOCK_PHASES, 0.0),
        "rollout": 3.0,
        "grade": 3.0,
        "value": 1.0,
    }
    assert clock.cpu_seconds["rollout"] == 3.5
    assert clock.cpu_seconds["grade"] == 0.5


def test_a_phase_that_fails_is_still_timed(clocks: dict[str, float]) -> None:
    clock = PhaseClock()
    with pytest.raises(KeyError), clock.run("update"):
        clocks.update(wall=2.0)
        raise KeyError("x")
    assert clock.seconds["update"] == 2.0


def test_an_unknown_phase_names_the_nearest() -> None:
    with (
        pytest.raises(ValueError, match=r"unknown phase 'rolout'. Did you mean 'rollout'"),
        PhaseClock().run("rolout"),
    ):
        pass


def test_a_sample_has_one_advantage_a_step() -> None:
    with pytest.raises(ValueError, match="one advantage per step, got 1 for 2 steps"):
        Sample("q", ("a", "b"), (0.0,), (), 1.0)
    with pytest.raises(ValueError, match="one value per step or none, got 1 for 2 steps"):
        Sample("q", ("a", "b"), (0.0, 0.0), (1.0,), 1.0)
