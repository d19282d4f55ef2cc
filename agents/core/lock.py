"""A run folder belongs to one process at a time."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

LOCK = ".lock"
_OWNER = ".owner.json"


class RunLock:
    """Holds a run folder for the time of a ``with`` block.

    The lock is the operating system's: it goes with the process that holds it, however that ends,
    so that no stale lock is ever in the way.
    """

    def __init__(self, folder: Path) -> None:
        """Stores the folder, which must exist when the block is entered."""
        self._folder = folder
        self._lock = FileLock(folder / LOCK)

    def __enter__(self) -> Self:
        """Takes the folder.

        Raises:
            ValueError: Another process holds it; says which.
            OSError: The lock cannot be written.
        """
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(
                f"{self._folder} is in use by {_owner(self._folder)}. Wait for it or stop it "
                "(Ctrl-C, SIGTERM), then use --resume; or pass another --output_dir."
            ) from None
        owner = {"pid": os.getpid(), "host": socket.gethostname()}
        (self._folder / _OWNER).write_text(json.dumps(owner), encoding="utf-8")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Gives the folder back; the files of the lock go, if the folder is still there."""
        for name in (_OWNER, LOCK):
            (self._folder / name).unlink(missing_ok=True)
        self._lock.release()


def _owner(folder: Path) -> str:
    """Returns who holds a folder, in words."""
    try:
        owner = json.loads((folder / _OWNER).read_text(encoding="utf-8"))
        return f"process {int(owner['pid'])} on {str(owner['host'])!r}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
