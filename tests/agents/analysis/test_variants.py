"""What a comparison runs: equal budgets, exact commands, names that do not collide."""

from dataclasses import replace

import pytest

from agents.analysis.variants import (
    AGENTS,
    EQUAL,
    config_class,
    digest,
    make_run,
    matched,
    parse_settings,
    parse_variant,
)
from agents.core.config import BaseConfig, parse_config


def runs(folder, for_all=None, agents=AGENTS):
    return [make_run(parse_variant(agent), for_all or {}, 3, folder) for agent in agents]


@pytest.mark.parametrize(
    "for_all", [{}, {"iterations": "5", "env": "GSM8K-v0"}, {"model": "somewhere"}]
)
def test_all_agents_get_the_same_budget(tmp_path, for_all):
    first, *others = runs(tmp_path, for_all)
    for other in others:
        for name in EQUAL:
            assert getattr(other.config, name) == getattr(first.config, name), name
    assert {"num_prompts", "num_generations", "updates_per_batch", "minibatch_size"} <= {*EQUAL}
    assert {"learning_rate", "beta", "whiten", "seed"}.isdisjoint(EQUAL)


@pytest.mark.parametrize(
    "for_all",
    [
        {},
        {"env_kwargs": '{"level": 3}', "eval_temperatures": "0 1", "output_dir": "x y"},
        {"model": "my folder", "max_new_tokens": "none"},
    ],
)
def test_the_command_gives_just_that_config(tmp_path, for_all):
    for run in runs(tmp_path / "with a space", {k: v for k, v in for_all.items() if k[0] != "o"}):
        cls = config_class(run.agent)
        assert parse_config(cls, run.options, tiny=f"tiny_{run.agent}") == run.config
        assert run.config.seed == 3
        assert run.folder.parent == tmp_path / "with a space"


def test_who_wins(tmp_path):
    variant = parse_variant("ppo:lam=0.95,iterations=7").with_settings({"gae_lambda": "0.5"})
    run = make_run(variant, {"iterations": "9", "gae_lambda": "0.1"}, 0, tmp_path)
    assert (run.config.gae_lambda, run.config.iterations) == (0.95, 7)
    assert make_run(variant, {}, 0, tmp_path, iterations="3").config.iterations == 3


def test_evaluation_is_at_one_temperature_about_twelve_times(tmp_path):
    for temperature in ("0.6", "1.0"):
        variant = parse_variant(f"rloo:temperature={temperature}")
        config = make_run(variant, {"iterations": "25"}, 0, tmp_path).config
        assert (config.eval_temperatures, config.eval_every) == ((1.0,), 3)
        assert config.temperature == float(temperature)


def test_different_runs_have_different_folders(tmp_path):
    first = make_run(parse_variant("rloo"), {}, 0, tmp_path)
    other = make_run(parse_variant("rloo"), {"learning_rate": "1e-2"}, 0, tmp_path)
    assert first.folder != other.folder
    assert first.folder.name.startswith("rloo-s0-")
    assert digest(replace(first.config, output_dir="elsewhere", plain=False)) == digest(
        first.config
    )


def test_matching_keeps_the_number_of_updates(tmp_path):
    variant = parse_variant("grpo")
    run = make_run(variant, {"num_prompts": "8", "minibatch_size": "16"}, 0, tmp_path)
    assert (run.config.num_generations, run.config.minibatch_size) == (4, 16)  # two minibatches
    more = matched(variant, run, 1.4)
    found = make_run(more, {"num_prompts": "8", "minibatch_size": "16"}, 0, tmp_path).config
    assert (found.num_generations, found.minibatch_size) == (6, 24)
    assert matched(variant, run, 0.5).settings["num_generations"] == "4", "never fewer"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vinepo", "unknown agent 'vinepo'.*vineppo"),
        ("rloo:num_rollouts=3", "unknown option 'num_rollouts' of rloo"),
        ("vineppo:num_rollouts=-1", "num_rollouts must be >= 0, got -1"),
        ("vineppo:reuse", "expected option=value, got 'reuse'"),
        ("vineppo:seed=3", "seed is the comparison's own"),
    ],
)
def test_mistakes_in_a_variant(text, message):
    with pytest.raises(ValueError, match=message):
        parse_variant(text)


def test_options_for_all_must_be_everybodys():
    assert parse_settings(BaseConfig, [("max-completion-length", "9")], "") == {
        "max_new_tokens": "9"
    }
    with pytest.raises(ValueError, match="unknown option 'num_rollouts' of all"):
        parse_settings(BaseConfig, [("num_rollouts", "9")], "of all")
