"""The loss core: pure functions of log-probabilities, advantages and masks.

Shapes: B answers, T response tokens, right padded; ``mask`` is True on real tokens. The caller
divides sums by the counts of the whole minibatch, so that the gradient does not depend on how a
minibatch is cut into micro-batches.
"""

from __future__ import annotations

import torch
from torch import Tensor

_KL_CLAMP = 10.0


def clipped_policy_loss(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, epsilon: float
) -> Tensor:
    """Returns PPO's clipped loss of each token, to be minimised (Schulman et al. 2017, eq. 7).

    Args:
        log_probs: Log-probabilities under the policy that is trained, [B, T].
        old_log_probs: Under the policy that sampled, constant, [B, T].
        advantages: Constant, [B, T].
        epsilon: Clip range: the ratio counts within [1 - epsilon, 1 + epsilon].

    Returns:
        Loss of each token, [B, T].

    >>> double = torch.tensor([[2.0]]).log()  # the ratio is 2, clipped to 1.2
    >>> clipped_policy_loss(double, torch.zeros(1, 1), torch.tensor([[3.0]]), 0.2).item()
    -3.6...
    >>> clipped_policy_loss(double, torch.zeros(1, 1), torch.tensor([[-3.0]]), 0.2).item()
    6.0
    """
    ratio = torch.exp(log_probs - old_log_probs)
    clipped = ratio.clamp(1 - epsilon, 1 + epsilon)
    return -torch.minimum(ratio * advantages, clipped * advantages)


def clip_fractions(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, mask: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Returns how many tokens the clip holds back below and above (counts, scalars).

    A token counts as low if its ratio is under 1 - epsilon with a negative advantage, as high if it
    is over 1 + epsilon with a positive one: there the gradient is zero.
    """
    ratio = torch.exp(log_probs - old_log_probs)
    low = (ratio < 1 - epsilon) & (advantages < 0) & mask
    high = (ratio > 1 + epsilon) & (advantages > 0) & mask
    return low.sum(), high.sum()


def kl_k3(log_probs: Tensor, reference_log_probs: Tensor) -> Tensor:
    """Returns the k3 estimate of KL(policy || reference) at each token, >= 0.

    exp(d) - d - 1 with d = log pi_ref - log pi, clamped to [0, 10] as in the VinePPO code.
    Source: Schulman, "Approximating KL divergence", 2020.

    Args:
        log_probs: Under the policy that is trained, [B, T].
        reference_log_probs: Under the frozen reference, [B, T].

    >>> kl_k3(torch.tensor([0.0]), torch.tensor([1.0])).item()
    0.718...
    """
    difference = reference_log_probs - log_probs
    return (torch.exp(difference) - difference - 1).clamp(0.0, _KL_CLAMP)


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Returns the sum over real tokens, a scalar; padding may hold anything, NaN included.

    >>> masked_sum(torch.tensor([[1.0, 2.0], [4.0, float("nan")]]),
    ...            torch.tensor([[True, True], [True, False]])).item()
    7.0
    """
    return torch.where(mask, values, torch.zeros_like(values)).sum()
