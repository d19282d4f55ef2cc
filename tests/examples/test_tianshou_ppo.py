"""The command that trains stock tianshou algorithms runs and says how it goes."""

import doctest
import importlib

import pytest


@pytest.fixture
def example():
    return importlib.import_module("tianshou_ppo")


@pytest.mark.parametrize("algorithm", ["ppo", "reinforce"])
def test_the_command_runs(example, algorithm, capsys):
    flags = ["--algorithm", algorithm, "--epochs", "1", "--episodes", "64", "--longest", "1"]
    assert example.main(flags) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:11] for line in lines] == ["epoch   0: ", "epoch   1: "]


def test_the_examples_in_its_docstrings_hold(example):
    result = doctest.testmod(example)
    assert result.attempted > 0
    assert result.failed == 0
