"""Writing files so that a crash or a power cut leaves the old content or the new, nothing else."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Writes a file beside ``path``, forces it to disk and renames it into place."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    force_folder_to_disk(path.parent)


def force_to_disk(path: Path) -> None:
    """Returns when the content of a file is on disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def force_folder_to_disk(folder: Path) -> None:
    """Makes renames and new names in a folder survive a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
