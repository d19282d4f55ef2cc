"""Making environments from a config, and drawing problems without repetition."""

import gymnasium as gym
import pytest
from toy import ToyEnv

from agents.core.config import BaseConfig
from agents.core.envs import ProblemCursor, accepted_kwargs, make_env, valid_indices


@pytest.fixture(autouse=True)
def _toy_id():
    if "Toy-v0" not in gym.registry:
        gym.register("Toy-v0", "toy:ToyEnv")


def _slots(cursor, iteration):
    return [start.problem_id for start in cursor.starts(iteration)]


def test_a_finite_set_is_walked_epoch_by_epoch():
    cursor = ProblemCursor(ToyEnv(), 2, seed=0)
    first_epoch = _slots(cursor, 1) + _slots(cursor, 2)
    second_epoch = _slots(cursor, 3) + _slots(cursor, 4)
    assert sorted(first_epoch) == sorted(second_epoch) == ["0", "1", "2", "3"]
    assert _slots(cursor, 1) == first_epoch[:2], "an iteration's problems depend on nothing else"
    orders = {tuple(_slots(ProblemCursor(ToyEnv(), 4, seed), 1)) for seed in range(8)}
    assert len(orders) > 1


def test_an_iteration_never_crosses_an_epoch():
    cursor = ProblemCursor(ToyEnv(), 3, seed=0)
    for iteration in range(1, 9):
        assert len(set(_slots(cursor, iteration))) == 3


def test_too_few_problems():
    with pytest.raises(ValueError, match=r"draws 5 different problems, .* only 4.*--num_prompts"):
        ProblemCursor(ToyEnv(), 5, seed=0)


def test_a_generator_gives_distinct_problems():
    config = BaseConfig(num_prompts=8)
    env = make_env(config, "train")
    cursor = ProblemCursor(env, 8, seed=3)
    slots = _slots(cursor, 1)
    assert len(set(slots)) == 8
    assert slots == _slots(ProblemCursor(env, 8, seed=3), 1)
    assert slots != _slots(cursor, 2)
    assert all("/train/" in slot for slot in slots)


def test_a_generator_without_enough_problems(monkeypatch):
    env = ToyEnv()
    monkeypatch.setattr(ToyEnv, "num_problems", None)  # reset() now gives problem 0 each time
    with pytest.raises(ValueError, match="gave no 2 different problems in 100 draws"):
        _slots(ProblemCursor(env, 2, seed=0), 1)


def test_any_environment_by_module_and_id():
    env = make_env(BaseConfig(env="toy:Toy-v0", env_kwargs={"step_length": 2}), "validation")
    assert (type(env).__name__, env.step_length) == ("ToyEnv", 2)
    assert accepted_kwargs("toy:Toy-v0") == {"step_length", "split"}
    assert valid_indices(env) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (BaseConfig(env="MathReson-v0"), r"Did you mean 'MathReason-v0'\?"),
        (BaseConfig(env="no_such_pkg:A-v0"), "cannot import 'no_such_pkg'"),
        (BaseConfig(env="CartPole-v1"), "CartPole-v1 lacks snapshot, restore, tokenizer"),
        (BaseConfig(env="toy:Toy-v0", prompt="x"), "takes no option 'prompt'. It takes: split, s"),
        (BaseConfig(model="/no/such/folder"), "cannot load model '/no/such/folder'"),
    ],
)
def test_clear_errors(config, message):
    with pytest.raises((ValueError, gym.error.Error), match=message):
        make_env(config, "train")
