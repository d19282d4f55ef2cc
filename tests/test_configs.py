"""Every shipped config: its command, its keys and ranges, and whether its names exist."""

import importlib
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import gymnasium as gym
import pytest
import yaml

from agents.core.config import BaseConfig, parse_config
from agents.core.config_files import load_yaml
from agents.core.envs import make_env
from agents.core.options import names_of
from graders import get_grader
from lang_env.prompts import get_prompt
from lang_env.segmenters import get_segmenter

FOLDER = Path(__file__).parents[1] / "configs"
FILES = sorted(FOLDER.glob("*.yaml"))
PAPER = [
    FOLDER / f"{model}_{algorithm}_{task}.yaml"
    for model in ("rho1b", "deepseekmath7b")
    for algorithm in ("ppo", "vineppo", "rloo", "grpo", "restem", "dpo_positive")
    for task in ("gsm8k", "math")
]


BASELINES = [path for path in PAPER if "restem" in path.stem or "dpo" in path.stem]
ONLINE = [path for path in PAPER if path not in BASELINES]


def config_class(path):
    """Returns the config class of the command in a file's first line."""
    words = shlex.split(path.read_text(encoding="utf-8").splitlines()[0], comments=False)
    assert words[:3] == ["#", "python", "-m"], path.name
    module = importlib.import_module(words[3])
    algorithm = words[3].removeprefix("agents.")
    (name,) = [
        name
        for name, found in vars(module).items()
        if isinstance(found, type)
        and name.lower() == algorithm.replace("_", "") + "config"
        and found.__module__ == module.__name__
    ]
    return getattr(module, name), words[4:]


def ids(paths):
    return [path.stem for path in paths]


@pytest.mark.parametrize("path", FILES, ids=ids(FILES))
def test_the_command_in_the_first_line_reads_every_key(path):
    cls, flags = config_class(path)
    assert flags[:2] == ["--config", f"configs/{path.name}"]
    config = parse_config(cls, flags)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert content
    for key, value in load_yaml(cls, str(path)).items():
        assert getattr(config, key) == value, key
    assert {names_of(cls)[key] for key in content} == content.keys(), "no alias in a shipped file"


def test_the_papers_configs_are_all_there():
    assert set(PAPER) <= set(FILES)
    assert all(path in PAPER or path.stem.startswith("tiny_") for path in FILES)


@pytest.mark.parametrize("path", PAPER, ids=ids(PAPER))
def test_numbers_are_numbers_as_the_file_stands(path):
    """YAML reads 1e-6 as text: a file must write 1.0e-6."""
    hints = get_type_hints(config_class(path)[0])
    for key, value in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        if not isinstance(value, str):
            continue
        assert float not in (hints[key], *getattr(hints[key], "__args__", ())), key


@pytest.mark.parametrize("path", PAPER, ids=ids(PAPER))
def test_each_value_has_its_source(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    values = [line for line in lines if line and not line.lstrip().startswith("#")]
    sources = ("[C]", "[S]", "[T]", "[D]", "[-]")
    assert values
    assert [line for line in values if not any(f"# {mark}" in line for mark in sources)] == []


@pytest.mark.parametrize("path", BASELINES, ids=ids(BASELINES))
def test_what_the_paper_used_for_its_baselines(path):
    cls, _ = config_class(path)
    config: BaseConfig = cls(**load_yaml(cls, str(path)))
    assert config.num_prompts == (7100 if path.stem.endswith("gsm8k") else 11500)
    assert (config.learning_rate, config.minibatch_size, config.temperature) == (1e-6, 64, 0.6)
    rounds = (config.iterations, config.num_generations, config.updates_per_batch)
    assert rounds == ((10, 8, 8) if "restem" in path.stem else (1, 64, 3))


@pytest.mark.parametrize("path", ONLINE, ids=ids(ONLINE))
def test_what_the_paper_used_everywhere(path):
    cls, _ = config_class(path)
    config: BaseConfig = cls(**load_yaml(cls, str(path)))
    assert config.num_prompts * config.num_generations == 512
    assert (config.learning_rate, config.minibatch_size, config.updates_per_batch) == (1e-6, 64, 2)
    assert (config.temperature, config.top_p, config.eval_temperatures) == (0.6, 0.9, (0.35,))
    assert config.iterations == (650 if path.stem.endswith("gsm8k") else 1000)
    assert config.beta == (3e-3 if "rloo" in path.stem or "grpo" in path.stem else 1e-4)


@pytest.mark.parametrize("path", PAPER, ids=ids(PAPER))
def test_names_exist(path):
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    checks = {
        "env": gym.spec,
        "grader": get_grader,
        "prompt": get_prompt,
        "segmenter": get_segmenter,
    }
    assert {"env", "grader", "prompt"} <= content.keys()
    for key in checks.keys() & content.keys():
        checks[key](content[key])


@pytest.mark.parametrize("path", PAPER, ids=ids(PAPER))
def test_the_environment_is_built_with_each_option(path):
    """All but the model, and so with the built-in tokenizer, on the data sets if they are here."""
    task = path.stem.rpartition("_")[2]
    folder = Path(os.environ.get("LANG_ENV_DATA", ""), task)
    if not (folder / "train.jsonl").is_file():
        pytest.skip("LANG_ENV_DATA names no folder with the data set")
    cls, _ = config_class(path)
    config: BaseConfig = cls(**load_yaml(cls, str(path)))
    env = make_env(replace(config, model=None, data=str(folder)), "validation")
    assert env.max_new_tokens == config.max_new_tokens == 1024
    assert config.segmenter in (None, env.segmenter.name)
    assert env.num_problems + env.num_filtered == {"gsm8k": 373, "math": 500}[task]
