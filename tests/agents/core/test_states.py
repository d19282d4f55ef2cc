"""Only an algorithm that needs the states between steps pays for them; no result changes."""

import json

import pytest
from commands import SMALL, flags, metrics_of

import agents.core.agent as agent_module
from agents import grpo, ppo, rloo, vineppo


def _results(module, folder, **settings):
    arguments = flags(SMALL | settings)
    assert module.main([*arguments, "--output_dir", str(folder)]) == 0
    return metrics_of(folder), (folder / "samples.jsonl").read_text()


@pytest.mark.parametrize("module", [grpo, rloo, ppo])
def test_the_run_is_the_same_with_and_without_states(module, tmp_path, monkeypatch):
    cuts, real = [], agent_module.mark_states

    def counted(env, trajectory):
        real(env, trajectory)
        cuts.append(trajectory)

    monkeypatch.setattr(agent_module, "mark_states", counted)
    (agent_class,) = (
        found
        for found in vars(module).values()
        if isinstance(found, type)
        and found.__module__ == module.__name__
        and hasattr(found, "name")
    )
    assert agent_class.needs_states is False
    without = _results(module, tmp_path / "without", beta=0.01)
    assert not cuts
    monkeypatch.setattr(agent_class, "needs_states", True)
    assert _results(module, tmp_path / "with", beta=0.01) == without
    assert len(cuts) == SMALL["iterations"] * SMALL["num_prompts"] * SMALL["num_generations"]


def test_vineppo_has_them(tmp_path):
    agent = vineppo.VinePPO(vineppo.VinePPOConfig(**SMALL), tmp_path)
    for trajectory in agent.collect(1, lambda *_: None):
        assert len(trajectory.states) == len(trajectory.borders) > 1


def test_a_critics_values_are_shown_at_the_borders(tmp_path):
    _results(ppo, tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/samples.jsonl").read_text().splitlines()]
    for line in lines:
        assert len(line["values"]) == len(line["steps"]) > 1
        assert all(isinstance(value, float) for value in line["values"])
        for value, advantage in zip(line["values"], line["advantages"], strict=True):
            assert value + advantage == pytest.approx(line["reward"], abs=1e-6), "lambda = 1"
