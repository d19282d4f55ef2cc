"""The objective of a minibatch against a second, slow way to compute it, for every switch."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.core.config import BaseConfig
from agents.core.objective import Batch, Constants, Objective
from agents.core.policy import Extras, Sequences

LENGTHS, BUDGET, TEMPERATURE = [3, 1, 6, 2], 9, 0.8
BASE = BaseConfig(beta=0.3, kl_clamp=None, temperature=TEMPERATURE, top_p=0.7)


def _rows(seed, scale):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=n) * scale for n in LENGTHS]


def _batch():
    rng = np.random.default_rng(0)
    prompts = [[1, *rng.integers(3, 12, size=n).tolist()] for n in (2, 0, 5, 1)]
    responses = [rng.integers(2, 12, size=n).tolist() for n in LENGTHS]
    return Batch(prompts, responses, _rows(1, 1.0), [row - 2.0 for row in _rows(4, 0.5)])


def _distribution(model, prompt, response):
    logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1, :12]
    return torch.log_softmax(logits / TEMPERATURE, -1)


def _slow_loss(config, policy, reference, batch, old, old_plain):
    """The loss of the whole minibatch, answer by answer and token by token."""
    epsilon_high = config.epsilon if config.epsilon_high is None else config.epsilon_high
    counted = [row for row in range(4) if batch.in_policy_loss[row]]
    in_kl = [row for row in range(4) if batch.in_kl[row]]
    total = torch.zeros((), dtype=torch.float64)
    for row, (prompt, response) in enumerate(zip(batch.prompts, batch.responses, strict=True)):
        scores = _distribution(policy.model, prompt, response)
        other = _distribution(reference.model, prompt, response).detach()
        losses, kls, entropies = [], [], []
        logs = []
        for t, token in enumerate(response):
            drawn = scores[t]
            if config.top_p_correction == "renormalise":
                by_size = sorted(range(12), key=lambda a, t=t: -scores[t, a].item())
                kept, mass = {token}, 0.0
                for a in by_size:
                    if mass < config.top_p:
                        kept.add(a)
                    mass += scores[t, a].exp().item()
                keep = sorted(kept)
                drawn = torch.full((12,), -math.inf, dtype=torch.float64)
                drawn[keep] = scores[t, keep] - scores[t, keep].exp().sum().log()
            logs.append(drawn)
        ratios = [logs[t][token] - old[row][t] for t, token in enumerate(response)]
        answer = sum(ratios)
        for t, token in enumerate(response):
            log_ratio = {"token": ratios[t], "product": answer,
                         "sequence": answer / len(response)}[config.ratio_level]  # fmt: skip
            ratio, advantage = log_ratio.exp(), batch.advantages[row][t]
            clipped = min(max(ratio.item(), 1 - config.epsilon), 1 + epsilon_high)
            term = -ratio * advantage
            if clipped * advantage < ratio.item() * advantage:
                term = torch.tensor(-clipped * advantage, dtype=torch.float64)
            if config.importance_sampling_cap is not None:
                gap = old_plain[row][t] - batch.engine_log_probs[row][t]
                term = term * min(math.exp(gap), config.importance_sampling_cap)
            p = logs[t].exp()
            entropy = -(p[p > 0] * logs[t][p > 0]).sum()
            losses.append(term)
            entropies.append(entropy)
            d = other[t, token] - scores[t, token]
            kl = {
                "k2": d**2 / 2, "k3": d.exp() - d - 1,
                "full": (scores[t].exp() * (scores[t] - other[t])).sum(),
            }[config.kl_estimator]  # fmt: skip
            if config.kl_clamp is not None and kl > config.kl_clamp:
                kl = torch.tensor(config.kl_clamp, dtype=torch.float64)
            kls.append(kl)
        if row in counted:
            tokens = sum(LENGTHS[r] for r in counted)
            total = total - config.entropy_coef * sum(entropies) / tokens
            total = total + sum(losses) * {
                "token_mean": 1 / tokens,
                "sequence_mean": 1 / (len(counted) * len(response)),
                "sum_constant": 1 / (len(counted) * BUDGET),
            }[config.aggregation]  # fmt: skip
        if row in in_kl:
            tokens = sum(LENGTHS[r] for r in in_kl)
            total = total + config.beta * sum(kls) * {
                "token_mean": 1 / tokens,
                "sequence_mean": 1 / (len(in_kl) * len(response)),
                "sum": 1 / len(in_kl),
            }[config.kl_aggregation]  # fmt: skip
    return total


SWITCHES = [
    {},
    {"ratio_level": "sequence", "aggregation": "sequence_mean"},
    {"ratio_level": "product", "aggregation": "sequence_mean"},
    {"epsilon": 0.1, "epsilon_high": 0.4},
    {"aggregation": "sequence_mean"},
    {"aggregation": "sum_constant"},
    {"kl_estimator": "k2"},
    {"kl_estimator": "full"},
    {"kl_estimator": "full", "kl_clamp": 0.5},
    {"kl_clamp": 0.2},
    {"kl_aggregation": "token_mean"},
    {"kl_aggregation": "sequence_mean"},
    {"entropy_coef": 0.5},
    {"entropy_coef": 0.5, "aggregation": "sum_constant"},
    {"importance_sampling_cap": 1.5},
    {"top_p_correction": "renormalise"},
    {"top_p_correction": "renormalise", "entropy_coef": 0.5, "importance_sampling_cap": 2.0},
]
MASKS = [
    {},
    {"in_policy_loss": [True, False, True, True]},
    {"in_policy_loss": [True, False, True, False], "in_kl": [True, True, True, False]},
]


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
@pytest.mark.parametrize("masks", MASKS, ids=["all", "no_policy", "no_policy_no_kl"])
@pytest.mark.parametrize("micro", [[[0, 1, 2, 3]], [[3, 1], [2], [0]]], ids=["whole", "cut"])
def test_loss_and_gradient_off_policy(make_policy, switches, masks, micro):
    config = replace(BASE, **switches)
    policy, reference = make_policy(), make_policy(seed=1)
    batch = _batch()
    batch = replace(batch, **masks)
    old_plain, moved = _rows(2, 0.3), _rows(3, 0.2)
    with torch.no_grad():  # an old policy near the new one, so that some tokens are clipped
        for row, (prompt, response) in enumerate(zip(batch.prompts, batch.responses, strict=True)):
            scores = _distribution(policy.model, prompt, response)
            plain = scores[range(len(response)), response].numpy()
            old_plain[row] = plain + moved[row]
    old = [row + 0.1 for row in old_plain] if config.top_p_correction != "none" else old_plain
    expected = _slow_loss(config, policy, reference, batch, old, old_plain)
    expected.backward()
    gradient = torch.cat([p.grad.flatten() for p in policy.parameters()])
    policy.zero_grad()

    device = torch.device("cpu")
    whole = Sequences.of(batch.prompts, batch.responses, device)
    with torch.no_grad():
        scored = reference(whole, TEMPERATURE).log_probs.numpy()
    others = [scored[row, :n] for row, n in enumerate(LENGTHS)]
    objective = Objective(
        batch, range(4), Constants(batch.advantages, old, old_plain, others), config,
        has_kl=True, budget=BUDGET, value=None,
    )  # fmt: skip
    extras = Extras(
        top_p=config.top_p if config.top_p_correction == "renormalise" else 1.0,
        entropy_gradient=config.entropy_coef > 0,
        reference=reference if config.kl_estimator == "full" else None,
    )
    total = 0.0
    for rows in micro:
        sequences = Sequences.of(
            [batch.prompts[r] for r in rows], [batch.responses[r] for r in rows], device
        )
        loss = objective.loss(rows, policy(sequences, TEMPERATURE, extras), sequences.mask)
        loss.backward()
        total += loss.item()
    ours = torch.cat([p.grad.flatten() for p in policy.parameters()])
    assert total == pytest.approx(expected.item(), rel=1e-10)
    assert (ours - gradient).norm() <= 1e-10 * gradient.norm()
    assert gradient.norm() > 0.01


def test_the_mean_ratio_is_that_of_the_counted_tokens(make_policy):
    policy, batch = make_policy(), _batch()
    batch = replace(batch, in_policy_loss=[True, False, False, True])
    sequences = Sequences.of(batch.prompts, batch.responses, torch.device("cpu"))
    stats = policy(sequences, TEMPERATURE)
    shifts = [math.log(2.0), 50.0, 50.0, math.log(4.0)]  # uncounted rows would blow the mean up
    old = [stats.log_probs[row, :n].detach().numpy() - shifts[row] for row, n in enumerate(LENGTHS)]
    constants = Constants(batch.advantages, old, old, None)
    objective = Objective(batch, range(4), constants, BASE, has_kl=False, budget=None, value=None)
    objective.loss([0, 1, 2, 3], stats, sequences.mask)
    assert objective.mean_ratio == pytest.approx((3 * 2.0 + 2 * 4.0) / 5)
    assert objective.largest_ratio == pytest.approx(4.0)
    expected = (3 * (2.0 - 1 - math.log(2.0)) + 2 * (4.0 - 1 - math.log(4.0))) / 5
    assert objective.moved == pytest.approx(expected)
