"""The processes of ``torch.distributed``: shares of the work, sums and lists over all of it.

Every process runs the same program on the same data and takes the same decisions. What is costly,
sampling and passes of the model, is shared out, and the results are gathered; so the numbers do not
depend on how many processes there are. A launcher (``accelerate launch``, ``torchrun``) starts
them, and ``joined`` makes the process group, gloo or nccl. Every process must call these functions
in the same order. One process sends nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import ArrayLike
from torch import nn

from agents.core.advantages import FloatArray
from agents.core.config import BaseConfig

_Item = TypeVar("_Item")


@contextmanager
def joined() -> Iterator[None]:
    """Makes this process one of those that a launcher started; nothing without a launcher.

    Accelerate picks device and backend, from what ``accelerate launch`` or ``torchrun`` say.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or world_size() > 1:
        yield
        return
    from accelerate import PartialState  # type: ignore[import-untyped]

    state = PartialState()
    try:
        yield
    finally:
        state.destroy_process_group()


def world_size() -> int:
    """Returns the number of processes; 1 where ``torch.distributed`` is not initialised.

    >>> world_size()
    1
    """
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Returns the number of this process, from 0; the first one alone writes.

    >>> rank()
    0
    """
    return dist.get_rank() if world_size() > 1 else 0


def blocks(costs: Sequence[float], parts: int, together: Sequence[int] = ()) -> list[range]:
    """Cuts a sequence into consecutive blocks of about the same cost.

    Args:
        costs: Of each item, each >= 0.
        parts: How many blocks; some may be empty.
        together: A number of each item; neighbours of the same number stay in one block. Empty:
            each item may stand alone.

    >>> blocks([1, 1, 1, 1, 4], 2)
    [range(0, 4), range(4, 5)]
    >>> blocks([1, 1, 1, 1, 4], 2, [0, 0, 0, 1, 1])
    [range(0, 3), range(3, 5)]
    """
    count = len(costs)
    borders = [
        place
        for place in range(count + 1)
        if place in (0, count) or not together or together[place] != together[place - 1]
    ]
    spent = [0.0, *accumulate(float(cost) for cost in costs)]
    cuts = [0]
    for part in range(1, parts):
        target = spent[-1] * part / parts
        cuts.append(min(borders, key=lambda border: (abs(spent[border] - target), border)))
    return [range(begin, end) for begin, end in pairwise([*cuts, count])]


def own_share(items: Sequence[_Item]) -> list[_Item]:
    """Returns the part of some items that this process works on: consecutive ones.

    >>> own_share([3, 5, 6])
    [3, 5, 6]
    """
    size, number = world_size(), rank()
    return list(items[len(items) * number // size : len(items) * (number + 1) // size])


def all_gathered(items: list[_Item]) -> list[_Item]:
    """Returns the items of all processes, those of the first one first.

    >>> all_gathered([1, 2])
    [1, 2]
    """
    if world_size() == 1:
        return items
    lists: list[list[_Item]] = [[] for _ in range(world_size())]
    dist.all_gather_object(lists, items)
    return [item for found in lists for item in found]


def on_first(action: Callable[[], _Item]) -> _Item:
    """Returns what an action of the first process returns; the others wait for it.

    Raises:
        SystemExit: On the others, if it fails on the first one, which raises its own error.

    >>> on_first(lambda: 3)
    3
    """
    if world_size() == 1:
        return action()
    error: BaseException | None = None
    found: list[tuple[int | None, _Item | None]] = [(None, None)]
    if rank() == 0:
        try:
            found = [(None, action())]
        except BaseException as caught:
            code = caught.code if isinstance(caught, SystemExit) else 1
            error, found = caught, [(code if isinstance(code, int) else 1, None)]
    dist.broadcast_object_list(found, src=0)
    if error is not None:
        raise error
    status, result = found[0]
    if status is not None:
        raise SystemExit(status)
    return result  # type: ignore[return-value]  # the action's own, where there is no status


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

    >>> config = BaseConfig(minibatch_size=2, updates_per_batch=1)
    >>> [len(part) for part in minibatches([3, 5, 6], np.random.default_rng(0), config)]
    [2, 1]
    """
    size, result = config.minibatch_size, []
    for _ in range(config.updates_per_batch):
        order = [rows[place] for place in rng.permutation(len(rows))]
        result += [order[start : start + size] for start in range(0, len(order), size)]
    return result


def _reduced(numbers: ArrayLike, how: str) -> FloatArray:
    tensor = torch.as_tensor(numbers, dtype=torch.float64).clone()
    if world_size() > 1:
        if dist.get_backend() == "nccl":  # which sends only what is on a GPU
            tensor = tensor.cuda()
        dist.all_reduce(tensor, getattr(dist.ReduceOp, how))
    result: FloatArray = tensor.cpu().numpy()
    return result
