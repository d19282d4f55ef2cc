"""Ctrl-C: once asks for a clean end, twice stops at once."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Stopped(Exception):
    """Raised inside a phase that can be given up: an evaluation, a rollout."""


class Interrupt:
    """Turns the first Ctrl-C of a ``with`` block into a flag; the second raises as usual.

    Outside the main thread signals cannot be caught, and the flag stays False.
    """

    def __init__(self) -> None:
        """Starts with the flag down."""
        self._requested = False
        self._before: Any = None

    def requested(self) -> bool:
        """Returns whether Ctrl-C was pressed."""
        return self._requested

    def check(self) -> None:
        """Raises Stopped if Ctrl-C was pressed."""
        if self._requested:
            raise Stopped

    def __enter__(self) -> Self:
        """Catches SIGINT from here on."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Gives SIGINT back to whoever had it."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._requested:
            raise KeyboardInterrupt
        self._requested = True
        sys.stderr.write("\nstopping; what was learned is saved. Ctrl-C again stops at once.\n")
