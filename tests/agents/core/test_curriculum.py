"""A curriculum in training: what counts, what is logged and what a checkpoint holds."""

import json
from itertools import pairwise

import numpy as np
import pytest
from commands import SMALL, collected, flags, metrics_of
from toy import ToyEnv

from agents.core.curriculum import (
    curriculum_metrics,
    curriculum_state,
    record_successes,
    set_curriculum_state,
)
from agents.core.evaluation import success_of
from agents.core.interrupt import Stopped
from agents.grpo import GRPO, GRPOConfig
from agents.vineppo import VinePPO, VinePPOConfig, main

RULES = {"levels": [1, 2, 3], "window": 64, "rise": 0.6, "fall": 0.1}


def options(**rules):
    return SMALL | {"env_kwargs": {"curriculum": RULES | rules}}


def test_a_group_is_one_outcome_and_value_rollouts_are_none(tmp_path):
    agent = VinePPO(VinePPOConfig(**options(), num_rollouts=2), tmp_path)
    trajectories, _ = collected(agent)
    groups = np.array([success_of(t) for t in trajectories]).reshape(4, 4)
    assert curriculum_state(agent.env) == {"level": 1, "recent": groups.mean(axis=1).tolist()}
    assert agent.collected == {"curriculum/level": 1.0}
    assert {t.start.snapshot.problem.level for t in trajectories} == {"1"}


def test_groups_that_are_replaced_count_too(tmp_path):
    config = GRPOConfig(**options(), zero_spread="resample")
    agent = GRPO(config, tmp_path)
    agent.collect(1, lambda *_: None)
    recent = curriculum_state(agent.env)["recent"]
    assert len(recent) == 4 + agent.collected["resampled/groups"] > 4


def test_a_run_logs_its_level_and_saves_its_state(tmp_path):
    run = tmp_path / "run"
    settings = options(window=4, rise=0.05, fall=0.0) | {"num_rollouts": 1, "iterations": 3}
    settings["env_kwargs"] = json.dumps(settings["env_kwargs"])
    assert main(flags(settings, output_dir=run)) == 0
    levels = [line["curriculum/level"] for line in metrics_of(run)]
    assert levels[0] == 1 and max(levels) > 1
    assert all(0 <= after - before <= 1 for before, after in pairwise(levels))
    step = run / "checkpoints" / "step-3" / "trainer_state.json"
    state = json.loads(step.read_text())["memory"]["curriculum"]
    agent = VinePPO(VinePPOConfig(**options(window=4, rise=0.05, fall=0.0)), tmp_path / "more")
    set_curriculum_state(agent.env, state)
    assert curriculum_state(agent.env) == state
    assert {s.snapshot.problem.level for s in agent.cursor.starts(4)} == {str(state["level"])}


def test_an_iteration_that_is_given_up_leaves_no_trace(tmp_path, monkeypatch):
    agent = VinePPO(VinePPOConfig(**options()), tmp_path)

    class Report:
        def phase(self, *args, **kwargs):
            return self

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

        def advance(self, *args, **kwargs):
            pass

    class Interrupted:
        def agree(self):
            return False

        def came(self):
            return False

        def check(self):
            pass

    def stopped(*args):
        assert len(curriculum_state(agent.env)["recent"]) == 4
        raise Stopped

    monkeypatch.setattr(agent, "advantages", stopped)
    assert agent._iterate(Report(), Interrupted()) is False
    assert curriculum_state(agent.env) == {"level": 1, "recent": []}


def test_an_environment_without_one_is_left_alone():
    env = ToyEnv()
    record_successes(env, [[None]])
    set_curriculum_state(env, {})
    assert curriculum_state(env) == curriculum_metrics(env) == {}
    with pytest.raises(AttributeError):
        set_curriculum_state(env, {"level": 1, "recent": []})
