"""How far a policy is from its start: in distributions (KL) and in weights."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agents.core.advantages import FloatArray
from agents.core.losses import kl_estimate

_LAYER = re.compile(r"\blayers?\.(\d+)\.|\bh\.(\d+)\.|\bblocks?\.(\d+)\.")


def answer_kl(
    log_probs: Sequence[FloatArray], start_log_probs: Sequence[FloatArray]
) -> dict[str, FloatArray]:
    """Returns estimates of KL(policy || start) of each answer, nats, summed over its tokens.

    Args:
        log_probs: Of answers that the policy sampled, under it, each [T_i].
        start_log_probs: The same under the start, each [T_i].

    Returns:
        "k1" and "k3", each [N]: unbiased both; k3 is never negative and varies less near 0.

    >>> {name: kl.round(4).tolist() for name, kl in
    ...  answer_kl([np.array([0.0, -1.0])], [np.array([-1.0, 0.0])]).items()}
    {'k1': [0.0], 'k3': [1.0862]}
    """
    pairs = [
        (torch.as_tensor(a), torch.as_tensor(b))
        for a, b in zip(log_probs, start_log_probs, strict=True)
    ]
    return {
        "k1": np.array([float(kl_estimate(a, b, "k1").sum()) for a, b in pairs]),
        "k3": np.array([float(kl_estimate(a, b, "k3").sum()) for a, b in pairs]),
    }


def mean_and_error(answers: Sequence[float] | FloatArray, group: int) -> tuple[float, float]:
    """Returns the mean and its standard error, over problems: answers to one are not independent.

    Args:
        answers: A number an answer, those of a problem together, [P * group].
        group: Answers a problem.

    Returns:
        The error is NaN for one problem.

    >>> mean_and_error([0.0, 2.0, 3.0, 3.0], 2)
    (2.0, 1.0)
    """
    means = np.asarray(answers, dtype=np.float64).reshape(-1, group).mean(axis=1)
    error = means.std(ddof=1) / math.sqrt(len(means)) if len(means) > 1 else math.nan
    return float(means.mean()), float(error)


def part_of(name: str) -> str:
    """Returns which part of a model a weight belongs to: "layer 3", or "embeddings", "head", ...

    >>> part_of("model.layers.3.mlp.up_proj.weight"), part_of("transformer.h.0.ln_1.weight")
    ('layer 3', 'layer 0')
    >>> [part_of(f"model.{name}.weight") for name in ("embed_tokens", "lm_head", "norm")]
    ['embeddings', 'head', 'final norm']
    """
    found = _LAYER.search(name)
    if found:
        return f"layer {next(group for group in found.groups() if group)}"
    if "embed" in name or "wte" in name or "wpe" in name:
        return "embeddings"
    return "head" if "head" in name else "final norm"


def weight_distance(weights: Mapping[str, Tensor], start: Mapping[str, Tensor]) -> dict[str, Any]:
    """Returns how far weights are from the start, in all and by part of the model.

    Args:
        weights: By name.
        start: The same names and shapes.

    Returns:
        For "all" and each part: ``l2`` (length of the difference), ``relative`` (over the start's
        length; None where that is 0), ``largest`` (largest change of one weight), ``changed``
        (share of the weights that changed).

    Raises:
        ValueError: Names or shapes differ: these are not two states of one model.

    >>> found = weight_distance({"lm_head.w": torch.tensor([3.0, 4.0, 5.0])},
    ...                         {"lm_head.w": torch.tensor([0.0, 0.0, 5.0])})
    >>> found["all"] == found["head"], found["head"]["l2"], found["head"]["relative"]
    (True, 5.0, 1.0)
    """
    other = {name for name in weights.keys() ^ start.keys()}
    other |= {n for n in weights.keys() & start.keys() if weights[n].shape != start[n].shape}
    if other:
        raise ValueError(
            f"not the same model as the start: {sorted(other)[0]!r} is missing or of another shape "
            f"({len(other)} such weights). Name the start with --reference."
        )
    sums: dict[str, list[float]] = {}
    for name in sorted(weights, key=_order):
        new, old = weights[name].double(), start[name].double()
        change = new - old
        found = [
            float(change.square().sum()),
            float(old.square().sum()),
            float(change.abs().max()) if change.numel() else 0.0,
            float((change != 0).sum()),
            float(change.numel()),
        ]
        for part in ("all", part_of(name)):
            so_far = sums.setdefault(part, [0.0] * 5)
            largest = max(so_far[2], found[2])
            sums[part] = [a + b for a, b in zip(so_far, found, strict=True)]
            sums[part][2] = largest
    return {
        part: {
            "l2": math.sqrt(moved),
            "relative": math.sqrt(moved / length) if length else None,
            "largest": largest,
            "changed": changed / count if count else 0.0,
        }
        for part, (moved, length, largest, changed, count) in sums.items()
    }


def _order(name: str) -> tuple[int, int, str]:
    """Embeddings first, then the layers by number, then the rest."""
    part = part_of(name)
    if part.startswith("layer"):
        return 1, int(part.split()[1]), name
    return (0 if part == "embeddings" else 2), 0, name
