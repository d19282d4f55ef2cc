"""Losses against numbers computed by hand, and their gradients."""

import math

import pytest
import torch

from agents.core.losses import clip_fractions, clipped_policy_loss, kl_k3, masked_sum


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.0, 2.0, -2.0, -2.0),
        (1.5, 2.0, -2.4, 0.0),  # clipped at 1.2: no gradient upwards
        (0.5, 2.0, -1.0, -1.0),  # below the range with a gain: not clipped
        (0.5, -2.0, 1.6, 0.0),  # clipped at 0.8: no gradient downwards
        (1.5, -2.0, 3.0, 3.0),  # above the range with a loss: not clipped
        (3.0, 0.0, 0.0, 0.0),
    ],
)
def test_clipped_loss_by_hand(ratio, advantage, loss, gradient):
    log_prob = torch.tensor([[math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    value = clipped_policy_loss(
        log_prob, torch.zeros(1, 1, dtype=torch.float64), torch.tensor([[advantage]]), 0.2
    )
    value.sum().backward()
    assert value.item() == pytest.approx(loss)
    assert log_prob.grad.item() == pytest.approx(gradient)


def test_clip_fractions_count_where_the_gradient_is_zero():
    ratios = torch.tensor([[0.5, 0.5, 1.5, 1.5, 1.0, 1.5]]).log()
    advantages = torch.tensor([[-1.0, 1.0, 1.0, -1.0, 1.0, 1.0]])
    mask = torch.tensor([[True, True, True, True, True, False]])
    low, high = clip_fractions(ratios, torch.zeros(1, 6), advantages, mask, 0.2)
    assert (int(low), int(high)) == (1, 1)


def test_k3_by_hand_and_its_gradient():
    log_prob = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    kl = kl_k3(log_prob, torch.tensor([-2.0], dtype=torch.float64))
    kl.sum().backward()
    assert kl.item() == pytest.approx(math.exp(-1.0) + 1.0 - 1.0)
    assert log_prob.grad.item() == pytest.approx(1.0 - math.exp(-1.0))


def test_k3_is_an_unbiased_estimate_of_the_kl():
    policy = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    reference = torch.tensor([0.4, 0.4, 0.2], dtype=torch.float64)
    expected = (policy * kl_k3(policy.log(), reference.log())).sum()
    assert expected.item() == pytest.approx((policy * (policy / reference).log()).sum().item())


def test_k3_is_clamped_as_in_the_papers_code():
    assert kl_k3(torch.tensor([-50.0]), torch.tensor([0.0])).item() == 10.0


def test_padding_never_reaches_the_sum_or_the_gradient():
    values = torch.tensor([[1.0, math.inf], [2.0, math.nan]], requires_grad=True)
    total = masked_sum(values, torch.tensor([[True, False], [True, False]]))
    total.backward()
    assert total.item() == 3.0
    assert values.grad.tolist() == [[1.0, 0.0], [1.0, 0.0]]
