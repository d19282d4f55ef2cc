"""The switches of the loss core: one option each, and which do not go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agents.core.options import Options, option


@dataclass(frozen=True)
class LossConfig(Options):
    """How answers and advantages become gradient steps.

    >>> LossConfig(kl_estimator="k1")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: kl_estimator=k1 and kl_in=loss do not go together: its gradient is 0 on average...
    """

    updates_per_batch: int = option(2, "Passes over an iteration's answers.", low=1, paper="2")
    minibatch_size: int = option(64, "Answers per optimiser step.", low=1, paper="64")
    epsilon: float = option(0.2, "Clip range of the probability ratio.", above=0, paper="0.2")
    epsilon_high: float | None = option(
        None, "Clip range upwards; none: epsilon (DAPO: 0.28).", above=0, paper="0.2"
    )
    ratio_level: Literal["token", "sequence", "product"] = option(
        "token",
        "Ratio of each token, their geometric mean over the answer (GSPO), or their product.",
        paper="token",
        aliases=("importance_sampling_level",),
    )
    aggregation: Literal["token_mean", "sequence_mean", "sum_constant"] = option(
        "token_mean",
        "Policy loss: mean over the minibatch's tokens; mean over answers of their token means; "
        "sum over answers * token budget (Dr. GRPO).",
        paper="token_mean",
    )
    max_ratio: float | None = option(
        10.0, "A minibatch whose mean ratio is larger is skipped; none: never.", above=1, paper="10"
    )
    target_kl: float | None = option(
        None, "KL from the sampling policy, nats a token, that ends an update.", above=0
    )
    max_logprob_gap: float | None = option(
        1.0,
        "Mean difference between a token's log-probability in engine and trainer, nats, that stops "
        "the run; none: no limit.",
        above=0,
    )
    importance_sampling_cap: float | None = option(
        None, "Weight tokens by trainer over engine probability, up to this.", above=0
    )
    top_p_correction: Literal["none", "renormalise"] = option(
        "none", "Whether the loss divides by the nucleus' mass, as sampling does.", paper="none"
    )
    entropy_coef: float = option(
        0.0, "Weight of the bonus for entropy, a mean over tokens.", low=0, paper="0"
    )

    beta: float = option(1e-4, "Coefficient of the KL to the reference.", low=0, paper="1e-4")
    kl_in: Literal["loss", "reward"] = option(
        "loss", "Whether the KL is part of the loss or of each token's reward.", paper="loss"
    )
    kl_estimator: Literal["k1", "k2", "k3", "full"] = option(
        "k3", "Estimate of the KL at a token; full: exact, over all ids.", paper="k3"
    )
    kl_clamp: float | None = option(
        10.0, "Largest size of the KL at a token, nats; none: no limit.", above=0, paper="10"
    )
    kl_aggregation: Literal["sum", "token_mean", "sequence_mean"] = option(
        "sum",
        "KL in the loss: summed over an answer's tokens, then mean over answers; or the means.",
        paper="sum",
    )

    whiten: Literal["none", "std", "mean_std"] = option(
        "mean_std", "Advantages as they are, to deviation 1, or to mean 0 too.", paper="mean_std"
    )
    whiten_scope: Literal["minibatch", "batch"] = option(
        "minibatch", "Over what advantages are whitened.", paper="minibatch"
    )
    zero_spread: Literal["keep", "skip", "resample"] = option(
        "keep",
        "Groups whose answers all have the same reward: trained on, left out, or replaced by "
        "another problem's (the last two are biased).",
        paper="keep",
    )
    zero_spread_kl: bool = option(True, "Whether the KL in the loss still holds skipped groups.")
    truncated_answers: Literal["keep", "mask", "bootstrap"] = option(
        "keep",
        "Answers over budget: trained on with their reward, left out of sums and counts, or "
        "ended by the critic's value (PPO).",
        paper="keep",
    )
    overlong_buffer_len: int = option(
        0,
        "Last tokens of the answer budget in which length costs reward, linearly (DAPO eq. 13), in "
        "answers and value rollouts; 0: none.",
        low=0,
        paper="0",
        aliases=("soft_punish_cache",),
    )
    overlong_buffer_penalty_factor: float = option(
        1.0, "Reward that an answer loses which spends its whole budget.", above=0
    )

    def __post_init__(self) -> None:
        """Checks every field and the pairs that do not go together; raises ValueError."""
        super().__post_init__()
        if self.beta > 0 and self.kl_in == "loss" and self.kl_estimator == "k1":
            raise ValueError(
                "kl_estimator=k1 and kl_in=loss do not go together: its gradient is 0 on average. "
                "Set kl_estimator to k2, k3 or full, or kl_in to reward."
            )
        if self.kl_in == "reward" and self.kl_aggregation != "sum":
            raise ValueError(
                f"kl_in=reward and kl_aggregation={self.kl_aggregation} do not go together: "
                "rewards add up over an answer. Set kl_aggregation to sum."
            )
        if self.overlong_buffer_len > 0 and self.truncated_answers == "bootstrap":
            raise ValueError(
                f"overlong_buffer_len={self.overlong_buffer_len} and truncated_answers=bootstrap "
                "do not go together: one makes the budget part of the task, the other goes on "
                "beyond it. Set overlong_buffer_len to 0, or truncated_answers to keep or mask."
            )


_NEEDS: Mapping[str, tuple[str, str]] = {
    "kl_in=reward": (
        "its advantages do not come from token rewards, so that the KL would be lost",
        "Set --kl_in loss",
    ),
    "ratio_level=sequence": (
        "the tokens of an answer have different advantages, which one ratio would mix",
        "Set --ratio_level token",
    ),
    "ratio_level=product": (
        "the tokens of an answer have different advantages, which one ratio would mix",
        "Set --ratio_level token",
    ),
    "truncated_answers=bootstrap": (
        "it has no critic whose value could end an answer",
        "Set --truncated_answers keep or mask, or use ppo",
    ),
}
"""Settings that only some algorithms can honour: why another cannot, and what to do."""

SHARED_ADVANTAGE = frozenset({"kl_in=reward", "ratio_level=sequence", "ratio_level=product"})
"""What an algorithm can honour that gives all tokens of an answer one advantage."""


def check_support(name: str, supports: frozenset[str], config: Any) -> None:
    """Refuses settings that an algorithm would silently ignore or get wrong.

    Args:
        name: The algorithm's.
        supports: The entries "switch=value" that it can honour.
        config: Its options.

    Raises:
        ValueError: Says which setting, why, and what to change.

    >>> check_support("vineppo", frozenset(), LossConfig(kl_in="reward"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: kl_in=reward does not go with vineppo: ... Set --kl_in loss.
    """
    for setting, (reason, remedy) in _NEEDS.items():
        switch, value = setting.split("=")
        if getattr(config, switch) == value and setting not in supports:
            raise ValueError(f"{setting} does not go with {name}: {reason}. {remedy}.")
