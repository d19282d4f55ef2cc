"""Micro-batches: rows of like length, as many as memory holds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")


def micro_batches(lengths: Sequence[int], rows: Sequence[int], size: int) -> Iterator[list[int]]:
    """Cuts rows into micro-batches of like length, to spare padding.

    >>> list(micro_batches([5, 1, 4, 2], [0, 1, 2, 3], 2))
    [[1, 3], [2, 0]]
    """
    order = sorted(rows, key=lambda row: (lengths[row], row))
    for start in range(0, len(order), size):
        yield order[start : start + size]


class MicroBatchSize:
    """How many rows a pass takes; halved when memory runs out, for the rest of the run.

    The update does not depend on it, up to float rounding.

    Attributes:
        value: Rows a pass at most.
    """

    def __init__(self, value: int) -> None:
        """Starts with the configured size."""
        self.value = value

    def fitting(self, attempt: Callable[[], _Result], reset: Callable[[], None]) -> _Result:
        """Returns what ``attempt`` returns; where memory runs out, again with smaller passes.

        Args:
            attempt: Makes passes of ``self.value`` rows.
            reset: Undoes what an attempt that failed has done.

        Raises:
            RuntimeError: Memory does not hold a single row, or another error of ``attempt``.

        >>> size, tried = MicroBatchSize(8), []
        >>> def attempt():
        ...     tried.append(size.value)
        ...     if size.value > 2:
        ...         raise MemoryError
        ...     return "done"
        >>> size.fitting(attempt, lambda: None), tried
        ('done', [8, 4, 2])
        """
        while True:
            try:
                return attempt()
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if self.value == 1:
                    raise RuntimeError(
                        f"out of memory with one answer a pass: {str(error).splitlines()[:1]}. "
                        "Use --gradient_checkpointing, --lora_r or --bf16, or lower "
                        "--max_new_tokens."
                    ) from error
            # Outside the handler, whose traceback holds the tensors of the pass that failed.
            reset()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            _LOG.warning(
                "out of memory: micro_batch_size is %d from now on, half of %d; the results "
                "agree up to rounding",
                self.value // 2,
                self.value,
            )
            self.value //= 2


def out_of_memory(error: Exception) -> bool:
    """Returns whether an error says that memory ran out, of a device or of the machine.

    >>> out_of_memory(MemoryError()), out_of_memory(RuntimeError("shape mismatch"))
    (True, False)
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error)
    return "out of memory" in text or "can't allocate memory" in text
