"""One update (loss, gradient, AdamW step) beside TRL's GRPOTrainer on the same model and batch.

    python benchmarks/train_step.py                      # the embedded policy
    python benchmarks/train_step.py --model FOLDER --rows 8 --micro_batch_size 4

Each contender runs in a process of its own, in turn, on one thread, in float32, without gradient
checkpointing and without a reference. Both get the same rows in micro-batches of the same size, and
are on-policy: TRL then needs no old log-probabilities, and our update is timed with its own pass
for them. Tokens are real ones: prompt and answer, no padding. Time is CPU time of the process. The
last line is JSON: ours / TRL's for each shape of batch, as median, minimum and maximum of the runs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SHAPES = {"ragged": (8, 128), "equal": (64, 64)}
"""Shortest and longest answer in tokens."""
PROMPT = (24, 56)
CONTENDERS = ("ours", "trl")
UPDATES = 3


def make_rows(shape: str, rows: int, vocab_size: int) -> tuple[list[list[int]], list[list[int]]]:
    """Returns random prompts and answers, the same for both contenders."""
    rng = np.random.default_rng(0)
    low, high = SHAPES[shape]

    def draw(least: int, most: int) -> list[int]:
        return rng.integers(3, vocab_size, size=rng.integers(least, most + 1)).tolist()

    prompts = [draw(*PROMPT) if low != high else draw(40, 40) for _ in range(rows)]
    return prompts, [draw(low, high) for _ in range(rows)]


def ours(model: str, rows: Any, micro_batch_size: int) -> Callable[[], None]:
    """Returns a function that does one update with our Updater."""
    from agents.core.loading import load_policy
    from agents.core.update import Batch, Updater
    from agents.grpo import GRPOConfig
    from lang_env.tokenizers import load_tokenizer

    prompts, responses = rows
    config = GRPOConfig(
        num_prompts=len(prompts) // 2, num_generations=2, minibatch_size=len(prompts), beta=0.0,
        micro_batch_size=micro_batch_size, updates_per_batch=1, temperature=1.0, top_p=1.0,
    )  # fmt: skip
    policy = load_policy(None if model == "tiny" else model, load_tokenizer(_tokenizer(model)))
    updater = Updater(policy, None, config)
    rng = np.random.default_rng(0)
    advantages = [np.full(len(row), (-1.0) ** place) for place, row in enumerate(responses)]
    batch = Batch(prompts, responses, advantages, [np.zeros(len(row)) for row in responses])
    return lambda: updater.update(batch, rng) and None


def trl(model: str, rows: Any, micro_batch_size: int) -> Callable[[], None]:
    """Returns a function that does the same update with TRL's loss and optimizer settings."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    prompts, responses = rows
    folder = _folder(model)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        reward_funcs=_no_reward,
        args=GRPOConfig(
            output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, gradient_checkpointing=False,
            report_to="none", per_device_train_batch_size=micro_batch_size, num_generations=2,
            beta=0.0, temperature=1.0, max_completion_length=SHAPES["ragged"][1],
        ),
        train_dataset=Dataset.from_list([{"prompt": "1+1="}] * micro_batch_size),
        processing_class=tokenizer,
    )  # fmt: skip
    network = trainer.model.eval()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-6)
    total = float(sum(map(len, responses)))

    def pad(lists: list[list[int]], left: bool) -> tuple[torch.Tensor, torch.Tensor]:
        width = max(map(len, lists))
        blank = [[0] * (width - len(row)) for row in lists]
        ids = [b + r if left else r + b for b, r in zip(blank, lists, strict=True)]
        mask = [
            b + [1] * len(r) if left else [1] * len(r) + b
            for b, r in zip(blank, lists, strict=True)
        ]
        return torch.tensor(ids), torch.tensor(mask)

    def update() -> None:
        for start in range(0, len(prompts), micro_batch_size):
            end = start + micro_batch_size
            prompt_ids, prompt_mask = pad(prompts[start:end], left=True)
            completion_ids, completion_mask = pad(responses[start:end], left=False)
            advantages = torch.tensor([(-1.0) ** place for place in range(start, end)])
            inputs = {
                "prompt_ids": prompt_ids, "prompt_mask": prompt_mask,
                "completion_ids": completion_ids, "completion_mask": completion_mask,
                "advantages": advantages[: len(prompt_ids)], "old_per_token_logps": None,
                "num_items_in_batch": torch.tensor(total),
            }  # fmt: skip
            trainer._compute_loss(network, inputs).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return update


def _no_reward(completions: list[str], **columns: Any) -> list[float]:
    return [0.0] * len(completions)


def _folder(model: str) -> str:
    from agents.core.loading import model_folder

    return model_folder(model)


def _tokenizer(model: str) -> str:
    return "builtin" if model == "tiny" else model


def contend(arguments: argparse.Namespace) -> None:
    """Runs one contender and prints its figures as JSON."""
    import torch

    from lang_env.tokenizers import load_tokenizer

    torch.set_num_threads(1)
    vocab_size = len(load_tokenizer(_tokenizer(arguments.model)))
    rows = make_rows(arguments.shape, arguments.rows, vocab_size)
    make = {"ours": ours, "trl": trl}[arguments.contender]
    update = make(arguments.model, rows, arguments.micro_batch_size)
    update()  # warm-up, and AdamW's state
    started = time.process_time()
    for _ in range(UPDATES):
        update()
    seconds = (time.process_time() - started) / UPDATES
    tokens = sum(map(len, rows[0])) + sum(map(len, rows[1]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"tokens_per_s": tokens / seconds, "peak_mib": peak}) + "\n")


def measure(arguments: argparse.Namespace, contender: str, shape: str) -> dict[str, float]:
    """Runs one contender in a process of its own."""
    # -P: benchmarks/graders.py must not stand for the package graders.
    command = [sys.executable, "-P", __file__, "--contender", contender, "--shape", shape]
    command += ["--model", arguments.model, "--rows", str(arguments.rows)]
    command += ["--micro_batch_size", str(arguments.micro_batch_size)]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    settings = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": root}
    result = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | settings, check=False
    )
    if result.returncode != 0:
        raise SystemExit(f"{contender} failed:\n{result.stderr}")
    figures: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--model", default="tiny", help="'tiny' or a model folder.")
    parser.add_argument("--rows", type=int, default=64, help="Answers in the batch.")
    parser.add_argument("--micro_batch_size", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3, help="Runs of each contender.")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--shape", choices=SHAPES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contender:
        contend(arguments)
        return
    summary: dict[str, Any] = {"model": arguments.model, "rows": arguments.rows}
    for shape in SHAPES:
        runs: dict[str, list[dict[str, float]]] = {contender: [] for contender in CONTENDERS}
        for _ in range(arguments.repeats):
            for contender in CONTENDERS:
                runs[contender].append(measure(arguments, contender, shape))
        for contender, figures in runs.items():
            speed = statistics.median(run["tokens_per_s"] for run in figures)
            peak = statistics.median(run["peak_mib"] for run in figures)
            sys.stdout.write(f"{shape:8}{contender:6}{speed:12,.0f} tokens/s{peak:10,.0f} MiB\n")
        for name in ("tokens_per_s", "peak_mib"):
            pairs = zip(runs["ours"], runs["trl"], strict=True)
            ratios = sorted(mine[name] / theirs[name] for mine, theirs in pairs)
            spread = [statistics.median(ratios), ratios[0], ratios[-1]]
            summary[f"{shape}_{name}_ratio"] = [round(number, 3) for number in spread]
    sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    main()
