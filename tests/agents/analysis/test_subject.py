"""What an analysis works on: from flags to policies on problems."""

import shutil

import pytest
import yaml

from agents.analysis.subject import AnalysisConfig, UnsuitableError, checkpoints_of, subjects_of


def test_without_flags_it_is_the_embedded_policy():
    config, (subject,) = subjects_of(AnalysisConfig, {"num_problems": 2})
    assert (subject.name, subject.split, len(subject.checkpoints)) == ("tiny", "validation", 1)
    assert subject.config is config
    starts = subject.starts()
    assert len({start.problem_id for start in starts}) == 2
    assert subject.policy(subject.checkpoints[0]).num_parameters > 10_000


def test_the_seed_chooses_the_problems():
    def ids(seed):
        _, (subject,) = subjects_of(AnalysisConfig, {"num_problems": 4, "seed": seed})
        return [start.problem_id for start in subject.starts()]

    assert ids(0) == ids(0) != ids(1)


def test_a_finite_set_gives_as_many_as_it_has():
    from lang_env import Problem

    problems = [Problem("a", "1*1?", "1"), Problem("b", "2*2?", "4")]
    _, (subject,) = subjects_of(AnalysisConfig, {"env_kwargs": {"problems": problems}})
    assert sorted(start.problem_id for start in subject.starts()) == ["a", "b"]


def test_a_run_gives_its_environment_sampling_and_checkpoints(run_folder):
    _, subjects = subjects_of(
        AnalysisConfig, {"run": (str(run_folder),), "split": ("train", "test"), "top_p": 0.5}
    )
    assert [(subject.name, subject.split) for subject in subjects] == [
        ("short", "train"),
        ("short", "test"),
    ]
    subject = subjects[0]
    assert subject.config.max_new_tokens == 80
    assert (subject.config.temperature, subject.config.top_p) == (1.0, 0.5)  # the flag wins
    assert subject.run_options["num_prompts"] == 4
    assert [(c.iteration, c.folder is None) for c in subject.checkpoints] == [
        (0, True),
        (1, False),
        (2, False),
    ]
    first, _, last = (subject.policy(checkpoint) for checkpoint in subject.checkpoints)
    pairs = zip(first.parameters(), last.parameters(), strict=True)
    assert any(not before.equal(after) for before, after in pairs)


def test_the_start_can_be_left_out(run_folder):
    _, (subject,) = subjects_of(AnalysisConfig, {"run": (str(run_folder),), "start": False})
    assert [checkpoint.iteration for checkpoint in subject.checkpoints] == [1, 2]


def test_runs_of_one_name_are_told_apart(run_folder, tmp_path):
    other = tmp_path / run_folder.name
    shutil.copytree(run_folder, other)
    _, subjects = subjects_of(AnalysisConfig, {"run": (str(run_folder), str(other))})
    assert [subject.name for subject in subjects] == [str(run_folder), str(other)]


def test_another_environment_does_not_get_the_options_of_the_run(run_folder):
    given = {"run": (str(run_folder),), "env": "lang_env:MathReason-v0"}
    _, (subject,) = subjects_of(AnalysisConfig, given)
    assert subject.config.max_new_tokens is None


def test_half_written_and_foreign_folders_are_no_checkpoints(run_folder, tmp_path):
    other = tmp_path / "run"
    shutil.copytree(run_folder, other)
    (other / "checkpoints" / "step-9.partial").mkdir()
    (other / "checkpoints" / "step-x").mkdir()
    (other / "checkpoints" / "step-8").mkdir()
    assert [checkpoint.iteration for checkpoint in checkpoints_of(other)] == [1, 2]


def test_a_start_that_is_gone_says_how_to_leave_it_out(run_folder, tmp_path):
    other = tmp_path / "run"
    shutil.copytree(run_folder, other)
    options = yaml.safe_load((other / "config.yaml").read_text())
    (other / "config.yaml").write_text(yaml.safe_dump(options | {"model": "/no/such/model"}))
    _, (subject,) = subjects_of(AnalysisConfig, {"run": (str(other),)})
    with pytest.raises(UnsuitableError, match="--start false leaves it out"):
        subject.policy(subject.checkpoints[0])
    assert subject.policy(subject.checkpoints[1]).num_parameters > 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no config.yaml"),
        ("- 1\n", "option: value"),
        ("temperature: -1\n", "temperature must be > 0"),
        ("env: MathReason-v0\n", "no checkpoints"),
    ],
)
def test_a_folder_that_is_no_run(tmp_path, content, message):
    if content is not None:
        (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(ValueError, match=message):
        subjects_of(AnalysisConfig, {"run": (str(tmp_path),)})
