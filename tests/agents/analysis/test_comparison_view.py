"""What a comparison shows, on a terminal and in a log file."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from agents.analysis.comparison_tables import Table
from agents.analysis.comparison_view import ComparisonView
from agents.analysis.jobs import Progress
from agents.analysis.variants import make_run, parse_variant


@pytest.fixture
def progress(tmp_path):
    """Two runs of four finished, one of them just now, one under way at iteration 3."""
    run = make_run(parse_variant("rloo"), {"iterations": "9"}, 5, tmp_path)
    job = SimpleNamespace(run=run, iterations=3, started=0.0)
    return Progress(2, 4, (job,), (run, True))


def shown(progress, *, terminal, plain=False):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, height=20, color_system=None)
    with ComparisonView(plain=plain, console=console) as view:
        view.begin("search beta")
        view.progress(progress)
        view.tables([Table("Accuracy", ("agent", "after"), [("[red]x", "50.0")], "A note.")])
    return file.getvalue()


def test_a_log_gets_a_line_for_each_run_that_ends(progress):
    for text in (shown(progress, terminal=False), shown(progress, terminal=True, plain=True)):
        assert "[2/4] search beta: rloo seed 5 finished" in text
        assert "3/9" not in text
        assert "\x1b[?25" not in text, "the cursor is left alone"


def test_a_terminal_gets_what_runs_and_its_cursor_back(progress):
    text = shown(progress, terminal=True)
    assert "2/4 runs" in text
    assert "3/9 iterations" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1


def test_labels_are_no_markup(progress):
    assert "[red]x" in shown(progress, terminal=False)
