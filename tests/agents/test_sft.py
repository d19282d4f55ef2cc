"""Supervised fine-tuning: the loss by hand, determinism, and the command."""

import json
import math
import os

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from agents.sft import SFT, SFTConfig, main, solution_of, token_weights
from lang_env.problem import Problem
from lang_env.tokenizers import build_builtin

INIT = {"vocab_size": 320, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 1, "max_position_embeddings": 2048}  # fmt: skip
ARGUMENTS = [
    "--init", json.dumps(INIT), "--max_steps", "6", "--logging_steps", "3", "--batch_size", "4",
    "--demonstrations", "slips", "--eval_problems", "2", "--eval_samples", "1", "--threads", "1",
    "--learning_rate", "1e-3",
]  # fmt: skip


def _weights(folder):
    model = AutoModelForCausalLM.from_pretrained(folder)
    return {name: value.clone() for name, value in model.state_dict().items()}


def test_the_command_learns_and_is_reproducible_bit_for_bit(tmp_path):
    for name in ("first", "second"):
        assert main([*ARGUMENTS, "--output_dir", str(tmp_path / name)]) == 0
    first, second = (_weights(tmp_path / n / "checkpoints/step-6") for n in ("first", "second"))
    assert all(torch.equal(first[name], second[name]) for name in first)
    lines = (tmp_path / "first" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    assert len(losses) == 2
    assert losses[1] < losses[0] < math.log(320) + 1
    summary = json.loads((tmp_path / "first" / "summary.json").read_text())
    assert (summary["interrupted"], summary["iterations"]) == (False, 2)


def _trainer(tmp_path, **changes):
    settings = {"init": INIT, "batch_size": 3, "max_steps": 4, "eval_problems": 0} | changes
    return SFT(SFTConfig(**settings), tmp_path)


def test_the_loss_is_the_weighted_likelihood_of_the_solution_only(tmp_path):
    trainer = _trainer(tmp_path, emphasis={r"=(\d)": 5.0})
    prompts, targets, weights = trainer.examples(1)
    total, count = 0.0, 0.0
    with torch.no_grad():
        for prompt, target, weight in zip(prompts, targets, weights, strict=True):
            assert target[-1] == trainer.tokenizer.eos_token_id
            assert len(target) == len(weight)
            logits = trainer.policy.model(torch.tensor([prompt + target])).logits[0]
            scores = torch.log_softmax(logits[:, : len(trainer.tokenizer)], -1)
            picked = scores[len(prompt) - 1 : -1][range(len(target)), target]
            total -= float((picked * torch.tensor(weight)).sum())
            count += sum(weight)
    loss, _, tokens = trainer.step(1)
    assert loss == pytest.approx(total / count, rel=1e-5)
    assert tokens == sum(map(len, targets))
    assert {5.0, 1.0} == {w for row in weights for w in row}


def test_a_chat_is_imitated_to_the_end_of_its_turn(tmp_path):
    backend = build_builtin()
    backend.add_special_tokens(["<|end|>"])
    chat = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}"
    PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="</s>", pad_token="<pad>", chat_template=chat
    ).save_pretrained(tmp_path)
    trainer = _trainer(tmp_path, tokenizer=str(tmp_path), chat_template=True)
    prompts, targets, _ = trainer.examples(1)
    end = trainer.tokenizer.backend.convert_tokens_to_ids("<|end|>")
    assert trainer.tokenizer.decode(prompts[0]).startswith("user: ")
    for target in targets:
        assert target[-1] == end and target.count(end) == 1
        assert trainer.tokenizer.eos_token_id not in target


def test_micro_batches_change_nothing(tmp_path):
    results = []
    for size in (1, 2, 3):
        trainer = _trainer(tmp_path, micro_batch_size=size, dtype="float64")
        loss, norm, _ = trainer.step(1)
        results.append((loss, norm))
    assert results[1] == pytest.approx(results[0], rel=1e-10)
    assert results[2] == pytest.approx(results[0], rel=1e-10)


@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-10), ("float32", 1e-5)])
def test_packing_changes_nothing(tmp_path, dtype, bound):
    """Rows of several examples, of one that is too long for others, and in micro-batches."""
    results = []
    settings = {"dtype": dtype, "batch_size": 8, "emphasis": {r"=(\d)": 5.0}}
    for changes in (
        {},
        {"packing": True},
        {"packing": True, "pack_length": 400, "micro_batch_size": 2},
        {"packing": True, "pack_length": 1},
    ):
        trainer = _trainer(tmp_path, **settings, **changes)
        parameters, gradients = list(trainer.policy.parameters()), []
        trainer.optimizer.register_step_pre_hook(
            lambda *_, p=parameters, g=gradients: g.append(torch.cat([x.grad.flatten() for x in p]))
        )
        loss, norm, tokens = trainer.step(1)
        results.append((loss, norm, tokens, gradients[0]))
    loss, norm, tokens, gradient = results[0]
    for case in results[1:]:
        assert case[:2] == pytest.approx((loss, norm), rel=bound)
        assert case[2] == tokens
        assert (case[3] - gradient).norm() <= bound * gradient.norm()


def test_the_command_packs(tmp_path):
    for name, more in (("apart", []), ("packed", ["--packing", "true", "--pack_length", "600"])):
        assert main([*ARGUMENTS, *more, "--output_dir", str(tmp_path / name)]) == 0
    apart, packed = (
        [json.loads(line)["loss"] for line in path.read_text().splitlines()]
        for path in (tmp_path / name / "metrics.jsonl" for name in ("apart", "packed"))
    )
    assert packed == pytest.approx(apart, rel=1e-4)


def test_weights_follow_the_last_pattern_that_matches():
    text = "3+4:a=7\na=7"
    weights = token_weights(text, list(text), {r"=(\d)": 6.0, r"\n[a-j]=(\d)": 50.0})
    assert weights[6] == 6.0
    assert weights[-1] == 50.0
    assert sum(weights) == 6.0 + 50.0 + len(text) - 2
    assert token_weights("ab1", ["ab", "1", ""], {"b(1)": 2.0}) == [1.0, 2.0, 1.0]


def test_a_problem_without_a_solution_is_refused():
    with pytest.raises(ValueError, match="problem 'p' has no solution to imitate"):
        solution_of(Problem("p", "1+1?", "2"), None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "tiny"], "--init makes a new model and --model loads one"),
        (["--demonstrations", "slip"], "Did you mean 'slips'?"),
        (["--emphasis", '{"a": 2}'], "emphasis needs a regex with a group"),
        (["--emphasis", '{"(a)": 0}'], "and a weight > 0"),
        (["--emphasis", '{"(": 2}'], "emphasis"),
        (["--max_steps", "0"], "max_steps must be >= 1, got 0"),
    ],
)
def test_mistakes_get_one_clear_line(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main([*ARGUMENTS, *arguments, "--output_dir", str(tmp_path / "run")])
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif("LANG_ENV_DATA" not in os.environ, reason="LANG_ENV_DATA names no data folder")
def test_gsm8k_solutions_are_learned_from(tmp_path):
    arguments = [
        "--env", "GSM8K-v0", "--data", os.path.join(os.environ["LANG_ENV_DATA"], "gsm8k"),
        "--demonstrations", "solution", "--max_steps", "2", "--batch_size", "2",
        "--max_new_tokens", "16", "--output_dir", str(tmp_path / "run"),
    ]  # fmt: skip
    assert main([*ARGUMENTS, *arguments]) == 0
