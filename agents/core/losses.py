"""The loss core: pure functions of log-probabilities, advantages and masks.

Shapes: B answers, T response tokens, right padded; ``mask`` is True on real tokens. Weights hold
the counts of the whole minibatch, so that the gradient does not depend on how a minibatch is cut
into micro-batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from agents.core.advantages import Total


def log_ratios(
    log_probs: Tensor,
    old_log_probs: Tensor,
    mask: Tensor,
    level: Literal["token", "sequence", "product"] = "token",
) -> Tensor:
    """Returns the log of the probability ratio that counts at each token.

    Args:
        log_probs: Log-probabilities under the policy that is trained, [B, T].
        old_log_probs: Under the policy that sampled, constant, [B, T].
        mask: Real tokens, [B, T].
        level: "token": the token's own. "sequence": the mean over the answer's tokens, the log of
            their geometric mean (GSPO, arXiv 2507.18071). "product": the sum, an answer being one
            action (RLOO, arXiv 2402.14740).

    Returns:
        [B, T]; 0 on padding.

    >>> new, mask = torch.tensor([[0.2, 0.4, 9.0]]), torch.tensor([[True, True, False]])
    >>> [round(x, 4) for x in log_ratios(new, torch.zeros(1, 3), mask, "sequence")[0].tolist()]
    [0.3, 0.3, 0.0]
    """
    difference = torch.where(mask, log_probs - old_log_probs, 0.0)
    if level == "token":
        return difference
    total = difference.sum(-1, keepdim=True)
    if level == "sequence":
        total = total / mask.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(mask, total, 0.0)


def clipped_policy_loss(
    log_ratio: Tensor, advantages: Tensor, epsilon: float, epsilon_high: float | None = None
) -> Tensor:
    """Returns PPO's clipped loss of each token, to be minimised (Schulman et al. 2017, eq. 7).

    Args:
        log_ratio: See ``log_ratios``, [B, T].
        advantages: Constant, [B, T].
        epsilon: The ratio counts from 1 - epsilon.
        epsilon_high: It counts up to 1 + epsilon_high; None: epsilon (DAPO sets it larger).

    Returns:
        Loss of each token, [B, T].

    >>> double = torch.tensor([[2.0]]).log()  # the ratio is 2, clipped to 1.2
    >>> round(clipped_policy_loss(double, torch.tensor([[3.0]]), 0.2).item(), 4)
    -3.6
    >>> round(clipped_policy_loss(double, torch.tensor([[3.0]]), 0.2, 0.5).item(), 4)
    -4.5
    """
    low, high = _range(epsilon, epsilon_high)
    ratio = torch.exp(log_ratio)
    return -torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)


def clip_fractions(
    log_ratio: Tensor,
    advantages: Tensor,
    mask: Tensor,
    epsilon: float,
    epsilon_high: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns how many tokens the clip holds back below and above (counts, scalars).

    A token counts as low if its ratio is below the range with a negative advantage, as high if it
    is above with a positive one: there the gradient is zero.
    """
    low, high = _range(epsilon, epsilon_high)
    ratio = torch.exp(log_ratio)
    below = (ratio < low) & (advantages < 0) & mask
    above = (ratio > high) & (advantages > 0) & mask
    return below.sum(), above.sum()


def importance_weights(old_log_probs: Tensor, engine_log_probs: Tensor, cap: float) -> Tensor:
    """Returns min(trainer probability / engine probability, cap) of each token, constant.

    A token of which the engine does not know the probability (NaN) has weight 1. What sampled is
    the engine; where its numbers differ from the trainer's, these weights correct
    the gradient, truncated (Yao et al., "Your efficient RL framework secretly brings you off-policy
    RL training", 2025).

    >>> trainer, engine = torch.tensor([[0.3, 0.9]]).log(), torch.tensor([[0.6, 0.1]]).log()
    >>> [round(x, 4) for x in importance_weights(trainer, engine, 2.0)[0].tolist()]
    [0.5, 2.0]
    """
    difference = old_log_probs - engine_log_probs
    return torch.where(difference.isnan(), 0.0, difference).exp().clamp(max=cap).detach()


