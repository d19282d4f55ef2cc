"""Loggers by name: tianshou's, one of the user's own, one that is missing, and ones that fail."""

import importlib.util
import logging
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
from commands import SMALL, flags, metrics_of
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tianshou.utils import LazyLogger

from agents.core.config import BaseConfig
from agents.core.loggers import GuardedLogger, resolve_logger
from agents.grpo import main

NUMBERS = {"reward": 0.5, "eval/greedy": 0.25}


class Recording(LazyLogger):
    """A logger of the user's own, a subclass of tianshou's."""

    made: list["Recording"] = []  # noqa: RUF012 - the test's window

    def __init__(self, folder, config):
        super().__init__()
        self.folder, self.config, self.written, self.ended = folder, config, [], 0
        self.made.append(self)

    def write(self, step_type, step, data):
        self.written.append((step_type, step, data))

    def finalize(self):
        self.ended += 1


class Failing(Recording):
    """Fails in the method that its class attribute names."""

    where = ""

    def __init__(self, folder, config):
        self._fail("init")
        super().__init__(folder, config)

    def write(self, step_type, step, data):
        self._fail("write")

    def finalize(self):
        self._fail("finalize")

    def _fail(self, place):
        if place == self.where:
            raise ConnectionError(f"no network in {place}")


@pytest.fixture(autouse=True)
def _no_recordings(monkeypatch):
    monkeypatch.setattr(Recording, "made", [])
    monkeypatch.setitem(sys.modules, "my_loggers", sys.modules[__name__])


def test_a_logger_of_ones_own_gets_what_metrics_jsonl_gets(tmp_path):
    arguments = flags(SMALL, logger="my_loggers:Recording", eval_every=1, learning_rate=3e-4)
    assert main([*arguments, "--output_dir", str(tmp_path / "run")]) == 0
    (logger,) = Recording.made
    assert (logger.folder, logger.ended) == (tmp_path / "run", 1)
    assert logger.config["learning_rate"] == 3e-4
    lines = metrics_of(tmp_path / "run")
    for line in lines:
        training, test = (
            {name: value for name, value in line.items() if name.startswith("eval/") is wanted}
            for wanted in (False, True)
        )
        number = training.pop("iteration")
        found = {step_type: data for step_type, step, data in logger.written if step == number}
        assert training.items() <= found["training/iteration"].items()
        assert not test or found["test/iteration"].keys() == {*test}
    assert {step for _, step, _ in logger.written} == {0, 1, 2}, "0: the evaluation before"
    assert not list((tmp_path / "run").glob("events*"))


@pytest.mark.parametrize("where", ["init", "write", "finalize"])
def test_one_that_fails_is_said_once_and_stops_nothing(where, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(Failing, "where", where)
    arguments = flags(SMALL, logger="my_loggers:Failing", eval_problems=0)
    with caplog.at_level(logging.WARNING, "agents"):
        assert main([*arguments, "--output_dir", str(tmp_path / "run")]) == 0
    assert [record.message for record in caplog.records] == [
        "logger my_loggers:Failing stopped working, the run goes on without it: "
        f"ConnectionError: no network in {where}"
    ]
    assert len(metrics_of(tmp_path / "run")) == 2


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("tensorboard", {"reward", "eval/greedy"}),
        (
            "agents.adapters.loggers:tensorboard_logger",
            {"training/reward", "test/eval/greedy", "training/iteration", "test/iteration"},
        ),
        ("none", set()),
    ],
)
def test_events_of_each_logger(name, tags, tmp_path):
    logger = GuardedLogger(name, tmp_path, BaseConfig())
    logger.write(3, NUMBERS)
    logger.close()
    logger.close()
    events = EventAccumulator(str(tmp_path)).Reload() if tags else None
    assert bool(list(tmp_path.glob("events*"))) == bool(tags)
    if events is not None:
        assert set(events.Tags()["scalars"]) == tags
        (reward,) = (tag for tag in tags if tag.endswith("reward"))
        assert [(e.step, e.value) for e in events.Scalars(reward)] == [(3, 0.5)]


@pytest.fixture
def fake_wandb(monkeypatch):
    """A module in wandb's place that notes how a run is begun and ended."""
    module, seen = ModuleType("wandb"), SimpleNamespace(finished=0)
    module.__spec__ = ModuleSpec("wandb", None, origin="somewhere")

    def init(**settings):
        seen.settings = settings
        return SimpleNamespace(_label=lambda **_: None, finish=finish)

    def finish():
        seen.finished += 1

    module.run, module.init, module.Settings = None, init, SimpleNamespace
    monkeypatch.setitem(sys.modules, "wandb", module)
    return seen


def test_wandb_goes_through_tianshous_logger(tmp_path, fake_wandb, monkeypatch):
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    logger = GuardedLogger("wandb", tmp_path, BaseConfig(seed=7))
    logger.write(1, NUMBERS)
    logger.close()
    settings = fake_wandb.settings
    assert (settings["project"], settings["name"]) == ("lang-env", tmp_path.name)
    assert (settings["sync_tensorboard"], settings["config"]["seed"]) == (True, 7)
    assert fake_wandb.finished == 1
    scalars = EventAccumulator(str(tmp_path)).Reload().Tags()["scalars"]
    assert {"training/reward", "test/eval/greedy"} <= set(scalars)


@pytest.mark.parametrize("found", [None, ModuleSpec("wandb", None)])
def test_a_missing_wandb_is_said_before_anything_is_built(found, tmp_path, monkeypatch, capsys):
    """A folder called wandb in the working directory is a module without origin."""
    specs = {"wandb": found}
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "agents.core.loggers.find_spec",
        lambda name: specs.get(name) if name in specs else real(name),
    )
    with pytest.raises(SystemExit):
        main(["--logger", "wandb", "--output_dir", str(tmp_path / "run")])
    assert "pip install 'lang-env[wandb]', or set --logger tensorboard." in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tensorbord", r"unknown logger 'tensorbord'\. Did you mean 'tensorboard'\?"),
        ("no_such_package:x", "cannot import logger 'no_such_package:x'"),
    ],
)
def test_an_unknown_name_is_refused(name, message, tmp_path, capsys):
    with pytest.raises(ValueError, match=message):
        resolve_logger(name)
    with pytest.raises(SystemExit):
        main([*flags(SMALL), "--report_to", name, "--output_dir", str(tmp_path / "run")])
    assert name in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
