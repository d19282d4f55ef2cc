"""The files of an evaluation: every sample as a JSON line, so that it can go on after any end."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.core.disk import write_atomically
from agents.core.run_folder import plain_value

SAMPLES, RESULTS, OPTIONS = "samples.jsonl", "evaluation.json", "options.json"


def claim_folder(folder: Path, options: Mapping[str, Any]) -> None:
    """Writes what an evaluation depends on, or checks that the folder holds the same evaluation.

    Raises:
        ValueError: The folder holds another evaluation, or something else; names an option that
            differs.
    """
    path, plain = folder / OPTIONS, plain_value(options)
    if not path.exists():
        if (folder / SAMPLES).exists():
            raise ValueError(f"{folder} has {SAMPLES} but no {OPTIONS}. Pass another --output_dir.")
        write_atomically(path, json.dumps(plain, indent=2, allow_nan=False) + "\n")
        return
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}. Pass another --output_dir.") from error
    if held != plain:
        held = held if isinstance(held, dict) else {}
        name = next(key for key in [*plain, *held] if held.get(key) != plain.get(key))
        raise ValueError(
            f"{folder} holds an evaluation with {name}={held.get(name)!r}, not "
            f"{plain.get(name)!r}. Pass another --output_dir."
        )


class SampleFile:
    """``samples.jsonl``: whole blocks of lines, in the order of the work.

    Attributes:
        rows: The lines of the blocks that are done, as JSON objects.
    """

    def __init__(self, path: Path, blocks: Sequence[Sequence[tuple[Any, ...]]]) -> None:
        """Reads what is done, and cuts the file back to its last whole block.

        Args:
            path: The file; made where it is missing.
            blocks: The keys of all lines to come, block by block: the whole work.

        Raises:
            OSError: The file cannot be read or written.
        """
        self.rows: list[dict[str, Any]] = []
        self._path, self.done = path, 0
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        at = size = 0
        for block in blocks:
            found = [_row(line) for line in lines[at : at + len(block)]]
            if [row and key_of(row) for row in found] != list(block):
                break
            size += sum(map(len, lines[at : at + len(block)]))
            self.rows += [row for row in found if row is not None]
            at, self.done = at + len(block), self.done + 1
        if path.exists() and path.stat().st_size != size:
            os.truncate(path, size)

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds a block and forces it to disk."""
        plain = [plain_value(row) for row in rows]
        text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in plain)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self.rows += plain
        self.done += 1


def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns what tells a line from all others: checkpoint, split, temperature, place, sample."""
    return tuple(row.get(name) for name in ("iteration", "split", "temperature", "slot", "sample"))


def _row(line: bytes) -> dict[str, Any] | None:
    """Returns a line that is whole and looks like a sample, else None."""
    try:
        row = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    kinds = {"extracted": str, "verdict": str, "right": float, "num_tokens": int}
    fine = isinstance(row, dict) and all(isinstance(row.get(k), t) for k, t in kinds.items())
    return row if fine else None
