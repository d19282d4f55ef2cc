"""DPO-Positive: which answers are paired, the loss of a pair beside TRL's DPO, and a run."""

import math
import warnings

import numpy as np
import pytest
import torch
from commands import SMALL, flags, metrics_of
from policies import small_policy
from torch.nn.functional import logsigmoid
from updates import small_batch

from agents.core.loading import tiny_folder
from agents.core.objective import Constants
from agents.dpo_positive import (
    DPOPositiveConfig,
    PairUpdater,
    dpo_positive_loss,
    main,
    pairs_of,
)

PAIRS = SMALL | {"num_prompts": 8, "max_new_tokens": 80, "updates_per_batch": 1}
CHOSEN = [(0, 1), (2, 3), (4, 5)]


def test_pairs_are_right_with_wrong_of_one_problem():
    rewards = [1, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0]
    pairs = pairs_of(rewards, 4, 64, np.random.default_rng(0))
    assert pairs == [(0, 1), (0, 3), (2, 1), (2, 3)]
    few = pairs_of(rewards, 4, 3, np.random.default_rng(0))
    assert len(few) == 3 and set(few) < set(pairs)
    assert few == pairs_of(rewards, 4, 3, np.random.default_rng(0))


def test_the_loss_by_hand():
    """The right answer fell by 1 and the wrong one by 2: D = 1, and the penalty is 1."""
    numbers = [torch.tensor([x]) for x in (-3.0, -6.0, -2.0, -4.0)]
    dpo = float(dpo_positive_loss(*numbers, beta=0.5, weight=0.0))
    assert dpo == pytest.approx(math.log(1 + math.exp(-0.5)))
    positive = float(dpo_positive_loss(*numbers, beta=0.5, weight=4.0))
    assert positive == pytest.approx(math.log(1 + math.exp(1.5)))
    risen = [torch.tensor([x]) for x in (-1.0, -6.0, -2.0, -4.0)]
    both = [float(dpo_positive_loss(*risen, beta=0.5, weight=w)) for w in (0.0, 4.0)]
    assert both[0] == both[1], "no penalty where the right answer became more likely"


def _setting(weight, beta=0.3):
    policy, reference = (small_policy(torch.float64, 16, seed=seed) for seed in (0, 1))
    config = DPOPositiveConfig(
        beta=beta, dpop_lambda=weight, temperature=1.0, top_p=1.0, micro_batch_size=4,
        max_grad_norm=1e9,
    )  # fmt: skip
    updater = PairUpdater(policy, reference, config)
    batch = small_batch(policy)
    return updater, batch, Constants([], None, None, updater.log_probs(reference, batch))


def _gradient(updater, batch, constants):
    updater.policy.zero_grad()
    sums = updater._accumulate_pairs(batch, CHOSEN, constants)
    gradient = torch.cat([p.grad.flatten() for p in updater.policy.parameters()]).clone()
    return sums["loss"] / sums["pairs"], gradient


def _theirs(updater, batch, folder, beta):
    """Returns TRL's DPO loss and gradient, and the log-ratio of each right answer with gradient."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trl = pytest.importorskip("trl", reason="trl is not installed (pip install '.[dev]')")
        from datasets import Dataset
        from transformers import AutoTokenizer

        trainer = trl.DPOTrainer(
            model=updater.policy.model,
            ref_model=updater.reference.model,
            args=trl.DPOConfig(
                output_dir=str(folder), use_cpu=True, bf16=False, gradient_checkpointing=False,
                report_to="none", beta=beta, disable_dropout=True, per_device_train_batch_size=3,
            ),
            train_dataset=Dataset.from_list([{"prompt": "1", "chosen": "2", "rejected": "3"}] * 3),
            processing_class=AutoTokenizer.from_pretrained(tiny_folder()),
        )  # fmt: skip
    updater.policy.model.to(torch.float64).eval()
    updater.reference.model.to(torch.float64).eval()
    rows = [right for right, _ in CHOSEN] + [wrong for _, wrong in CHOSEN]
    width = max(len(batch.prompts[r]) + len(batch.responses[r]) for r in rows)
    ids, mask, completion = (np.zeros((6, width), dtype=np.int64) for _ in range(3))
    for place, row in enumerate(rows):
        prompt, answer = batch.prompts[row], batch.responses[row]
        ids[place, : len(prompt) + len(answer)] = [*prompt, *answer]
        mask[place, : len(prompt) + len(answer)] = 1
        completion[place, len(prompt) : len(prompt) + len(answer)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "completion_mask": completion}
    updater.policy.zero_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = trainer._compute_loss(
            updater.policy.model, {k: torch.from_numpy(v) for k, v in inputs.items()}, False
        )
    loss.backward()
    gradient = torch.cat([p.grad.flatten() for p in updater.policy.parameters()]).clone()
    return float(loss.detach()), gradient


@pytest.mark.filterwarnings("ignore")
def test_without_the_penalty_it_is_trls_dpo(tmp_path):
    updater, batch, constants = _setting(0.0)
    ours, gradient = _gradient(updater, batch, constants)
    theirs, expected = _theirs(updater, batch, tmp_path, 0.3)
    assert ours == pytest.approx(theirs, abs=1e-5)
    assert (gradient - expected).norm() <= 1e-5 * expected.norm()


def test_the_penalty_is_its_own_term():
    """Loss and gradient from log-probabilities computed one answer at a time."""
    updater, batch, constants = _setting(5.0)
    ours, gradient = _gradient(updater, batch, constants)
    policy = updater.policy
    policy.zero_grad()
    total = 0.0
    for right, wrong in CHOSEN:
        change = []
        for row in (right, wrong):
            sequences = updater._sequences(batch, [row])
            now = policy(sequences, 1.0).log_probs.sum()
            change.append(now - float(constants.reference[row].sum()))
        penalty = 5.0 * (-change[0]).clamp(min=0)
        total = total - logsigmoid(0.3 * (change[0] - change[1] - penalty)) / len(CHOSEN)
    total.backward()
    expected = torch.cat([p.grad.flatten() for p in policy.parameters()])
    assert ours == pytest.approx(float(total.detach()), abs=1e-9)
    assert (gradient - expected).norm() <= 1e-9 * expected.norm()


def test_micro_batches_change_nothing():
    updater, batch, constants = _setting(5.0)
    _, whole = _gradient(updater, batch, constants)
    updater.micro_batch_size.value = 2
    _, one = _gradient(updater, batch, constants)
    assert (whole - one).norm() <= 1e-10 * whole.norm()


def test_the_command_runs(tmp_path):
    assert main(flags(PAIRS, output_dir=tmp_path / "run")) == 0
    first, *_ = metrics_of(tmp_path / "run")
    assert first["dpo/pairs"] > 0 and 0 < first["dpo/paired_problems"] <= 1
    assert first["loss"] > 0 and 0 <= first["rewards/accuracies"] <= 1


@pytest.mark.parametrize(("name", "value"), [("whiten", "std"), ("max_ratio", 2.0)])
def test_switches_of_policy_gradients_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}={value} does not go with dpo_positive"):
        DPOPositiveConfig(**{name: value})
