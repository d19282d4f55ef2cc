"""Our ids: registered once, made by name, and clean under Gymnasium's checker."""

import importlib
import os
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

import lang_env

DATA = os.environ.get("LANG_ENV_DATA")
needs_data = pytest.mark.skipif(
    not DATA, reason="LANG_ENV_DATA names no folder with the public data sets"
)
IDS = [
    pytest.param("MathReason-v0", {}),
    pytest.param("GSM8K-v0", {"data": f"{DATA}/gsm8k"}, marks=needs_data),
    pytest.param("MATH-v0", {"data": f"{DATA}/math"}, marks=needs_data),
    pytest.param("MATH500-v0", {"data": f"{DATA}/math500"}, marks=needs_data),
]


@pytest.mark.parametrize(("name", "options"), IDS)
def test_check_env_has_no_complaint(name, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(name, **options).unwrapped)


@pytest.mark.parametrize(("name", "options"), IDS)
def test_a_made_env_passes_the_passive_checker(name, options):
    env = gym.make(name, **options)
    _, info = env.reset(seed=0)
    assert info["problem_id"]
    for _ in range(3):
        env.step(40)
    env.step(env.unwrapped.tokenizer.eos_token_id)
    assert env.unwrapped.remaining == 0
    env.close()


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize("problems", ["ledger", "chain", "programs"])
def test_every_level_of_the_procedural_families_fits(problems, level):
    env = gym.make("MathReason-v0", problems=problems, level=level).unwrapped
    for index in range(20):
        env.reset(options={"index": index})
        target = env.tokenizer.encode(env.prompt.target(env.problem))
        result = env.play([*target, env.tokenizer.eos_token_id])
        assert result[1:4] == (1.0, True, False)


def test_default_budgets_are_those_of_the_source():
    ledger = gym.make("MathReason-v0").unwrapped
    assert (ledger.max_prompt_tokens, ledger.max_new_tokens) == (160, 160)
    word = gym.make("MathReason-v0", problems="word", level=4, prompt="gsm8k").unwrapped
    around = len(word.tokenizer.encode(word.prompt.text(lang_env.Problem("", "", ""))))
    assert word.max_prompt_tokens == 1 + around + 220 + 2
    mixed = gym.make("MathReason-v0", problems=["linear", "remainders"], level=3).unwrapped
    assert (mixed.max_prompt_tokens, mixed.max_new_tokens) == (2 + 56 + 2, 240 + 1 + 2)
    given = gym.make("MathReason-v0", problems="word", max_new_tokens=9).unwrapped
    assert given.max_new_tokens == 9
    listed = gym.make("MathReason-v0", problems=[lang_env.Problem("p", "1+1?", "2")]).unwrapped
    assert (listed.max_prompt_tokens, listed.max_new_tokens) == (512, 512)


def test_specs_are_plain_data():
    for name in lang_env.ENVIRONMENTS:
        spec = gym.spec(name)
        assert spec.max_episode_steps is None  # TimeLimit's counter is not part of a snapshot
        assert gym.envs.registration.EnvSpec.from_json(spec.to_json()) == spec
    made = gym.make("MathReason-v0", level=2)
    assert made.spec.kwargs["level"] == 2


def test_importing_again_does_not_register_again():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.reload(lang_env)


def test_the_module_prefix_needs_no_import():
    code = "import gymnasium; print(gymnasium.make('lang_env:MathReason-v0').reset(seed=0)[1])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(Path(lang_env.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "'problem_id': 'ledger/train/" in done.stdout, done.stderr
