"""What --resume finds, refuses and takes back."""

import json
import shutil
import signal

import pytest
from interruptions import command, resume, run

from agents import rloo
from agents.core.checkpoint import checkpoints, load_checkpoint
from agents.core.interrupt import Interrupt
from agents.core.resume import launch, rewind
from agents.core.run_folder import cut_back, finished
from agents.rloo import RLOOConfig


def _launch(argv, root="runs"):
    return launch("rloo", RLOOConfig, argv, tiny="tiny_rloo", description="", root=str(root))


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run of two iterations with a checkpoint after each, whose end is taken away."""
    folder = tmp_path_factory.mktemp("runs") / "rloo-x"
    assert run("rloo", folder, iterations=2, eval_problems=0) == 0
    (folder / "summary.json").unlink()
    return folder


def _copy(begun, tmp_path):
    return shutil.copytree(begun, tmp_path / "runs" / "rloo-x")


def test_without_a_value_it_is_the_newest_run(begun, tmp_path):
    folder = _copy(begun, tmp_path)
    found = _launch(["--resume"], root=tmp_path / "runs")
    assert (found.folder, found.checkpoint) == (folder, folder / "checkpoints" / "step-2")
    assert found.config.output_dir == str(begun)  # as it was saved


def test_nothing_to_resume_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"holds no run of rloo. Pass --resume RUN"):
        _launch(["--resume"], root=tmp_path)
    with pytest.raises(ValueError, match=r"neither a run folder .* nor a checkpoint"):
        _launch(["--resume", str(tmp_path)])
    with pytest.raises(ValueError, match="--force is for --resume"):
        _launch(["--force"])


def test_the_same_command_begins_and_goes_on(tmp_path):
    """So that a scheduler can start it again and again."""
    line = ["--resume", *command("rloo", tmp_path / "x", eval_problems=0)]
    assert _launch(line).checkpoint is None
    assert rloo.main([*line, "--iterations", "1"]) == 0
    assert _launch([*line, "--iterations", "1"]).finished


def test_changed_options_are_named_and_grave_ones_need_force(begun, tmp_path, capsys):
    folder = str(_copy(begun, tmp_path))
    with pytest.raises(ValueError, match=r"--learning_rate was 0.001, is 0.1.*or add --force"):
        _launch(["--resume", folder, "--learning_rate", "0.1", "--eval_samples", "3"])
    assert _launch(["--resume", folder, "--eval_samples", "3"]).config.eval_samples == 3
    assert "--eval_samples was 1, is 3" in capsys.readouterr().err
    forced = _launch(["--resume", folder, "--learning_rate", "0.1", "--force"])
    assert forced.config.learning_rate == 0.1


def test_an_older_checkpoint_leaves_the_newer_ones_aside(begun, tmp_path):
    folder = _copy(begun, tmp_path)
    found = _launch(["--resume", str(folder / "checkpoints" / "step-1")])
    assert found.checkpoint == folder / "checkpoints" / "step-1"
    assert len(checkpoints(folder)) == 2, "nothing changes before the folder is held"
    assert rewind(folder, load_checkpoint(found.checkpoint), found.checkpoint) == 2
    assert [path.name for path in checkpoints(folder)] == ["step-1"]
    assert (folder / "checkpoints" / "abandoned-step-2").is_dir()


@pytest.mark.parametrize("victim", ["model.safetensors", "trainer_state.json", "manifest.json"])
@pytest.mark.parametrize("how", ["cut", "flipped", "gone"])
def test_a_damaged_checkpoint_is_named_with_the_one_before(begun, tmp_path, victim, how, capsys):
    folder = _copy(begun, tmp_path)
    path = folder / "checkpoints" / "step-2" / victim
    content = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(content if how == "flipped" else content[: len(content) // 2])
    # A manifest that was changed accuses the file whose hash it holds.
    named = path if victim != "manifest.json" or how != "flipped" else path.parent
    with pytest.raises(SystemExit) as caught:
        resume("rloo", folder)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert f"step-2 is damaged: {named}" in error
    assert f"--resume {folder / 'checkpoints' / 'step-1'}" in error
    assert resume("rloo", folder / "checkpoints" / "step-1") == 0


def test_a_checkpoint_may_not_point_outside(begun, tmp_path):
    checkpoint = _copy(begun, tmp_path) / "checkpoints" / "step-2"
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["files"]["../../config.yaml"] = manifest["files"].pop("model.safetensors")
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="missing, or not a file of the checkpoint"):
        load_checkpoint(checkpoint)


def test_another_algorithms_run_is_refused(begun, tmp_path, capsys):
    with pytest.raises(SystemExit):
        resume("grpo", _copy(begun, tmp_path))
    assert "is of rloo, not of grpo" in capsys.readouterr().err


def test_files_are_cut_back_to_whole_lines(tmp_path):
    lines = [json.dumps({"iteration": number}) + "\n" for number in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines) + '{"iteration": 2')
    cut_back(tmp_path, 2)
    assert (tmp_path / "metrics.jsonl").read_text() == "".join(lines[:2])
    cut_back(tmp_path, 0)
    assert (tmp_path / "metrics.jsonl").read_text() == ""


@pytest.mark.parametrize("text", ["", "[]", "{", '{"interrupted": true}'])
def test_only_a_whole_summary_ends_a_run(tmp_path, text):
    (tmp_path / "summary.json").write_text(text)
    assert not finished(tmp_path)
    (tmp_path / "summary.json").write_text('{"interrupted": false}')
    assert finished(tmp_path)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_asks_once_and_insists_twice(number, status):
    with Interrupt() as interrupt:
        assert (interrupt.requested(), interrupt.status) == (False, 0)
        signal.raise_signal(number)
        assert (interrupt.requested(), interrupt.status) == (True, status)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
