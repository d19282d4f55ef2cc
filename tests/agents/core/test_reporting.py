"""The reporter: what a run leaves in its folder, and its plain lines."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agents.core.config import BaseConfig
from agents.core.live import LiveView
from agents.core.reporting import Interval, Reporter, Sample
from agents.core.views import Pace, PlainView, inert

BEFORE = {"greedy": Interval(0.4, 0.3, 0.5, 50), "T=1": Interval(0.3, 0.2, 0.4, 50)}
AFTER = {"greedy": Interval(0.6, 0.5, 0.7, 50), "T=1": Interval(0.5, 0.4, 0.6, 50)}
SAMPLE = Sample("1+1?", ("1+1\n", "= \x1b[31m2"), (0.5, -0.25), (0.25, 0.75), 1.0, "2")


def run(folder: Path, file: io.StringIO, **settings: Any) -> Reporter:
    """Plays a run of two iterations with an evaluation in the second."""
    console = Console(file=file, width=20)
    config = BaseConfig(iterations=2, seed=4)
    with Reporter(folder, config, agent="vineppo", console=console, **settings) as report:
        report.header({"model": "tiny \x1b[2J"})
        report.evaluation("before", BEFORE)
        for iteration in (1, 2):
            with report.phase("rollout", total=4) as phase:
                phase.advance(3, tokens=100)
                phase.advance()
            with report.phase("values") as phase:
                phase.expect(10)
                phase.advance(10, tokens=7)
            if iteration == 2:
                report.evaluation("iteration 2", AFTER)
            report.iteration({"reward": 0.25 * iteration, "kl": 1e-4, "completions/x": 1})
            report.sample(SAMPLE)
        report.evaluation("after", AFTER)
        report.summary({"checkpoint": "here", "next": ["do that"]})
    return report


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_metrics_have_a_line_an_iteration_with_its_evaluation(folder: Path) -> None:
    run(folder, io.StringIO())
    assert lines_of(folder / "metrics.jsonl") == [
        {"iteration": 1, "reward": 0.25, "kl": 1e-4, "completions/x": 1},
        {
            "iteration": 2,
            "reward": 0.5,
            "kl": 1e-4,
            "completions/x": 1,
            "eval/greedy": 0.6,
            "eval/T=1": 0.5,
        },
    ]


def test_samples_belong_to_the_iteration_that_made_them(folder: Path) -> None:
    run(folder, io.StringIO())
    samples = lines_of(folder / "samples.jsonl")
    assert [sample["iteration"] for sample in samples] == [1, 2]
    assert samples[0]["steps"] == ["1+1\n", "= \x1b[31m2"]
    assert samples[0]["advantages"] == [0.5, -0.25]


def test_the_summary_holds_accuracy_time_and_tokens(folder: Path) -> None:
    report = run(folder, io.StringIO())
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["accuracy_before"] == {"mean": 0.3, "low": 0.2, "high": 0.4, "n": 50}
    assert summary["accuracy_after"] == {"mean": 0.5, "low": 0.4, "high": 0.6, "n": 50}
    assert summary["accuracy"]["after"]["greedy"]["mean"] == 0.6
    assert (summary["iterations"], summary["seed"], summary["checkpoint"]) == (2, 4, "here")
    tokens = {"rollout": 200, "value": 14, "grade": 0, "update": 0, "evaluate": 0}
    assert summary["tokens"] == tokens == report.clock.tokens
    assert summary["seconds"].keys() == tokens.keys() == summary["cpu_seconds"].keys()
    assert "next" not in summary


def test_plain_lines_are_the_same_at_any_width_and_hold_no_escape_code(folder: Path) -> None:
    file = io.StringIO()
    run(folder, file)
    lines = file.getvalue().splitlines()
    assert "\x1b" not in file.getvalue()
    assert lines[:4] == [
        "vineppo on MathReason-v0: 2 iterations, seed 4",
        "  model: tiny \\x1b[2J",
        f"  saved in: {folder}",
        "accuracy before: greedy 40.0 % (30.0 to 50.0), T=1 30.0 % (20.0 to 40.0) of 50 problems",
    ]
    rows = [line for line in lines if line.startswith("iteration ")]
    assert rows[0].startswith("iteration 1/2: reward 0.250, kl 0.0001, left ")
    assert rows[1] == "iteration 2/2: reward 0.500, eval acc. 0.500, kl 0.0001, left 0:00"
    assert "  accuracy T=1: 30.0 % (20.0 to 40.0) -> 50.0 % (40.0 to 60.0), +20.0 points" in lines
    tensorboard = f"next: tensorboard --logdir {folder}"
    assert lines[-3:] == [f"saved in {folder}", tensorboard, "next: do that"]


@pytest.mark.parametrize(
    ("terminal", "config_plain", "plain", "view"),
    [
        (True, False, None, LiveView),
        (True, True, None, PlainView),
        (True, False, True, PlainView),
        (False, False, None, PlainView),
        (False, False, False, PlainView),
    ],
)
def test_the_live_view_is_for_terminals(
    tmp_path: Path, terminal: bool, config_plain: bool, plain: bool | None, view: type
) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, _environ={"TERM": "xterm"})
    config = BaseConfig(plain=config_plain)
    report = Reporter(tmp_path, config, agent="ppo", console=console, plain=plain)
    assert type(report._view) is view


def test_a_log_file_gets_plain_lines_whatever_ci_forces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with Reporter(tmp_path, BaseConfig(iterations=1), agent="ppo") as report:
        with report.phase("rollout", total=1) as phase:
            phase.advance()
        report.iteration({"reward": 1.0})
    assert capsys.readouterr().out == "iteration 1/1: reward 1.000, left 0:00\n"


def test_a_resumed_run_goes_on_counting(folder: Path) -> None:
    console = Console(file=io.StringIO())
    config = BaseConfig(iterations=9)
    with Reporter(folder, config, agent="ppo", console=console, first_iteration=8) as report:
        report.iteration({"reward": 1.0})
        report.summary({})
    assert lines_of(folder / "metrics.jsonl")[0]["iteration"] == 8
    assert json.loads((folder / "summary.json").read_text())["iterations"] == 8


def test_ctrl_c_closes_the_files(folder: Path) -> None:
    console = Console(file=io.StringIO())
    report = Reporter(folder, BaseConfig(), agent="ppo", console=console)
    with pytest.raises(KeyboardInterrupt), report:
        report.iteration({"reward": 1.0})
        with report.phase("rollout"):
            raise KeyboardInterrupt
    with pytest.raises(ValueError, match="closed file"):
        report.iteration({"reward": 1.0})
    assert len(lines_of(folder / "metrics.jsonl")) == 1


def test_a_reporter_that_is_not_open_says_so(folder: Path) -> None:
    report = Reporter(folder, BaseConfig(), agent="ppo", console=Console(file=io.StringIO()))
    with pytest.raises(RuntimeError, match="use `with Reporter"):
        report.iteration({})


def test_the_pace_leaves_out_what_came_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("agents.core.views.time.perf_counter", lambda: now)
    pace = Pace(iterations=7)
    assert pace.seconds_left() is None
    pace.begin(5)
    now = 110.0
    pace.end(5)
    assert pace.seconds_left() == 20.0
    now = 114.0
    assert pace.seconds_left() == 16.0
    now = 900.0
    assert pace.seconds_left() == 10.0
    pace.end(6)
    pace.end(7)
    assert pace.seconds_left() == 0.0


@pytest.mark.parametrize("text", ["\x1b[2J", "\x9b31m", "\r", "\x07", "\u202e", "\ud800", "\u2028"])
def test_characters_that_a_terminal_acts_on_are_escaped(text: str) -> None:
    shown = inert(f"a{text}b")
    assert shown.startswith("a\\")
    assert shown.endswith("b")
    shown.encode("utf-8")
    assert text[0] not in shown
