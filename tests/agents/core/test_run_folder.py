"""The run folder: its name, what it refuses, and what its files hold."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.core import run_folder
from agents.core.config import BaseConfig
from agents.core.config_files import load_yaml
from agents.core.disk import write_atomically
from agents.core.run_folder import RunFiles, prepare_run_folder


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("MathReason-v0", "vineppo-MathReason-v0-s7-"),
        ("my.pkg:Math-v0", "vineppo-my.pkg-Math-v0-s7-"),
        ("../a/b c", "vineppo-a-b-c-s7-"),
    ],
)
def test_a_new_folder_is_named_after_the_run(tmp_path: Path, env: str, name: str) -> None:
    root = tmp_path / "runs"
    folder = prepare_run_folder(BaseConfig(env=env, seed=7), "vineppo", root=str(root))
    assert folder.parent == root
    assert folder.name.startswith(name)
    assert list(folder.iterdir()) == []


def test_two_runs_of_the_same_second_get_two_folders(tmp_path: Path) -> None:
    made = {prepare_run_folder(BaseConfig(), "ppo", root=str(tmp_path)) for _ in range(3)}
    assert len(made) == 3


def test_output_dir_is_taken_as_it_is(tmp_path: Path) -> None:
    config = BaseConfig(output_dir=str(tmp_path / "a" / "b"))
    assert prepare_run_folder(config, "ppo") == tmp_path / "a" / "b"
    assert prepare_run_folder(config, "ppo") == tmp_path / "a" / "b"  # it holds no run yet


@pytest.mark.parametrize("sign", ["config.yaml", "metrics.jsonl", "checkpoints"])
def test_a_folder_with_a_run_is_refused_and_left_alone(tmp_path: Path, sign: str) -> None:
    (tmp_path / sign).mkdir()
    with pytest.raises(ValueError, match=f"already holds a run .{sign}.. Pass another --output"):
        prepare_run_folder(BaseConfig(output_dir=str(tmp_path)), "ppo")
    assert [item.name for item in tmp_path.iterdir()] == [sign]


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for output_dir in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(OSError, match=r"cannot write the run folder .*file.*another --output"):
            prepare_run_folder(BaseConfig(output_dir=str(output_dir)), "ppo")
    assert (tmp_path / "file").read_text() == "mine"


def test_an_unwritable_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(run_folder.Path, "touch", refuse)
    with pytest.raises(OSError, match=r"cannot write the run folder .*: Permission denied"):
        prepare_run_folder(BaseConfig(output_dir=str(tmp_path)), "ppo")


def test_files_hold_what_was_written(tmp_path: Path) -> None:
    config = BaseConfig(seed=5)
    files = RunFiles(tmp_path, config)
    metrics = {"reward": 0.5, "kl": float("nan"), "n": np.int64(3), "x": np.float32("inf")}
    files.metrics(1, metrics)
    files.sample(1, {"question": "\ud800\x1b[2J", "steps": ("a",)})
    assert read_lines(tmp_path / "metrics.jsonl") == [
        {"iteration": 1, "reward": 0.5, "kl": None, "n": 3, "x": None}
    ]  # before it is closed: every line is flushed
    assert read_lines(tmp_path / "samples.jsonl") == [
        {"iteration": 1, "question": "\ud800\x1b[2J", "steps": ["a"]}
    ]
    files.close()
    files.close()
    assert BaseConfig(**load_yaml(BaseConfig, str(tmp_path / "config.yaml"))) == config


def test_tensorboard_gets_the_same_numbers(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    files = RunFiles(tmp_path, BaseConfig())
    files.metrics(1, {"reward": 0.25, "kl": float("nan")})
    files.metrics(2, {"reward": 0.75})
    files.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert events.Tags()["scalars"] == ["reward"]
    assert [(e.step, e.value) for e in events.Scalars("reward")] == [(1, 0.25), (2, 0.75)]


def test_a_broken_tensorboard_is_said_once_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter", fail)
    files = RunFiles(tmp_path, BaseConfig())
    with caplog.at_level(logging.WARNING):
        for iteration in (1, 2):
            files.metrics(iteration, {"reward": 0.5})
    files.close()
    assert [record.message for record in caplog.records] == [
        "logger tensorboard stopped working, the run goes on without it: OSError: no space left"
    ]
    assert len(read_lines(tmp_path / "metrics.jsonl")) == 2


def test_a_cut_metrics_file_is_appended_to(tmp_path: Path) -> None:
    for iteration in (1, 2):
        files = RunFiles(tmp_path, BaseConfig())
        files.metrics(iteration, {"reward": 0.5})
        files.close()
    assert [line["iteration"] for line in read_lines(tmp_path / "metrics.jsonl")] == [1, 2]


def test_an_atomic_write_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "summary.json"
    write_atomically(path, "old")

    def crash(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_folder.os, "fsync", crash)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new and longer")
    assert path.read_text() == "old"
