"""Losses against numbers computed by hand, and their gradients."""

import math

import pytest
import torch

from agents.core.losses import (
    answer_weights,
    clip_fractions,
    clipped_policy_loss,
    importance_weights,
    kl_estimate,
    log_ratios,
    masked_sum,
    value_losses,
)


def _double(*rows, **settings):
    return torch.tensor(rows, dtype=torch.float64, **settings)


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
    log_ratio = _double([math.log(ratio)], requires_grad=True)
    value = clipped_policy_loss(log_ratio, torch.tensor([[advantage]]), 0.2)
    value.sum().backward()
    assert value.item() == pytest.approx(loss)
    assert log_ratio.grad.item() == pytest.approx(gradient)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.25, 2.0, -2.5, -2.5),  # within the higher range
        (1.5, 2.0, -2.56, 0.0),  # clipped at 1.28
        (0.7, -2.0, 1.6, 0.0),  # the lower range is as before: clipped at 0.8
    ],
)
def test_the_high_clip_apart_by_hand(ratio, advantage, loss, gradient):
    log_ratio = _double([math.log(ratio)], requires_grad=True)
    value = clipped_policy_loss(log_ratio, torch.tensor([[advantage]]), 0.2, 0.28)
    value.sum().backward()
    assert value.item() == pytest.approx(loss)
    assert log_ratio.grad.item() == pytest.approx(gradient)


def test_clip_fractions_count_where_the_gradient_is_zero():
    ratios = torch.tensor([[0.5, 0.5, 1.5, 1.5, 1.0, 1.5]]).log()
    advantages = torch.tensor([[-1.0, 1.0, 1.0, -1.0, 1.0, 1.0]])
    mask = torch.tensor([[True, True, True, True, True, False]])
    assert [int(n) for n in clip_fractions(ratios, advantages, mask, 0.2)] == [1, 1]
    assert [int(n) for n in clip_fractions(ratios, advantages, mask, 0.2, 0.6)] == [1, 0]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("token", [[0.1, 0.5, 0.0], [-0.2, 0.0, 0.0]]),
        ("sequence", [[0.3, 0.3, 0.0], [-0.2, 0.0, 0.0]]),
        ("product", [[0.6, 0.6, 0.0], [-0.2, 0.0, 0.0]]),
    ],
)
def test_ratio_levels_by_hand(level, expected):
    new = _double([-0.9, -0.5, math.nan], [-1.2, math.inf, 7.0])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    result = log_ratios(new, torch.full_like(new, -1.0), mask, level)
    torch.testing.assert_close(result, _double(*expected))


def test_an_answers_ratio_moves_all_its_tokens():
    new = _double([0.0, 0.0, 0.0], requires_grad=True)
    mask = torch.tensor([[True, True, True]])
    log_ratios(new, torch.zeros(1, 3), mask, "sequence")[0, 0].backward()
    torch.testing.assert_close(new.grad, _double([1 / 3, 1 / 3, 1 / 3]))


@pytest.mark.parametrize(
    ("estimator", "kl", "gradient"),
    [
        ("k1", 1.0, 1.0),
        ("k2", 0.5, 1.0),
        ("k3", math.exp(-1.0) + 1.0 - 1.0, 1.0 - math.exp(-1.0)),
    ],
)
def test_kl_estimates_by_hand_and_their_gradients(estimator, kl, gradient):
    log_prob = _double(-1.0, requires_grad=True)
    value = kl_estimate(log_prob, _double(-2.0), estimator)
    value.sum().backward()
    assert value.item() == pytest.approx(kl)
    assert log_prob.grad.item() == pytest.approx(gradient)


_POLICY, _REFERENCE = _double(0.2, 0.3, 0.5), _double(0.4, 0.4, 0.2)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_k1_and_k3_are_unbiased_estimates_of_the_kl(estimator):
    expected = (_POLICY * kl_estimate(_POLICY.log(), _REFERENCE.log(), estimator)).sum()
    exact = (_POLICY * (_POLICY / _REFERENCE).log()).sum()
    assert expected.item() == pytest.approx(exact.item())


