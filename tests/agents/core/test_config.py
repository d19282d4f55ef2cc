"""Options: ranges, precedence, YAML files, names, and what a command says about a mistake."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.config import (
    BaseConfig,
    command_errors,
    env_kwargs_of,
    parse_config,
    save_yaml,
)
from agents.core.options import option


@dataclass(frozen=True)
class Vine(BaseConfig):
    """A stand-in for an algorithm's own options."""

    num_rollouts: int = option(9, "Rollouts per state.", low=1, paper="9")
    reuse: bool = option(True, "Share rollouts (100 % unbiased).")


def yaml_file(folder: Path, text: str) -> str:
    path = folder / "some.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_defaults_are_the_papers_values() -> None:
    config = parse_config(Vine, [])
    assert (config.num_rollouts, config.num_prompts, config.num_generations) == (9, 64, 8)
    assert (config.temperature, config.top_p, config.learning_rate) == (0.6, 0.9, 1e-6)
    assert (config.updates_per_batch, config.minibatch_size, config.beta) == (2, 64, 1e-4)


@pytest.mark.parametrize("item", fields(Vine), ids=lambda item: item.name)
def test_every_option_has_a_sentence_of_help(item: dataclasses.Field[Any]) -> None:
    assert item.metadata["help"].endswith((".", "}'."))
    assert len(item.metadata["help"]) > 15


def test_flags_win_over_yaml_and_yaml_over_defaults(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "learning_rate: 1e-3\nnum_prompts: 5\nenv: Other-v0\n")
    config = parse_config(Vine, ["--env", "Mine-v0", "--config", path, "--num-prompts=7"])
    assert (config.env, config.num_prompts, config.num_generations) == ("Mine-v0", 7, 8)
    assert config.learning_rate == 1e-3
    assert type(config.learning_rate) is float


def test_aliases_on_the_command_line_and_in_yaml(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "max_completion_length: 12\n")
    config = parse_config(Vine, ["--config", path, "--model_name_or_path", "folder"])
    assert (config.model, config.max_new_tokens) == ("folder", 12)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--plain"], {"plain": True}),
        (["--reuse", "false"], {"reuse": False}),
        (["--eval_temperatures", "0", "0.5"], {"eval_temperatures": (0.0, 0.5)}),
        (["--env_kwargs", '{"level": 3}'], {"env_kwargs": {"level": 3}}),
        (["--chat_template"], {"chat_template": True}),
        (["--chat_template", "none"], {"chat_template": None}),
        (["--max_new_tokens", "none"], {"max_new_tokens": None}),
        (["--max_grad_norm", "inf"], {"max_grad_norm": float("inf")}),
        (["--device", "cuda:1"], {"device": "cuda:1"}),
    ],
)
def test_values_of_every_type(argv: list[str], expected: dict[str, Any]) -> None:
    config = parse_config(Vine, argv)
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--num_generations", "0"], r"num_generations must be >= 1, got 0 \(paper: 8\)"),
        (["--num_rollouts", "x"], r"num_rollouts must be a whole number, got 'x' \(paper: 9\)"),
        (["--temperature", "0"], r"temperature must be > 0, got 0.0 \(paper: 0.6\)"),
        (["--top_p", "1.5"], r"top_p must be > 0 and <= 1, got 1.5"),
        (["--learning_rate", "nan"], "learning_rate must be a number, got 'nan'"),
        (["--eval_temperatures", "1", "-1"], "eval_temperatures must be >= 0, got -1.0"),
        (
            ["--whiten", "mean"],
            "whiten must be one of none, std, mean_std.*Did you mean 'mean_std'",
        ),
        (["--device", "cudda"], "got 'cudda'. Did you mean 'cuda'"),
        (["--env_kwargs", "level=3"], "env_kwargs must be a JSON object.*level=3"),
        (["--env_kwargs", "[1]"], "env_kwargs must be a JSON object"),
        (["--plain", "perhaps"], "plain must be true or false, got 'perhaps'"),
        (["--num_rollout", "3"], "unknown option '--num_rollout'. Did you mean '--num_rollouts'"),
        (["--env", ""], "env must be text and not empty"),
        (["--seed"], "--seed: expected one argument"),
        (["stray"], "unknown option 'stray'"),
        (["--config", "no_such"], "no config 'no_such': it is neither a file nor a shipped"),
    ],
)
def test_mistakes_on_the_command_line(argv: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_config(Vine, argv)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_generations: 0", r"some.yaml: num_generations must be >= 1, got 0"),
        ("num_rolouts: 3", "some.yaml: unknown key 'num_rolouts'. Did you mean 'num_rollouts'"),
        ("plain: 3", "some.yaml: plain must be true or false, got 3"),
        ("seed: true", "some.yaml: seed must be a whole number, got True"),
        ("iterations: 2.5", "some.yaml: iterations must be a whole number, got 2.5"),
        ("model: 7", "some.yaml: model must be text"),
        ("eval_temperatures: []", "some.yaml: eval_temperatures must be a list of one or more"),
        ("model: a\nmodel_name_or_path: b", "some.yaml: model is given twice"),
        ("- a", "some.yaml: must hold 'option: value' lines"),
        ("a: [", "some.yaml: not a YAML file"),
    ],
)
def test_mistakes_in_yaml_name_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_config(Vine, ["--config", yaml_file(tmp_path, text)])