def kl_estimate(
    log_probs: Tensor,
    reference_log_probs: Tensor,
    estimator: Literal["k1", "k2", "k3"] = "k3",
    clamp: float | None = None,
) -> Tensor:
    """Returns an estimate of KL(policy || reference) at each token, [B, T].

    With d = log pi_ref - log pi: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - d - 1. k1 and k3 are unbiased
    on tokens of the policy; k2 has the right gradient in a loss, k1 none on average. Source:
    Schulman, "Approximating KL divergence", 2020.

    Args:
        log_probs: Under the policy that is trained, [B, T].
        reference_log_probs: Under the frozen reference, [B, T].
        estimator: Which.
        clamp: Largest size, in nats (the paper's code: 10).

    >>> [round(kl_estimate(torch.tensor(0.0), torch.tensor(1.0), k).item(), 4)
    ...  for k in ("k1", "k2", "k3")]
    [-1.0, 0.5, 0.7183]
    """
    difference = reference_log_probs - log_probs
    if estimator == "k1":
        kl = -difference
    elif estimator == "k2":
        kl = difference.square() / 2
    else:
        kl = torch.exp(difference) - difference - 1
    return clamped(kl, clamp)


def clamped(kl: Tensor, limit: float | None) -> Tensor:
    """Returns ``kl`` within [-limit, limit]; there it has no gradient.

    >>> clamped(torch.tensor([-20.0, 3.0]), 10.0).tolist()
    [-10.0, 3.0]
    """
    return kl if limit is None else kl.clamp(-limit, limit)


def answer_weights(
    lengths: Sequence[int],
    how: Literal["token_mean", "sequence_mean", "sum", "sum_constant"],
    constant: int | None = None,
    total: Total = np.asarray,
) -> list[float]:
    """Returns what each token of each answer of a minibatch is multiplied by before the sum.

    Args:
        lengths: Tokens of each answer of the whole minibatch that counts; may be empty.
        how: "token_mean": mean over all tokens. "sequence_mean": mean over answers of their token
            means. "sum": mean over answers of their sums. "sum_constant": that over ``constant``.
        constant: The token budget, for "sum_constant" (Dr. GRPO, arXiv 2503.20783).
        total: Sums over the processes that hold the minibatch's other answers, as ``all_sum``.

    Raises:
        ValueError: "sum_constant" without a constant.

    >>> answer_weights([1, 3], "token_mean"), answer_weights([1, 4], "sequence_mean")
    ([0.25, 0.25], [0.5, 0.125])
    >>> answer_weights([1, 3], "sum"), answer_weights([1, 3], "sum_constant", 10)
    ([0.5, 0.5], [0.05, 0.05])
    """
    answers, tokens = (int(count) for count in total([len(lengths), sum(lengths)]))
    if how == "token_mean":
        return [1 / tokens for _ in lengths]
    if how == "sequence_mean":
        return [1 / (answers * length) for length in lengths]
    if how == "sum":
        return [1 / answers for _ in lengths]
    if not constant:
        raise ValueError(
            "aggregation=sum_constant needs a token budget, and the environment has no "
            "max_new_tokens. Pass --max_new_tokens, or set --aggregation token_mean."
        )
    return [1 / (answers * constant) for _ in lengths]


def value_losses(
    values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None = None
) -> Tensor:
    """Returns the critic's loss of each token: half the squared error, PPO's clip on it if asked.

    Args:
        values: Of the critic that is trained, [B, T].
        old_values: Before the update, constant, [B, T].
        returns: What it should say, constant, [B, T].
        clip: The larger of the error and that of a value within this of the old one; None: no clip.

    >>> new, old, target = torch.tensor([1.0]), torch.tensor([0.5]), torch.tensor([1.0])
    >>> value_losses(new, old, target).item(), value_losses(new, old, target, 0.25).item()
    (0.0, 0.03125)
    """
    losses = (values - returns).square()
    if clip is not None:
        near = old_values + (values - old_values).clamp(-clip, clip)
        losses = torch.maximum(losses, (near - returns).square())
    return losses / 2


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Returns the sum over real tokens, a scalar; padding may hold anything, NaN included.

    >>> masked_sum(torch.tensor([[1.0, 2.0], [4.0, float("nan")]]),
    ...            torch.tensor([[True, True], [True, False]])).item()
    7.0
    """
    return torch.where(mask, values, torch.zeros_like(values)).sum()


def _range(epsilon: float, epsilon_high: float | None) -> tuple[float, float]:
    return 1 - epsilon, 1 + (epsilon if epsilon_high is None else epsilon_high)
