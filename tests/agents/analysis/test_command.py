"""The list of analyses, their errors and what a run of one writes."""

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from agents.analysis.__main__ import ANALYSES, main
from agents.analysis.command import run_analysis
from agents.analysis.output import Outcome, label, new_figure
from agents.analysis.subject import AnalysisConfig, UnsuitableError
from agents.core.options import option


@dataclass(frozen=True)
class CountConfig(AnalysisConfig):
    factor: int = option(1, "Multiplies.", low=1)


def count(config, subjects, say):
    if config.factor == 13:
        raise UnsuitableError("not with 13. Pass --factor 12.")
    number = config.factor * sum(len(subject.starts()) for subject in subjects)
    figure, (axes,) = new_figure()
    axes.plot([0, number], [0, 1], label="count")
    label(axes, "Problems", "number", "share")
    say("counted")
    return Outcome({"number": number, "nothing": float("nan")}, figure, f"{number} problems")


def run(*argv):
    return run_analysis("count", CountConfig, count, about="Counts.", argv=argv)


def test_it_writes_json_and_png_and_prints_a_line(tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    assert run("--num_problems", "2", "--factor", "3", "--output", str(folder)) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("6 problems\nwrote ") and shown.err == "counted\n"
    document = json.loads((folder / "count.json").read_text())
    assert document["analysis"] == "count"
    assert document["config"]["factor"] == 3
    assert document["subjects"][0]["env"] == "MathReason-v0"
    assert document["results"] == {"number": 6, "nothing": None}
    assert (folder / "count.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_analysis_gives_the_same_picture(tmp_path, capsys):
    pictures = []
    for name in "ab":
        assert run("--num_problems", "2", "--output", str(tmp_path / name)) == 0
        pictures.append((tmp_path / name / "count.png").read_bytes())
    assert pictures[0] == pictures[1]


def test_a_subject_that_does_not_suit_is_one_line(tmp_path, capsys):
    assert run("--factor", "13", "--output", str(tmp_path)) == 2
    assert capsys.readouterr().err == "error: not with 13. Pass --factor 12.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--factr", "2"], "unknown option '--factr'. Did you mean"),
        (["--split", "dev"], "unknown split 'dev'"),
        (["--run", "/no/such/run"], "holds no run"),
        (["--model", "/no/such/model"], "cannot load model"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(tmp_path, capsys, argv, message):
    with pytest.raises(SystemExit) as left:
        run(*argv, "--output", str(tmp_path))
    assert left.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ") and message in shown and shown.count("\n") == 1


def test_without_a_name_the_analyses_are_listed(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name}" in shown for name in ANALYSES)


def test_an_unknown_name_is_refused(capsys):
    assert main(["valuse"]) == 2
    assert "unknown analysis 'valuse'" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(ANALYSES))
def test_every_analysis_has_help(name, capsys):
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert f"{name}.json" in shown and "options of every analysis" in shown


def test_figures_leave_pyplot_alone():
    code = (
        "import sys; from agents.analysis.output import new_figure; new_figure(); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
