"""``python -m agents.evaluate`` from its command line to its files."""

import json
from io import StringIO

import pytest
from rich.console import Console

from agents import evaluate
from agents.analysis.evaluation_view import table_of

SMALL = [
    "--num_problems", "6", "--num_samples", "2", "--batch_size", "4", "--threads", "1",
    "--draws", "100",
]  # fmt: skip


def run(folder, *more):
    return evaluate.main([*SMALL, "--output_dir", str(folder), *more])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    assert run(folder) == 0
    return folder


def samples(folder):
    return (folder / "samples.jsonl").read_bytes()


def test_every_sample_is_kept_and_the_numbers_follow_from_them(whole):
    rows = [json.loads(line) for line in samples(whole).splitlines()]
    assert len(rows) == 6 * (1 + 2)
    greedy, warm = json.loads((whole / "evaluation.json").read_text())["results"]
    assert (greedy["label"], warm["label"]) == ("greedy", "T=0.35")
    right = [row["right"] for row in rows if row["temperature"] > 0]
    assert warm["measures"]["pass@1"]["mean"] == pytest.approx(sum(right) / 12)
    assert warm["measures"]["pass@1"]["n"] == 6
    assert {row["split"] for row in rows} == {"test"}
    assert all(row["problem_id"].startswith("ledger/test/") for row in rows)


@pytest.mark.parametrize("kept", [0, 1, 700, 3000, -1, -40])
def test_a_stopped_evaluation_ends_with_the_same_files(whole, tmp_path, kept):
    """Whatever a kill left of the file, whole lines or not."""
    (tmp_path / "options.json").write_bytes((whole / "options.json").read_bytes())
    (tmp_path / "samples.jsonl").write_bytes(samples(whole)[:kept])
    assert run(tmp_path) == 0
    assert samples(tmp_path) == samples(whole)
    both = [(folder / "evaluation.json").read_bytes() for folder in (whole, tmp_path)]
    assert both[0] == both[1]


def test_a_finished_evaluation_loads_no_model(whole, monkeypatch):
    monkeypatch.setattr(evaluate, "load_policy", None)
    assert run(whole) == 0


def test_ctrl_c_keeps_what_is_done(whole, tmp_path, monkeypatch):
    calls = []

    def checked(interrupt):
        calls.append(1)
        if len(calls) > 8:
            interrupt._signal = 2
            raise evaluate.Stopped

    monkeypatch.setattr("agents.core.interrupt.Interrupt.check", checked)
    assert run(tmp_path) == 130
    part = samples(tmp_path)
    assert part
    assert samples(whole).startswith(part)
    monkeypatch.undo()
    assert run(tmp_path) == 0
    assert samples(tmp_path) == samples(whole)


def test_another_evaluation_does_not_go_on_in_the_folder(whole, capsys):
    with pytest.raises(SystemExit):
        run(whole, "--top_p", "1")
    assert "holds an evaluation with top_p=0.9, not 1.0" in capsys.readouterr().err


def test_levels_and_subjects_have_lines_of_their_own(tmp_path):
    assert run(tmp_path, "--env_kwargs", '{"problems": ["word", "linear"], "level": 1}') == 0
    (greedy, _) = json.loads((tmp_path / "evaluation.json").read_text())["results"]
    assert set(greedy["by"]["subject"]) == {"word", "linear"}
    assert sum(part["pass@1"]["n"] for part in greedy["by"]["subject"].values()) == 6


def test_names_from_data_cannot_act_on_the_terminal(whole):
    greedy, warm = json.loads((whole / "evaluation.json").read_text())["results"]
    greedy["by"] = {"subject": {"[red]\x1b[31mx\x07": greedy["measures"]}}
    console = Console(width=80, record=True, file=StringIO())
    console.print(table_of(greedy))
    console.print(table_of(warm))
    text = console.export_text()
    assert "\x1b" not in text
    assert "[red]" in text


def test_mistakes_are_one_line(tmp_path, capsys):
    for more, message in (
        (["--model", "tiny", "--run", "x"], "model and run do not go together"),
        (["--run", str(tmp_path)], "holds no run"),
        (["--temperatures", "1", "1.0"], "temperatures must differ"),
        (["--split", "tset"], "unknown split 'tset'"),
    ):
        with pytest.raises(SystemExit):
            run(tmp_path / "out", *more)
        assert message in capsys.readouterr().err
