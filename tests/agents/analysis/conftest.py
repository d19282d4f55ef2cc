"""A run of two iterations with a checkpoint each, shared by the tests of the analyses."""

import pytest
from commands import SMALL, flags

from agents.ppo import main

QUICK = {"num_problems": 3, "threads": 1, "max_new_tokens": 80}


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    """Returns the folder of a short PPO run with checkpoints 1 and 2."""
    folder = tmp_path_factory.mktemp("runs") / "short"
    more = {"output_dir": folder, "save_every": 1, "keep_checkpoints": 0, "critic_warmup": 0}
    assert main([*flags(SMALL | {"max_new_tokens": 80, "eval_problems": 0}, **more)]) == 0
    return folder
