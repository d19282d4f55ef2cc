"""A pretrained model: one small iteration of VinePPO with SmolLM2-135M-Instruct (minutes on a CPU).

    export LANG_ENV_SMOLLM2=FOLDER LANG_ENV_DATA=DATA
    python -m pytest -m slow tests/agents/test_smollm2_slow.py

``python benchmarks/fetch_smollm2.py FOLDER`` makes the folder.
"""

import json
import os

import pytest

from agents.vineppo import main

MODEL, DATA = os.environ.get("LANG_ENV_SMOLLM2"), os.environ.get("LANG_ENV_DATA")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODEL, reason="LANG_ENV_SMOLLM2 names no folder"),
]
WORD = [
    "--env_kwargs", '{"problems": "word", "level": 1}', "--prompt", "word_chat",
    "--num_prompts", "6", "--num_generations", "4", "--num_rollouts", "2",
]  # fmt: skip
GSM8K = [
    "--env", "GSM8K-v0", "--data", f"{DATA}/gsm8k", "--prompt", "gsm8k_chat",
    "--max_new_tokens", "64", "--num_prompts", "4", "--num_generations", "2",
    "--num_rollouts", "1",
]  # fmt: skip


def run(arguments, folder):
    """Returns the metrics of one iteration and its sampled answers."""
    common = ["--model", MODEL, "--iterations", "1", "--eval_problems", "0", "--logger", "none"]
    common += ["--threads", "1", "--device", "cpu", "--beta", "0", "--temperature", "1"]
    common += ["--updates_per_batch", "1", "--top_p", "1"]
    assert main([*common, *arguments, "--output_dir", str(folder)]) == 0
    (row,) = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return row


def check(row):
    """The engine's log-probs are the trainer's, and an update was made if there was credit."""
    assert row["sampling/sampling_logp_difference/max"] < 1e-3
    assert row["updates"] == 1
    assert (row["grad_norm"] > 0) == (row["advantages/std"] > 0)
    assert row["completions/mean_length"] > 1


def test_word_problems_with_two_shown_in_a_chat(tmp_path):
    row = run(WORD, tmp_path / "run")
    check(row)
    assert 0.02 <= row["reward"] <= 0.9, "some answers are right, some are not"
    assert row["grad_norm"] > 0
    assert row["frac_reward_zero_std"] < 1, "a group holds right and wrong answers"
    assert row["completions/clipped_ratio"] < 0.5, "most answers end by themselves"


@pytest.mark.skipif(not DATA, reason="LANG_ENV_DATA names no folder")
def test_gsm8k(tmp_path):
    row = run(GSM8K, tmp_path / "run")
    check(row)
    assert 0 <= row["reward"] <= 0.5, "the model solves about one in a hundred"
