"""Loss and gradient equal TRL's on the same model, batch, advantages and old log-probabilities.

The trainers are real ones; only their loss is called, with the tensors that they would make.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from updates import CONFIG, small_batch

from agents.core.loading import tiny_folder
from agents.core.objective import Constants, Objective
from agents.core.policy import Sequences

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what TRL's imports warn about is not ours to mend
    trl = pytest.importorskip("trl", reason="trl is not installed (pip install '.[dev]')")
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

pytestmark = pytest.mark.filterwarnings("ignore")
TEMPERATURE, BUDGET, BETA = 0.8, 9, 0.3


def _no_reward(completions, **columns):
    return [0.0] * len(completions)


def _trainer(policy, folder, trainer_class, config_class, **settings):
    config = config_class(
        output_dir=str(folder), use_cpu=True, bf16=False, gradient_checkpointing=False,
        report_to="none", per_device_train_batch_size=6, num_generations=2, beta=0.0,
        temperature=TEMPERATURE, max_completion_length=BUDGET, disable_dropout=True, **settings,
    )  # fmt: skip
    trainer = trainer_class(
        model=policy.model,
        reward_funcs=_no_reward,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": "1+1="}] * 6),
        processing_class=AutoTokenizer.from_pretrained(tiny_folder()),
    )
    policy.model.eval()
    policy.model.to(torch.float64)
    return trainer


def _inputs(batch, **more):
    """Prompts padded on the left, responses on the right, as TRL has them."""
    prompts = max(len(row) for row in batch.prompts)
    responses = max(len(row) for row in batch.responses)
    left = [[0] * (prompts - len(row)) + row for row in batch.prompts]
    right = [row + [0] * (responses - len(row)) for row in batch.responses]
    return {
        "prompt_ids": torch.tensor(left),
        "prompt_mask": torch.tensor(
            [[0] * (prompts - len(row)) + [1] * len(row) for row in batch.prompts]
        ),
        "completion_ids": torch.tensor(right),
        "completion_mask": torch.tensor(
            [[1] * len(row) + [0] * (responses - len(row)) for row in batch.responses]
        ),
        "num_items_in_batch": torch.tensor(float(sum(map(len, batch.responses)))),
        **more,
    }


def _padded(rows):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[0.0] * (width - len(row))] for row in rows], dtype=torch.float64)


@pytest.fixture
def setting(make_policy):
    """Returns the policy, a batch with one advantage an answer, and old and reference log-probs."""
    policy, rng = make_policy(vocab_size=16), np.random.default_rng(3)
    batch = small_batch(policy, replace(CONFIG, temperature=TEMPERATURE))
    answers = rng.normal(size=6)
    batch.advantages = [
        np.full(len(row), number) for row, number in zip(batch.responses, answers, strict=True)
    ]
    now = batch.engine_log_probs
    old = [row + 0.25 * rng.normal(size=len(row)) for row in now]  # off-policy: some are clipped
    reference = [row + 0.25 * rng.normal(size=len(row)) for row in now]
    return policy, batch, answers, old, reference


def _ours(policy, batch, old, reference, config):
    policy.zero_grad()
    constants = Constants(batch.advantages, old, old, reference)
    objective = Objective(
        batch, range(6), constants, config, has_kl=config.beta > 0, budget=BUDGET, value=None
    )
    total = 0.0
    for rows in ([4, 0, 2], [1, 5], [3]):
        sequences = Sequences.of(
            [batch.prompts[r] for r in rows], [batch.responses[r] for r in rows], policy.device
        )
        loss = objective.loss(rows, policy(sequences, TEMPERATURE), sequences.mask)
        loss.backward()
        total += loss.item()
    return total, torch.cat([p.grad.flatten() for p in policy.parameters()]).clone()


def _theirs(policy, trainer, inputs):
    policy.zero_grad()
    loss = trainer._compute_loss(policy.model, inputs)
    loss.backward()
    return loss.item(), torch.cat([p.grad.flatten() for p in policy.parameters()]).clone()


def _check(ours, theirs):
    assert ours[0] == pytest.approx(theirs[0], rel=1e-5)
    assert (ours[1] - theirs[1]).norm() <= 1e-5 * theirs[1].norm()
    assert theirs[1].norm() > 0.01


@pytest.mark.parametrize("beta", [0.0, BETA])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize(
    ("loss_type", "switches"),
    [
        ("grpo", {"aggregation": "sequence_mean", "kl_aggregation": "sequence_mean"}),
        ("dapo", {"aggregation": "token_mean", "kl_aggregation": "token_mean"}),
        ("dr_grpo", {"aggregation": "sum_constant", "kl_aggregation": "sum"}),
    ],
)
def test_grpo(setting, tmp_path, loss_type, switches, level, beta):
    policy, batch, answers, old, reference = setting
    trainer = _trainer(
        policy, tmp_path, GRPOTrainer, GRPOConfig, loss_type=loss_type,
        importance_sampling_level=level, epsilon=0.1, epsilon_high=0.2,
        use_bias_correction_kl=False,
    )  # fmt: skip
    trainer.beta = beta  # no reference model is needed: its log-probabilities are in the inputs
    theirs = _theirs(policy, trainer, _inputs(
        batch, advantages=torch.tensor(answers), old_per_token_logps=_padded(old),
        ref_per_token_logps=_padded(reference),
    ))  # fmt: skip
    config = replace(
        CONFIG, temperature=TEMPERATURE, epsilon=0.1, epsilon_high=0.2, ratio_level=level,
        kl_clamp=None, beta=beta / BUDGET if loss_type == "dr_grpo" else beta, **switches,
    )  # fmt: skip
    _check(_ours(policy, batch, old, reference, config), theirs)


def test_rloo(setting, tmp_path):
    policy, batch, answers, old, reference = setting
    trainer = _trainer(policy, tmp_path, RLOOTrainer, RLOOConfig, epsilon=0.3)
    old_sums = torch.tensor([row.sum() for row in old])
    theirs = _theirs(
        policy, trainer, _inputs(batch, advantages=torch.tensor(answers), old_logps=old_sums)
    )
    config = replace(
        CONFIG, temperature=TEMPERATURE, epsilon=0.3, beta=0.0, ratio_level="product",
        aggregation="sequence_mean",
    )  # fmt: skip
    _check(_ours(policy, batch, old, reference, config), theirs)
