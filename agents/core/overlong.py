"""What an answer pays that comes near the end of its budget."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OverlongPenalty:
    """DAPO's soft overlong punishment (arXiv 2503.14476, eq. 13): length costs near the budget.

    It depends on what the whole episode has left, so that a rollout from a restored state pays what
    the whole answer would.

    Attributes:
        buffer_len: The last tokens of the budget, in which it grows linearly; 0: there is none.
        factor: What an answer pays that has spent its whole budget, in units of reward.

    >>> [OverlongPenalty(4, 2.0).of(left) for left in (5, 4, 3, 0)]
    [0.0, 0.0, -0.5, -2.0]
    """

    buffer_len: int = 0
    factor: float = 1.0

    def of(self, left: int) -> float:
        """Returns the penalty, <= 0, of an answer that ends with ``left`` tokens to spare."""
        if left >= self.buffer_len:
            return 0.0
        return (left - self.buffer_len) / self.buffer_len * self.factor


NO_PENALTY = OverlongPenalty()
