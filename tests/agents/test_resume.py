"""A run that was stopped goes on as if nothing had happened: metrics and weights bit for bit."""

import json
import subprocess
import sys

import pytest
from interruptions import AGENTS, Moments, command, left_by, resume, run, same

from agents.core.checkpoint import checkpoints


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Returns what an uninterrupted run of an agent leaves, and how many moments it has."""
    known = {}

    def of(agent):
        if agent not in known:
            folder = tmp_path_factory.mktemp(agent) / "whole"
            with pytest.MonkeyPatch.context() as patch:
                moments = Moments(patch)
                assert run(agent, folder) == 0
            known[agent] = (left_by(folder), moments.count)
        return known[agent]

    return of


def _stopped_at(moment, agent, folder):
    with pytest.MonkeyPatch.context() as patch:
        Moments(patch, moment)
        return run(agent, folder)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("share", [0.4, 0.75])
def test_a_stopped_run_goes_on_bit_for_bit(agent, share, whole, tmp_path):
    expected, moments = whole(agent)
    folder = tmp_path / "run"
    assert _stopped_at(int(share * moments), agent, folder) == 130
    assert json.loads((folder / "summary.json").read_text())["interrupted"] is True
    assert resume(agent, folder) == 0
    assert same(left_by(folder), expected)


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
def test_every_moment_is_a_good_one_to_stop(agent, whole, tmp_path):
    expected, moments = whole(agent)
    for moment in range(1, moments + 1):
        folder = tmp_path / str(moment)
        assert _stopped_at(moment, agent, folder) == 130, moment
        assert resume(agent, folder) == 0, moment
        assert same(left_by(folder), expected), moment


def test_a_killed_run_goes_on_from_its_last_checkpoint(whole, tmp_path):
    """The process dies without a word after the second line of its metrics."""
    expected, _ = whole("vineppo")
    folder = tmp_path / "run"
    program = (
        "import os, sys\n"
        "from agents import vineppo\n"
        "from agents.core.reporting import Reporter\n"
        "row = Reporter.iteration\n"
        "def dies(reporter, metrics):\n"
        "    row(reporter, metrics)\n"
        "    if reporter._next == 3:\n"
        "        os.kill(os.getpid(), 9)\n"
        "Reporter.iteration = dies\n"
        "vineppo.main(sys.argv[1:])\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, *command("vineppo", folder)], capture_output=True
    )
    assert killed.returncode == -9
    assert [path.name for path in checkpoints(folder)] == ["step-1"]
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 3, "rew')
    assert resume("vineppo", folder) == 0
    assert same(left_by(folder), expected)


def test_a_finished_run_has_nothing_left_to_do(tmp_path, capsys):
    folder = tmp_path / "run"
    assert run("rloo", folder, iterations=1) == 0
    before = left_by(folder)
    assert resume("rloo", folder) == 0
    assert "is finished: nothing to do" in capsys.readouterr().err
    assert same(left_by(folder), before)
