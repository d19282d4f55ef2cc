"""The live view: what is on the screen, what gives way on a small one, hostile text, colours."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.color import Color
from rich.console import Console

from agents.core.live import LiveView
from agents.core.records import Interval, PhaseClock, Sample
from agents.core.sample_view import _BLUE, _ORANGE, advantage_style, draw_sample, sample_height
from agents.core.views import PhaseState, Summary

METRICS = {
    "reward": 0.5,
    "evaluated": 0.625,
    "kl": 1e-4,
    "entropy": 0.75,
    "clip_ratio/region_mean": 0.125,
    "completions/mean_length": 41.25,
    "vine/k_fresh": 8.5,
    "num_tokens": 51234,
    "step_time": 3.5,
}


def console(width: int = 120, height: int = 50, terminal: bool = True) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=width,
        height=height,
        color_system="truecolor" if terminal else None,
        _environ={"TERM": "xterm"},
    )


def sample(steps: Sequence[str], question: str = "How many?") -> Sample:
    advantages = tuple(0.5 - 0.25 * place for place in range(len(steps)))
    return Sample(question, tuple(steps), advantages, (0.5,) * len(steps), 1.0, "13")


def a_view(width: int = 120, height: int = 50, iterations: int = 30) -> tuple[LiveView, Console]:
    """A view in the middle of a run; it is drawn by the test, not by a thread."""
    screen = console(width, height, terminal=False)
    view = LiveView(screen, iterations)
    view._start = lambda: None  # type: ignore[method-assign]
    view.evaluation("before", {"greedy": Interval(0.4, 0.3, 0.5, 50)})
    for iteration in range(1, 21):
        for name in ("rollout", "values", "update"):
            state = PhaseState(name, 64, done=64, tokens=512, started=0.0, ended=2.0)
            view.phase(state, iteration)
        view.iteration(iteration, METRICS)
        view.sample(sample(["x = 1\n", "y = 2\n", "#### 3"]), iteration)
    view.phase(PhaseState("rollout", 64, done=16), 21)
    return view, screen


def drawn(view: LiveView, screen: Console) -> list[str]:
    file = io.StringIO()
    screen.file = file
    screen.print(view)
    return file.getvalue().splitlines()


def test_the_screen_shows_phases_rows_and_a_sample() -> None:
    lines = drawn(*a_view())
    text = "\n".join(lines)
    assert lines[0].startswith("iteration 21 of 30")
    assert lines[1].split()[0] == "rollout"
    assert "16/64" in lines[1]
    assert "accuracy before" in lines[2]
    assert "greedy 40.0 %" in lines[2]
    heading = (
        "iteration  reward  eval acc.      kl  entropy  clip frac  length  fresh K  tokens   time"
    )
    assert heading in text
    assert [int(line.split()[0]) for line in lines if line.endswith("3.5 s")] == [*range(9, 21)]
    assert "an answer of iteration 20: reward 1.00, reference 13" in text
    assert "+0.50  0.50 x = 1↵" in text


def test_ended_phases_of_the_iteration_keep_their_rate() -> None:
    view, screen = a_view()
    view.phase(PhaseState("values", 64, done=64, tokens=512, started=0.0, ended=2.0), 21)
    line = next(line for line in drawn(view, screen) if line.split()[:1] == ["values"])
    assert "64/64  32/s  256 tok/s  2.0 s" in line


@pytest.mark.parametrize(("width", "height"), [(120, 50), (80, 24), (60, 16), (40, 12)])
def test_the_view_fits_the_screen(width: int, height: int) -> None:
    lines = drawn(*a_view(width, height))
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert any(line.split()[:1] == ["20"] for line in lines)  # the newest row is never dropped


def test_columns_of_less_weight_give_way_to_width() -> None:
    heading = next(line for line in drawn(*a_view(60)) if "reward" in line)
    assert "time" in heading
    assert "fresh K" not in heading


def test_steps_in_the_middle_give_way_to_height() -> None:
    steps = [f"step {place}\n" for place in range(30)]
    screen = console(80, terminal=False)
    screen.print(draw_sample(sample(steps), 1, 8))
    lines = screen.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 8
    assert "step 0" in lines[2]
    assert "... 26 more steps" in lines[5]
    assert "step 29" in lines[6]


def test_a_sample_takes_the_height_that_it_says() -> None:
    answer = sample(["a\n", "b\n", "c"])
    screen = console(80, terminal=False)
    screen.print(draw_sample(answer, 1, sample_height(answer)))
    assert len(screen.file.getvalue().splitlines()) <= sample_height(answer)  # type: ignore[attr-defined]


def test_hostile_text_is_shown_and_not_obeyed() -> None:
    view, screen = a_view()
    hostile = "\x1b]0;owned\x07[bold red]x[/bold red][link=http://x]\r\x9b2J\n"
    view.sample(sample([hostile, "[/]"], question="[red]\x1b[2J"), 20)
    text = "\n".join(drawn(view, screen))
    assert "\\x1b]0;owned\\x07[bold red]x[/bold red][link=http://x]\\r\\x9b2J↵" in text
    assert "[red]\\x1b[2J" in text
    assert not {"\x1b", "\x07", "\x9b", "\r"} & set(text)


def test_the_sign_is_a_number_and_a_colour() -> None:
    screen = console(80)
    screen.print(draw_sample(sample(["right\n", "better\n", "plain\n", "wrong"]), 1, 10))
    lines = screen.file.getvalue().splitlines()  # type: ignore[attr-defined]
    good, neutral, bad = (
        next(line for line in lines if word in line) for word in ("right", "plain", "wrong")
    )
    assert "+0.50" in good
    assert "48;2;33;102;172" in good  # blue
    assert "+0.00" in neutral
    assert "48;2" not in neutral
    assert "-0.25" in bad
    assert "48;2;240;138;36" in bad  # orange


def luminance(colour: Color) -> float:
    assert colour.triplet is not None
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in colour.triplet.normalized
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("share", [0.15, 0.3, 0.6, 1.0])
def test_steps_read_on_their_background(sign: int, share: float) -> None:
    style = advantage_style(sign * share, 1.0)
    assert style.color is not None
    assert style.bgcolor is not None
    shades = sorted([luminance(style.color), luminance(style.bgcolor)])
    assert (shades[1] + 0.05) / (shades[0] + 0.05) >= 4.5  # the WCAG's bound for text


def test_colours_grow_with_the_advantage_and_differ_by_sign() -> None:
    shares = [0.15, 0.3, 0.6, 1.0]
    assert [str(advantage_style(share, 1.0)) for share in shares] == list(_BLUE)
    assert [str(advantage_style(-share, 1.0)) for share in shares] == list(_ORANGE)
    assert not advantage_style(0.05, 1.0)
    assert not advantage_style(float("nan"), 1.0)


def test_a_terminal_gets_its_cursor_back_and_the_final_panel() -> None:
    screen = console()
    view = LiveView(screen, 2)
    view.header("vineppo on [x]", {"model": "tiny"})
    view.phase(PhaseState("rollout", 4), 1)
    view.iteration(1, METRICS)
    results = {"greedy": Interval(0.4, 0.3, 0.5, 50)}
    view.summary(
        Summary(
            iterations=1,
            planned=2,
            seconds=61.0,
            cpu_seconds=70.0,
            before=results,
            after={"greedy": Interval(0.6, 0.5, 0.7, 50)},
            clock=PhaseClock(),
            folder="runs/" + "x" * 200,
            next_commands=["do that"],
        )
    )
    view.close()
    output = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "vineppo on [x]" in output
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")
    assert "finished 1 of 2 iterations" in output
    assert "40.0 % (30.0 to 50.0)" in output
    assert "+20.0" in output
    assert "x" * 200 in output  # a path is never broken over lines
    assert "next: do that" in output
