"""Stock tianshou Reinforce learns from answers that our engine sampled."""

import importlib


def test_it_learns(capsys):
    assert importlib.import_module("tianshou_engine").main(["--rounds", "6"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rewards = [float(line.split()[3].rstrip(",")) for line in lines]
    assert len(rewards) == 6
    assert rewards[-1] > rewards[0] + 0.3
