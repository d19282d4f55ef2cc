"""Drawings: what they show, and that no text of a model acts on the terminal."""

import re

import pytest

from lang_env import Problem
from lang_env.env import TokenEnv
from lang_env.rendering import WIDTH, draw_episode, draw_text, inert
from lang_env.snapshot import Outcome

PROBLEM = Problem("p\x1b]0;t\x07", "6*[bold]7[/bold]?\x1b[2J", "42")
STYLES = re.compile(r"\x1b\[[0-9;]*m")


def shown(steps, outcome=None):
    return draw_text(draw_episode(PROBLEM, steps, outcome, 3, 8))


def plain(text):
    return STYLES.sub("", text)


def test_nothing_in_a_text_is_interpreted():
    hostile = "[red]a[/red]\x1b[31m\x9b2J\x07\r\u202eb\u2028\ud800[/nothing]\n"
    text = shown([hostile], Outcome(True, False, 0.0, "wr\x1b[1mong", "\x1b[5m4\n2"))
    rest = plain(text)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028\ud800]", rest)
    for part in (
        r"[red]a[/red]\x1b[31m\x9b2J\x07\r\u202eb\u2028\ud800[/nothing]",
        r"6*[bold]7[/bold]?\x1b[2J",
        r"p\x1b]0;t\x07",
        r"wr\x1b[1mong",
    ):
        assert part in rest


def test_steps_are_numbered_and_neighbours_differ_in_colour():
    lines = shown(["a\n", "b\n", "c"]).splitlines()
    rows = [line for line in lines if re.match(r"\s*[123] [abc]", plain(line))]
    assert [plain(row).split() for row in rows] == [["1", "a"], ["2", "b"], ["3", "c"]]
    styles = [STYLES.findall(row.split("m", 2)[-1]) for row in rows]
    assert styles[0] != styles[1] and styles[0] == styles[2]


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (None, "3 of 8 tokens  running"),
        (
            Outcome(True, False, 1.0, "correct", "42"),
            "3 of 8 tokens  terminated  correct  score 1  answered 42, expected 42",
        ),
        (Outcome(False, True, 0.0, "unfinished"), "3 of 8 tokens  truncated  unfinished  score 0"),
    ],
)
def test_flags_and_score(outcome, expected):
    assert plain(shown(["a"], outcome)).splitlines()[-1] == expected


def test_a_verdict_has_its_colour():
    colours = {"correct": "\x1b[1;32m", "wrong": "\x1b[1;31m", "undecided": "\x1b[1;33m"}
    for verdict, colour in colours.items():
        assert colour + verdict in shown(["a"], Outcome(True, False, 0.0, verdict))


def test_long_lines_are_folded_to_the_width():
    assert max(len(line) for line in plain(shown(["x" * 1000])).splitlines()) <= WIDTH


def test_the_machine_does_not_change_a_drawing(monkeypatch):
    before = shown(["a\n", "b"])
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "20")):
        monkeypatch.setenv(name, value)
    assert shown(["a\n", "b"]) == before


def test_inert_keeps_ordinary_text():
    assert inert("é€ \\ x\n\ty") == "é€ \\ x\n    y"


def make(mode):
    return TokenEnv([PROBLEM], max_prompt_tokens=40, max_new_tokens=8, render_mode=mode)


def test_ansi_returns_text_and_human_draws_by_itself(capsys):
    env = make("ansi")
    env.reset(seed=0)
    env.play(env.tokenizer.encode("6\n7"))
    assert capsys.readouterr().out == ""
    text = plain(env.render())
    assert "1 6" in text and "2 7" in text and "3 of 8 tokens  running" in text

    env = make("human")
    for call, expected in (
        (lambda: env.reset(seed=0), "0 of 8 tokens"),
        (lambda: env.step(40), "1 of 8 tokens"),
        (lambda: env.play([40, 41]), "3 of 8 tokens"),
    ):
        call()
        assert expected in capsys.readouterr().out
    assert env.render() is None
    assert make(None).render() is None