@pytest.mark.parametrize(("estimator", "right"), [("k1", False), ("k2", True), ("k3", False)])
def test_only_k2_has_the_gradient_of_the_kl_in_a_loss(estimator, right):
    """Expected gradients over the policy's own tokens, the sampling held fixed."""
    logits = _POLICY.log().clone().requires_grad_()
    exact = (logits.softmax(-1) * (logits.log_softmax(-1) - _REFERENCE.log())).sum()
    (exact_gradient,) = torch.autograd.grad(exact, logits)
    estimate = (_POLICY * kl_estimate(logits.log_softmax(-1), _REFERENCE.log(), estimator)).sum()
    (gradient,) = torch.autograd.grad(estimate, logits)
    assert torch.allclose(gradient, exact_gradient) is right
    if estimator == "k1":
        torch.testing.assert_close(gradient, torch.zeros_like(gradient))


def test_the_kl_is_clamped_as_in_the_papers_code():
    assert kl_estimate(torch.tensor([-50.0]), torch.tensor([0.0]), "k3", 10.0).item() == 10.0
    assert kl_estimate(torch.tensor([-50.0]), torch.tensor([0.0]), "k1", 10.0).item() == -10.0
    assert kl_estimate(torch.tensor([-50.0]), torch.tensor([0.0]), "k2").item() == 1250.0


def test_importance_weights_are_truncated_and_constant():
    trainer = torch.tensor([[0.2, 0.9, 0.5]]).log().requires_grad_()
    weights = importance_weights(trainer, torch.tensor([[0.4, 0.1, 0.5]]).log(), 2.0)
    torch.testing.assert_close(weights, torch.tensor([[0.5, 2.0, 1.0]]))
    assert not weights.requires_grad


def test_aggregations_by_hand():
    losses = [[1.0, 1.0, 1.0, 3.0], [2.0]]  # sums 6 and 2, means 1.5 and 2
    for how, expected in {
        "token_mean": 8 / 5,
        "sequence_mean": 1.75,
        "sum": 4.0,
        "sum_constant": 4.0 / 20,
    }.items():
        weights = answer_weights([4, 1], how, 20)
        total = sum(w * sum(row) for w, row in zip(weights, losses, strict=True))
        assert total == pytest.approx(expected), how


def test_a_sum_over_a_constant_needs_one():
    with pytest.raises(ValueError, match="sum_constant needs a token budget"):
        answer_weights([4, 1], "sum_constant")


def test_value_loss_by_hand_and_where_its_clip_stops_the_gradient():
    values = torch.tensor([1.0, 1.0, 0.1], requires_grad=True)
    returns, old = torch.tensor([3.0, 0.0, 1.0]), torch.tensor([0.5, 0.5, 0.0])
    losses = value_losses(values, old, returns, 0.2)
    losses.sum().backward()
    # (1-3)^2 < (.7-3)^2: the clipped one counts, no gradient; the others count as they are.
    torch.testing.assert_close(losses, torch.tensor([2.3**2 / 2, 0.5, 0.81 / 2]))
    torch.testing.assert_close(values.grad, torch.tensor([0.0, 1.0, -0.9]))
    plain = value_losses(values.detach(), old, returns)
    torch.testing.assert_close(plain, torch.tensor([2.0, 0.5, 0.81 / 2]))


def test_padding_never_reaches_the_sum_or_the_gradient():
    values = torch.tensor([[1.0, math.inf], [2.0, math.nan]], requires_grad=True)
    total = masked_sum(values, torch.tensor([[True, False], [True, False]]))
    total.backward()
    assert total.item() == 3.0
    assert values.grad.tolist() == [[1.0, 0.0], [1.0, 0.0]]
