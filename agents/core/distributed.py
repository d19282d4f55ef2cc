"""Shares of, and sums over, the processes of ``torch.distributed``; one process sends nothing.

A launcher (``accelerate launch``, ``torchrun``) starts the processes, and who calls us initialises
the process group, gloo or nccl. Every process must call these functions in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import ArrayLike
from torch import nn

from agents.core.advantages import FloatArray
from agents.core.config import BaseConfig


def world_size() -> int:
    """Returns the number of processes; 1 where ``torch.distributed`` is not initialised.

    >>> world_size()
    1
    """
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def all_sum(numbers: ArrayLike) -> FloatArray:
    """Returns the sums of numbers over all processes, float64, in the shape of ``numbers``.

    >>> all_sum([2, 3.5]).tolist()
    [2.0, 3.5]
    """
    return _reduced(numbers, "SUM")


def all_max(number: float) -> float:
    """Returns the largest of a number over all processes.

    >>> all_max(1.5)
    1.5
    """
    return float(_reduced(number, "MAX"))


def sum_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Sums the gradients over all processes, in place.

    A process that has none counts as 0; where no process has one, it stays None.

    Args:
        parameters: The same on every process, in the same order.
    """
    if world_size() == 1:
        return
    known = all_sum([parameter.grad is not None for parameter in parameters])
    for parameter, holders in zip(parameters, known, strict=True):
        if holders:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)


def minibatches(
    rows: Sequence[int], rng: np.random.Generator, config: BaseConfig
) -> list[list[int]]:
    """Shuffles rows and cuts them into minibatches, once for each pass over them.

    All processes get equally many, each its part in proportion to its rows: a minibatch of them all
    may miss ``config.minibatch_size`` by a few rows where shares are uneven.

    >>> config = BaseConfig(minibatch_size=2, updates_per_batch=1)
    >>> [len(part) for part in minibatches([3, 5, 6], np.random.default_rng(0), config)]
    [2, 1]
    """
    total, size = int(all_sum(len(rows))), config.minibatch_size
    result = []
    for _ in range(config.updates_per_batch):
        order = [rows[place] for place in rng.permutation(len(rows))]
        ends = [min(start, total) for start in range(0, total + size, size)]
        cuts = [round(len(order) * end / total) for end in ends] if total else []
        result += [order[start:end] for start, end in pairwise(cuts)]
    return result


def _reduced(numbers: ArrayLike, how: str) -> FloatArray:
    tensor = torch.as_tensor(numbers, dtype=torch.float64).clone()
    if world_size() > 1:
        if dist.get_backend() == "nccl":  # which sends only what is on a GPU
            tensor = tensor.cuda()
        dist.all_reduce(tensor, getattr(dist.ReduceOp, how))
    result: FloatArray = tensor.cpu().numpy()
    return result
