"""The memory plan: what is exact in it, what it says, and what a dry run leaves behind."""

import pytest
from commands import SMALL, flags

import agents.core.memory_plan as memory_plan
from agents.core.loading import load_policy, prepared, tiny_folder
from agents.core.memory_plan import plan_of, shape_of
from agents.grpo import GRPOConfig, main
from agents.ppo import PPOConfig
from lang_env.tokenizers import load_tokenizer

TINY = str(tiny_folder())
CONFIG = GRPOConfig(model=TINY, beta=0.1)


@pytest.mark.parametrize("rank", [0, 4])
def test_parameters_are_counted_without_the_weights(rank):
    config = GRPOConfig(model=TINY, lora_r=rank)
    policy = load_policy(TINY, load_tokenizer("builtin"))
    shape = shape_of(config)
    assert shape.parameters == policy.num_parameters
    prepared(policy, config)
    trained = sum(p.numel() for p in policy.parameters() if p.requires_grad)
    assert shape.trained == trained
    assert (shape.layers, shape.hidden, shape.inner, shape.cached) == (2, 128, 256, 2 * 4 * 32)


def test_what_is_held_by_hand():
    plan = plan_of(CONFIG, longest=100, answer=50)
    n = shape_of(CONFIG).parameters
    assert plan.lasting["weights"] == plan.lasting["reference"] == 4 * n
    assert plan.lasting["AdamW's two moments"] == 8 * n
    assert plan.update["gradients"] == 4 * n
    (cache,) = (size for name, size in plan.sampling.items() if name.startswith("keys"))
    assert cache == 512 * 100 * 2 * (2 * 4 * 32) * 4, "rows, tokens, layers, numbers, bytes"
    assert plan.peak >= sum(plan.lasting.values()) + sum(plan.update.values())


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"beta": 0.0}, "reference"),
        ({"lora_r": 4}, "reference"),
    ],
)
def test_what_is_not_needed_is_not_there(changes, name):
    assert name in plan_of(CONFIG, 100, 50).lasting
    settings = {"model": TINY, "beta": 0.1} | changes
    assert name not in plan_of(GRPOConfig(**settings), 100, 50).lasting


def test_what_spares_memory_does():
    whole = sum(plan_of(CONFIG, 1000, 50).update.values())
    settings = {"model": TINY, "beta": 0.1}
    for changes in ({"gradient_checkpointing": True}, {"micro_batch_size": 1}, {"bf16": True}):
        plan = plan_of(GRPOConfig(**settings, **changes), 1000, 50)
        assert sum(plan.update.values()) < whole, changes
    critic = plan_of(PPOConfig(model=TINY), 100, 50)
    assert critic.lasting["critic with gradients and moments"] > critic.lasting["weights"]


def test_a_dry_run_says_that_it_fits_and_leaves_nothing(tmp_path, capsys):
    assert main(flags(SMALL, output_dir=tmp_path / "run", dry_run="true")) == 0
    assert "fits this machine with" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


def test_what_does_not_fit_is_not_built(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(memory_plan, "_device", lambda config: (1e8, "a small machine"))
    monkeypatch.setattr("agents.core.command._built", None)
    assert main(flags(SMALL, output_dir=tmp_path / "run", dry_run="true")) == 1
    shown = capsys.readouterr().out
    assert "does not fit a small machine with     0.100 GB" in shown
    assert "--gradient_checkpointing" in shown
    assert not (tmp_path / "run").exists()