def test_programs_get_the_same_checks() -> None:
    with pytest.raises(ValueError, match="num_rollouts must be >= 1"):
        Vine(num_rollouts=0)
    with pytest.raises(ValueError, match="beta must be >= 0"):
        dataclasses.replace(Vine(), beta=-1)
    assert type(Vine(beta=1).beta) is float


def test_instances_do_not_share_env_kwargs() -> None:
    Vine().env_kwargs["level"] = 3
    assert Vine().env_kwargs == {}


@given(
    st.builds(
        Vine,
        seed=st.integers(0, 2**32 - 1),
        learning_rate=st.floats(1e-12, 1.0),
        max_grad_norm=st.sampled_from([1.0, float("inf")]),
        model=st.none() | st.sampled_from(["tiny", "null", "1e-6", "a: b # c", "yes", "~"]),
        env_kwargs=st.dictionaries(st.text(min_size=1), st.integers() | st.text() | st.none()),
        eval_temperatures=st.lists(st.floats(0, 2), min_size=1).map(tuple),
        plain=st.booleans(),
    )
)
def test_a_saved_config_reads_back_the_same(tmp_path_factory: Any, config: Vine) -> None:
    path = tmp_path_factory.mktemp("run") / "config.yaml"
    save_yaml(config, path)
    assert parse_config(Vine, ["--config", str(path)]) == config


def test_env_flags_join_env_kwargs_and_win() -> None:
    config = Vine(env_kwargs={"level": 3, "data": "there"}, data="here", max_new_tokens=9)
    assert env_kwargs_of(config) == {"level": 3, "data": "here", "max_new_tokens": 9}


def test_the_tiny_config_is_the_base_without_config_and_model(tmp_path: Path) -> None:
    tiny = yaml_file(
        tmp_path,
        "env: Tiny-v0\nenv_kwargs: {level: 2}\nmax_new_tokens: 40\ntokenizer: t\nnum_prompts: 4\n",
    )
    base = parse_config(Vine, [], tiny=tiny)
    assert (base.num_prompts, base.max_new_tokens, base.env_kwargs) == (4, 40, {"level": 2})
    assert parse_config(Vine, ["--num_prompts", "2"], tiny=tiny).num_prompts == 2
    assert parse_config(Vine, ["--model", "m"], tiny=tiny) == Vine(model="m")
    other = yaml_file(tmp_path / ".." / tmp_path.name, "env: Tiny-v0\n")
    assert parse_config(Vine, ["--config", other], tiny="no_such") == Vine(env="Tiny-v0")


def test_another_env_leaves_the_tiny_configs_env_options_out(tmp_path: Path) -> None:
    tiny = yaml_file(
        tmp_path,
        "env: Tiny-v0\nenv_kwargs: {level: 2}\nmax_new_tokens: 40\ntokenizer: t\nnum_prompts: 4\n",
    )
    same = parse_config(Vine, ["--env", "Tiny-v0"], tiny=tiny)
    assert env_kwargs_of(same) == {"level": 2, "max_new_tokens": 40, "tokenizer": "t"}
    other = parse_config(Vine, ["--env", "Mine-v0", "--data", "d"], tiny=tiny)
    assert (other.num_prompts, env_kwargs_of(other)) == (4, {"tokenizer": "t", "data": "d"})
    explicit = parse_config(Vine, ["--env", "Mine-v0", "--config", tiny])
    assert explicit.max_new_tokens == 40


def test_help_shows_options_with_default_and_paper(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        parse_config(Vine, ["--help"], tiny="tiny_vineppo", description="Trains.")
    shown = " ".join(capsys.readouterr().out.split())
    assert "--num_rollouts N Rollouts per state. (default: 9)" in shown
    assert "Share rollouts (100 % unbiased). (default: True)" in shown
    assert "Precision of the policy. (default: float32; paper: bfloat16)" in shown
    assert "base is the shipped config tiny_vineppo." in shown


def test_a_users_mistake_is_one_line_and_exit_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop, command_errors():
        parse_config(Vine, ["--sead", "3"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        "error: unknown option '--sead'. Did you mean '--seed'? See --help.\n"
    )


def test_a_fault_of_the_program_keeps_its_traceback() -> None:
    with pytest.raises(KeyError), command_errors():
        raise KeyError("x")
