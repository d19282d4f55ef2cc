"""The commands on two processes: the numbers of one, one writer, stops and resumes together."""

import json
import signal
import subprocess
import sys
import time

import pytest
import torch
from interruptions import AGENTS, command, left_by, resume, run

EXACT = {"dtype": "float64"}
LAUNCH = [
    sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m",
]  # fmt: skip


def on_two(agent, *arguments, status=0):
    done = subprocess.run(
        [*LAUNCH, f"agents.{agent}", *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    return done


def agree(found, expected):
    """Asserts that two runs are the same up to the rounding of sums in another order."""
    for ours, single in zip(found[0], expected[0], strict=True):
        known = {key: value for key, value in single.items() if value is not None}
        assert ours.keys() == single.keys()
        assert {key: ours[key] for key in known} == pytest.approx(known, rel=1e-6, abs=1e-9)
        assert all(ours[key] is None for key in single.keys() - known.keys())
    assert found[2] == expected[2]
    assert found[3].keys() == expected[3].keys()
    for name, weight in found[3].items():
        assert weight.dtype == torch.float64
        assert torch.allclose(weight, expected[3][name], rtol=1e-7, atol=1e-9), name
    for ours, single in zip(found[1].splitlines(), expected[1].splitlines(), strict=True):
        assert json.loads(ours)["steps"] == json.loads(single)["steps"]


@pytest.mark.parametrize(
    "agent",
    ["vineppo", *(pytest.param(name, marks=pytest.mark.slow) for name in AGENTS[1:])],
)
def test_two_processes_do_what_one_does(agent, tmp_path):
    assert run(agent, tmp_path / "one", **EXACT) == 0
    done = on_two(agent, *command(agent, tmp_path / "two", **EXACT))
    agree(left_by(tmp_path / "two"), left_by(tmp_path / "one"))
    assert done.stdout.count("saved in") <= 2, "one process writes"
    assert "processes: 2" in done.stdout
    names = {path.name for path in (tmp_path / "two").iterdir()}
    assert {path.name for path in (tmp_path / "one").iterdir()} - names <= {
        name for name in names | {path.name for path in (tmp_path / "one").iterdir()}
        if name.startswith("events")
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("reuse", ["true", "false"])
def test_values_are_those_of_one_process_for_both_estimators(reuse, tmp_path):
    more = {**EXACT, "reuse": reuse, "iterations": 2, "num_prompts": 3}
    assert run("vineppo", tmp_path / "one", **more) == 0
    on_two("vineppo", *command("vineppo", tmp_path / "two", **more))
    agree(left_by(tmp_path / "two"), left_by(tmp_path / "one"))


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_processes(tmp_path):
    assert run("vineppo", tmp_path / "whole", **EXACT) == 0
    expected = left_by(tmp_path / "whole")
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [*LAUNCH, "agents.vineppo", *command("vineppo", folder, **EXACT)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    while not (folder / "checkpoints" / "step-1").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode != 0, "stopped before its end"
    assert resume("vineppo", folder) == 0
    agree(left_by(folder), expected)


@pytest.mark.slow
def test_mistakes_are_said_and_no_process_is_left(tmp_path):
    done = on_two("vineppo", "--learning_rat", "1", status=1)
    assert done.stderr.count("Did you mean '--learning_rate'?") == 1


STOPPED = """
import os, signal, sys
from agents import vineppo
from agents.core.reporting import Phase
advance, count = Phase.advance, []
def signalled(phase, items=1, tokens=0):
    count.append(phase._name)
    if os.environ["RANK"] == "1" and phase._name == "value":
        os.kill(os.getpid(), signal.SIGTERM)
    advance(phase, items, tokens)
Phase.advance = signalled
status = vineppo.main(sys.argv[1:])
assert count[-1] == "value" if os.environ["RANK"] == "1" else "update" not in count, count
sys.exit(status != 143)
"""


@pytest.mark.slow
def test_a_signal_to_one_process_stops_the_rollouts_of_all_and_two_go_on(tmp_path):
    """Begun by one process, gone on with by two: stopped in the first values, and whole."""
    expected_folder, folder = tmp_path / "whole", tmp_path / "run"
    flags = {**EXACT, "iterations": 1, "eval_problems": 0}
    assert run("vineppo", expected_folder, **flags) == 0
    program = tmp_path / "stopped.py"
    program.write_text(STOPPED)
    arguments = [str(part) for part in command("vineppo", folder, **flags)]
    launch = [*LAUNCH[:-1], str(program), *arguments]
    done = subprocess.run(launch, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "summary.json").read_text())["interrupted"] is True
    on_two("vineppo", "--resume", folder)
    agree(left_by(folder), left_by(expected_folder))
