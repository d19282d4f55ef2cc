"""The VinePPO command as its user types it, with tiny settings."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest
from transformers import AutoModelForCausalLM

import agents.core.agent as agent_module
import agents.core.checkpoint as checkpoint_module
import agents.core.evaluation as evaluation_module
import agents.core.iteration as iteration_module
from agents.core.evaluation import evaluation_starts
from agents.vineppo import VinePPO, VinePPOConfig, main

SMALL = [
    "--iterations", "2", "--num_prompts", "2", "--num_generations", "2", "--num_rollouts", "2",
    "--eval_problems", "4", "--eval_samples", "2", "--threads", "1",
]  # fmt: skip
CLOCK = ("time", "seconds", "per_s")


def _metrics(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in line.items() if not any(word in key for word in CLOCK)}
        for line in lines
    ]


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    assert main([*SMALL, "--output_dir", str(folder)]) == 0
    return folder


def test_a_run_leaves_what_the_design_promises(finished_run):
    names = {path.name for path in finished_run.iterdir()}
    assert {"config.yaml", "metrics.jsonl", "samples.jsonl", "summary.json"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    metrics = _metrics(finished_run)
    assert [line["iteration"] for line in metrics] == [1, 2]
    assert {
        "reward", "reward_std", "frac_reward_zero_std", "kl", "entropy", "clip_ratio/region_mean",
        "completions/mean_length", "completions/clipped_ratio", "num_tokens", "grad_norm",
        "learning_rate", "sampling/sampling_logp_difference/max", "vine/k_fresh", "vine/states",
    } <= set(metrics[0])  # fmt: skip
    assert metrics[0]["sampling/sampling_logp_difference/max"] < 1e-3
    summary = json.loads((finished_run / "summary.json").read_text())
    assert set(summary["accuracy_before"]) == {"mean", "low", "high", "n"}
    assert set(summary["accuracy"]["after"]) == {"greedy", "T=0.35", "T=1"}
    assert {"rollout", "value", "grade", "update", "evaluate"} <= set(summary["seconds"])
    assert summary["tokens"]["value"] > summary["tokens"]["rollout"] > 0
    assert (summary["iterations"], summary["seed"], summary["interrupted"]) == (2, 0, False)
    AutoModelForCausalLM.from_pretrained(summary["checkpoint"])


def test_samples_show_steps_with_advantages_and_values(finished_run):
    lines = [json.loads(line) for line in (finished_run / "samples.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [1, 2]
    for line in lines:
        assert len(line["steps"]) == len(line["advantages"]) == len(line["values"]) > 1
        total = line["values"][0] + sum(line["advantages"])
        assert total == pytest.approx(line["reward"]), "advantages telescope to reward - V(prompt)"


def test_the_time_of_a_step_is_without_evaluation(tmp_path, monkeypatch):
    now = [0.0]
    evaluate = agent_module.evaluate_and_report

    def passing(function, seconds):
        def slow(*arguments):
            now[0] += seconds
            return function(*arguments)

        return slow

    for module in (agent_module, iteration_module):
        monkeypatch.setattr(module, "clocks", lambda: (now[0], 2 * now[0]))
    monkeypatch.setattr(VinePPO, "collect", passing(VinePPO.collect, 3.0))
    monkeypatch.setattr(VinePPO, "update", passing(VinePPO.update, 40.0))
    monkeypatch.setattr(agent_module, "evaluate_and_report", passing(evaluate, 1000.0))
    assert main([*SMALL, "--eval_every", "1", "--output_dir", str(tmp_path / "run")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [(line["step_time"], line["step_cpu_seconds"]) for line in lines] == [(43.0, 86.0)] * 2


def test_the_same_seed_gives_the_same_numbers(finished_run, tmp_path):
    main([*SMALL, "--output_dir", str(tmp_path / "again")])
    assert _metrics(tmp_path / "again") == _metrics(finished_run)
    main([*SMALL, "--seed", "1", "--output_dir", str(tmp_path / "other")])
    assert _metrics(tmp_path / "other") != _metrics(finished_run)


def test_a_run_can_go_on_from_a_checkpoint(finished_run, tmp_path):
    checkpoint = json.loads((finished_run / "summary.json").read_text())["checkpoint"]
    arguments = ["--config", str(finished_run / "config.yaml"), "--model", checkpoint]
    assert main([*arguments, "--iterations", "1", "--output_dir", str(tmp_path / "more")]) == 0


def test_without_rollouts_no_token_is_spent_on_values(tmp_path):
    assert main([*SMALL, "--num_rollouts", "0", "--output_dir", str(tmp_path / "run")]) == 0
    for line in _metrics(tmp_path / "run"):
        assert line["vine/tokens"] == line["vine/k_fresh"] == 0.0
        assert 0 < line["vine/valued_ratio"] <= 1
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["tokens"]["value"] == 0


def test_rollouts_may_be_trained_on(tmp_path):
    config = VinePPOConfig(
        model="tiny", num_prompts=2, num_generations=2, num_rollouts=3, minibatch_size=4,
        eval_problems=0, max_new_tokens=80, top_p=1.0, iterations=2, train_rollouts=True,
    )  # fmt: skip
    agent = VinePPO(config, tmp_path)
    credit = agent.advantages(agent.collect(1, lambda *_: None), 1, lambda *_: None)
    assert len(credit.rollouts) == len(credit.rollout_tokens) > 4
    for rollout, advantages in zip(credit.rollouts, credit.rollout_tokens, strict=True):
        assert len(advantages) == len(rollout.response)
        assert rollout.borders[0] == 0
    assert main([*SMALL, "--train_rollouts", "true", "--output_dir", str(tmp_path / "run")]) == 0
    first = _metrics(tmp_path / "run")[0]
    generated = first["vine/tokens"] + 4 * first["completions/mean_length"]
    assert first["num_tokens"] == pytest.approx(generated), "no token is counted twice"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--segmenter", "newline_paper"], "newline_paper looks ahead: the gradient is biased"),
        (["--zero_spread", "skip", "--allow_biased", "true"], "the values are biased"),
    ],
)
def test_biased_settings_are_said_once(arguments, message, tmp_path):
    arguments = [*SMALL, *arguments, "--iterations", "1", "--output_dir", str(tmp_path / "run")]
    with pytest.warns(UserWarning, match=message) as caught:
        assert main(arguments) == 0
    assert len(caught) == 1


@pytest.mark.parametrize("cap_fill", ["spread", "zero"])
def test_the_cap_runs(cap_fill, tmp_path):
    arguments = ["--max_steps_valued", "1", "--cap_fill", cap_fill, "--beta", "0.01"]
    biased = pytest.warns(UserWarning, match="answers of more than 1 steps have a biased gradient")
    with biased if cap_fill == "zero" else nullcontext():
        assert main([*SMALL, *arguments, "--output_dir", str(tmp_path / "run")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "run/samples.jsonl").read_text().splitlines()]
    later = [line["advantages"][2:] for line in lines]
    if cap_fill == "zero":
        assert all(value == 0.0 for row in later for value in row)
    else:
        assert all(value == row[0] for row in later for value in row)


def test_the_allocation_learns_from_one_iteration_for_the_next(tmp_path):
    assert main([*SMALL, "--allocation", "variance", "--output_dir", str(tmp_path / "run")]) == 0
    config = VinePPOConfig(
        model="tiny", num_prompts=2, num_generations=2, num_rollouts=4, minibatch_size=4,
        eval_problems=0, allocation="variance", max_new_tokens=80, top_p=1.0,
    )  # fmt: skip
    agent = VinePPO(config, tmp_path)
    assert agent.allocation.states.sum() == 0
    credit = agent.advantages(agent.collect(1, lambda *_: None), 1, lambda *_: None)
    assert agent.allocation.states.sum() == credit.metrics["vine/unique_states"]


def _data_folder():
    folder = os.environ.get("LANG_ENV_DATA")
    return os.path.join(folder, "gsm8k") if folder else None


@pytest.mark.skipif(_data_folder() is None, reason="LANG_ENV_DATA names no folder with gsm8k/")
def test_gsm8k_runs_with_the_same_command(tmp_path):
    arguments = [
        "--env", "GSM8K-v0", "--data", _data_folder(), "--iterations", "1", "--num_prompts", "2",
        "--num_generations", "2", "--num_rollouts", "2", "--max_new_tokens", "16",
        "--eval_problems", "2", "--eval_samples", "1", "--output_dir", str(tmp_path / "run"),
    ]  # fmt: skip
    assert main(arguments) == 0
    assert _metrics(tmp_path / "run")[0]["completions/max_length"] <= 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "MathReson-v0"], "Did you mean 'MathReason-v0'?"),
        (["--num_rollots", "3"], "Did you mean '--num_rollouts'?"),
        (["--num_rollouts", "-1"], "num_rollouts must be >= 0, got -1 (paper: 9)"),
        (
            ["--num_rollouts", "0", "--reuse", "false"],
            "Set reuse to true, or num_rollouts to 1 or more",
        ),
        (["--train_rollouts", "true", "--reuse", "false"], "goes with reuse=true and state_key"),
        (["--num_rollouts", "0", "--num_generations", "1"], "Set num_generations to 2 or more"),
        (["--num_rollouts", "0", "--cap_fill", "zero"], "Set cap_fill to spread"),
        (["--num_rollouts", "0", "--allocation", "variance"], "Set allocation to none"),
        (["--num_generations", "0"], "num_generations must be >= 1, got 0"),
        (["--temperature", "0"], "temperature must be > 0, got 0"),
        (["--num_rollouts", "99999999999"], "and <= 1000000, got 99999999999"),
        (["--max_new_tokens", "4000000000"], "and <= 1048576, got 4000000000"),
        (["--max_new_tokens", "0"], "max_new_tokens must be >= 1, got 0"),
        (["--config", "tiny_vinepo"], "Did you mean 'tiny_vineppo"),
        (["--segmenter", "newlin"], "Did you mean 'newline'?"),
        (["--grader", "gsm8"], "Did you mean 'gsm8k'?"),
        (["--engine", "vlm"], "unknown engine 'vlm'"),
        (["--engine_kwargs", '{"max_row": 4}'], "engine_kwargs={'max_row': 4} of hf: HFEngine"),
        (["--engine_kwargs", '{"max_rows": 0}'], "max_rows must be >= 1, got 0"),
        (["--env", "GSM8K-v0", "--data", "/no/such/folder"], "/no/such/folder"),
        (["--max_new_tokens", "5000"], "context is 4096"),
        (["--model", "/no/such/model"], "cannot load model '/no/such/model': no such folder"),
    ],
)
def test_mistakes_get_one_clear_line(arguments, message, tmp_path, capsys):
    folder = tmp_path / "run"
    with pytest.raises(SystemExit) as exit_info:
        main([*arguments, "--output_dir", str(folder)])
    error = capsys.readouterr().err
    assert exit_info.value.code == 2
    assert error.startswith("error: ")
    assert message in error
    assert not folder.exists(), "a command that never ran leaves nothing behind"


def test_a_run_folder_is_never_written_over(finished_run, capsys):
    before = (finished_run / "metrics.jsonl").read_text()
    with pytest.raises(SystemExit):
        main([*SMALL, "--output_dir", str(finished_run)])
    assert "already holds a run" in capsys.readouterr().err
    assert (finished_run / "metrics.jsonl").read_text() == before


def test_the_defaults_are_the_papers():
    config = VinePPOConfig()
    assert (config.num_rollouts, config.num_prompts, config.num_generations) == (9, 64, 8)
    assert (config.learning_rate, config.epsilon, config.beta) == (1e-6, 0.2, 1e-4)
    assert VinePPO.name == "vineppo"


def test_nothing_is_lost_in_the_last_evaluation(tmp_path, monkeypatch):
    """Two Ctrl-C there stop at once; the checkpoint was written before."""

    def impatient(*arguments):
        if arguments[-1] == "after":
            raise KeyboardInterrupt

    monkeypatch.setattr(agent_module, "evaluate_and_report", impatient)
    assert main([*SMALL, "--output_dir", str(tmp_path / "run")]) == 130
    AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "checkpoints" / "step-2")


def test_one_ctrl_c_gives_an_evaluation_up(tmp_path, monkeypatch, capsys):
    def pressed(env, number):
        signal.raise_signal(signal.SIGINT)
        return evaluation_starts(env, number)

    monkeypatch.setattr(evaluation_module, "evaluation_starts", pressed)
    assert main([*SMALL, "--output_dir", str(tmp_path / "run")]) == 130
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["interrupted"], summary["iterations"]) == (True, 0)
    assert "Ctrl-C again stops at once" in capsys.readouterr().err


def test_a_full_disk_is_one_line(tmp_path, monkeypatch, capsys):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_module, "save_model", full)
    assert main([*SMALL, "--output_dir", str(tmp_path / "run")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: cannot write the checkpoint")
    assert "No space left on device" in error
    assert not list((tmp_path / "run" / "checkpoints").glob("step*"))


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process")
def test_ctrl_c_ends_cleanly_with_what_was_learned(tmp_path):
    folder = tmp_path / "run"
    command = [
        sys.executable, "-m", "agents.vineppo", *SMALL, "--iterations", "1000",
        "--output_dir", str(folder),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    metrics = folder / "metrics.jsonl"
    while time.monotonic() < deadline and process.poll() is None:
        if metrics.exists() and len(metrics.read_text().splitlines()) >= 2:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "saved in" in output
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["interrupted"] is True
    assert summary["iterations"] >= 2
    AutoModelForCausalLM.from_pretrained(summary["checkpoint"])
