"""The tables of a comparison from runs made by hand."""

import pytest

from agents.analysis.comparison import Curve
from agents.analysis.comparison_tables import (
    VariantResult,
    accuracy_table,
    cost_table,
    differences,
    differences_table,
    peak_tables,
    search_table,
)
from agents.analysis.run_curves import FinishedRun


def result(label, *curves, cpu):
    """Returns a variant whose runs have two evaluations after iterations 0, 10 and 20."""
    spent = {
        "iterations": (0.0, 10.0, 20.0),
        "tokens": (0.0, 1e4, 2e4),
        "seconds": (0.0, cpu, 2 * cpu),
        "cpu_seconds": (0.0, cpu, 2 * cpu),
    }
    phases = {"rollout": cpu / 2, "value": 0.0, "update": cpu}
    return VariantResult(label, {}, [FinishedRun(Curve(curve, spent), phases) for curve in curves])


@pytest.fixture
def two():
    fast = result("fast", (0.4, 0.5, 0.6), (0.4, 0.5, 0.6), cpu=5.0)
    slow = result("slow", (0.4, 0.6, 0.8), (0.4, 0.5, 0.1), cpu=10.0)
    return [fast, slow]


def test_collapsed_seeds_are_counted_and_stay_in_the_mean(two):
    rows = accuracy_table(two).rows
    assert rows[0][2:] == ("40.0", "60.0", "60.0 60.0", "0 of 2")
    assert rows[1][2:] == ("40.0", "45.0", "80.0 10.0", "1 of 2")


def test_costs(two):
    assert cost_table(two).rows[1] == ("slow", "20.0k", "20.0", "20.0", "250", "0", "500")


def test_differences_at_equal_cost_are_read_where_the_cheaper_run_ended(two):
    found = differences(*two)
    assert found["iterations"].mean == pytest.approx(0.15)
    assert found["tokens"].mean == pytest.approx(0.15)
    # After 10 CPU seconds the slow one has had one evaluation: 0.6 and 0.5.
    assert found["cpu_seconds"].mean == pytest.approx(0.05)
    assert differences_table(two).rows == [
        ("fast - slow", "+15.0 (-20.0 to +50.0)", "+15.0 (-20.0 to +50.0)", "+5.0 (+0.0 to +10.0)")
    ]


def test_times_to_peaks(two):
    iterations, tokens, cpu = peak_tables(two, 1)
    assert iterations.rows == [
        ("fast", "20 (2/2)", "never (1/2)"),
        ("slow", "never (1/2)", "20 (2/2)"),
    ]
    assert cpu.rows[0][1] == "10.0 (2/2)"
    assert "looking back" in cpu.note
    assert tokens.note == ""


def test_the_search_names_its_seed():
    table = search_table({"ppo": {"beta": {"1e-2": 0.5, "0": 0.25}}}, 77)
    assert table.rows == [("ppo", "beta", "1e-2: 50.0, 0: 25.0")]
    assert "Seed 77" in table.note
