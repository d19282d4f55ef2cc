"""Rows of JSON-lines files and of the hub, each with the place to name in an error."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

MAX_LINE = 2**22
"""Longest line of a file in bytes: a problem is a page, not a book."""

Row = tuple[str, dict[str, Any]]
"""File and line, and the line's JSON object."""


def jsonl_rows(path: Path) -> Iterator[Row]:
    r"""Yields the rows of a JSON-lines file; empty lines are skipped.

    Args:
        path: The file, UTF-8, one JSON object a line.

    Raises:
        ValueError: The file cannot be read, a line is too long or no JSON object; names the line.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.jsonl"
    >>> _ = path.write_text('{"x": 1}\n\n{"x": 2}\n')
    >>> [(where.rpartition(", ")[2], row) for where, row in jsonl_rows(path)]
    [('line 1', {'x': 1}), ('line 3', {'x': 2})]
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if line.strip():
                    where = f"{path}, line {number}"
                    yield where, _object(line.removeprefix(b"\xef\xbb\xbf"), where)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from error


def _object(line: bytes, where: str) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise ValueError(
            f"{where}: the line has more than {MAX_LINE:,} bytes. Write one JSON object a line."
        )
    try:
        row = json.loads(line)
    except RecursionError as error:
        raise ValueError(f"{where}: no JSON object: it is nested too deeply") from error
    except ValueError as error:
        raise ValueError(
            f"{where}: no JSON object: {error}. Write one object a line, in UTF-8."
        ) from error
    if not isinstance(row, dict):
        raise ValueError(
            f"{where}: expected a JSON object, got {type(row).__name__}. Write one object a line."
        )
    return row


def hub_rows(name: str, configs: Sequence[str], split: str, folder: str) -> Iterator[Row]:
    """Yields the rows of a data set of the hub, its configurations one after another.

    Args:
        name: The hub's name of it.
        configs: Its configurations.
        split: Which part of each.
        folder: What a local folder must hold instead, for the error message.

    Raises:
        ValueError: It cannot be loaded; says how to use local files.
    """
    number = 0
    for config in configs:
        try:
            from datasets import load_dataset  # type: ignore[import-untyped]

            rows = load_dataset(name, config, split=split)
        except Exception as error:  # datasets raises what its many back ends raise
            raise ValueError(
                f"cannot load {name}: {type(error).__name__}: {error} - pass data=FOLDER (--data "
                f"FOLDER on the command line), {folder}, or be online with the datasets package."
            ) from error
        for row in rows:
            yield f"{name}, {split}, row {number}", row
            number += 1


def folder_rows(folder: Path, part: str, what: str, layout: str) -> Iterator[Row]:
    """Yields the rows of ``folder/part.jsonl``.

    Args:
        folder: A folder of JSON-lines files.
        part: Which of them.
        what: What is being read, for the error message.
        layout: What the folder must hold, for the error message.

    Raises:
        ValueError: There is no such file, or it is broken.
    """
    path = folder / f"{part}.jsonl"
    if not path.is_file():
        missing = f"{path} does not exist" if folder.is_dir() else f"{folder} is no folder"
        raise ValueError(f"cannot read {what}: {missing}; data must be {layout}")
    yield from jsonl_rows(path)


def text_of(row: Mapping[str, Any], column: str, where: str) -> str:
    """Returns the text in a column.

    Raises:
        ValueError: It is missing, no text, or holds half of a surrogate pair.
    """
    value = row.get(column)
    if not isinstance(value, str):
        raise ValueError(
            f"{where}: column {column!r} is missing or no text; has {sorted(map(str, row))!s:.200}"
        )
    return checked_text(value, column, where)


def checked_text(text: str, column: str, where: str) -> str:
    r"""Returns ``text``, which every tokenizer can encode.

    Raises:
        ValueError: It holds half of a surrogate pair, as the JSON escape ``\ud83d`` alone does.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{where}: {column!r} holds half of a surrogate pair at character {error.start}; "
                "write the character itself, in UTF-8"
            ) from error
    return text


def scalar_text(value: object) -> str | None:
    """Returns text and numbers as text, anything else as None.

    >>> scalar_text(" x "), scalar_text(42), scalar_text(0.5), scalar_text(True), scalar_text([1])
    (' x ', '42', '0.5', None, None)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return repr(value)
