"""Ctrl-C and SIGTERM: once asks for a clean end, twice stops at once."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from agents.core.distributed import all_max, world_size


class Stopped(Exception):
    """Raised inside a phase that can be given up: an evaluation, a rollout."""


class Interrupt:
    """Turns the first signal of a ``with`` block into a flag; the second stops at once.

    SIGINT (Ctrl-C) and SIGTERM are caught. Outside the main thread signals cannot be caught, and
    the flag stays False.
    """

    def __init__(self) -> None:
        """Starts with the flag down."""
        self._signal: int | None = None  # of this process, or what all agreed on
        self._agreed: int | None = None
        self._before: dict[int, Any] = {}

    def requested(self) -> bool:
        """Returns whether a signal came; of several processes, whether they have agreed on it."""
        return self.came() if world_size() == 1 else self._agreed is not None

    def came(self) -> bool:
        """Returns whether a signal came to this process, whatever the others know."""
        return self._signal is not None

    def agree(self) -> bool:
        """Returns whether a signal came to any process; all must call it at the same place."""
        if world_size() > 1:
            self._agreed = int(all_max(self._signal or 0)) or None
        return self.requested()

    @property
    def status(self) -> int:
        """Exit status of the process, as a shell's: 130 after SIGINT, 143 after SIGTERM, else 0."""
        number = self._signal or self._agreed
        return 0 if number is None else 128 + number

    def check(self) -> None:
        """Raises Stopped if a signal came to any process; all must call it at the same place."""
        if self.agree():
            raise Stopped

    def __enter__(self) -> Self:
        """Catches the signals from here on."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Gives the signals back to whoever had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self._signal = self._signal is None, number
        if not first:
            raise KeyboardInterrupt
        again = "Ctrl-C again" if number == signal.SIGINT else "another signal"
        sys.stderr.write(f"\nstopping; what was learned is saved. {again} stops at once.\n")
