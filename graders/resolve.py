"""The one resolver of plug-in names: a table of short names, else ``pkg.mod:attr``."""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Iterable, Mapping
from typing import Any


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns a hint for a misspelt name: ``" Did you mean 'x'?"``, or an empty string.

    >>> nearest("newlin", ["newline", "fixed_tokens"])
    " Did you mean 'newline'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def resolve(name: str, table: Mapping[str, str], kind: str) -> Any:
    """Returns the object that ``name`` stands for.

    Args:
        name: A key of ``table``, or ``"pkg.mod:attr"`` for an object of the user's own.
        table: Short names to ``"pkg.mod:attr"`` strings, so that nothing is imported early.
        kind: What is being looked up, for the error message ("grader", "segmenter", ...).

    Raises:
        ValueError: The name is neither in the table nor importable; the nearest name is suggested.

    >>> resolve("sqrt", {"sqrt": "math:sqrt"}, "function")(9.0)
    3.0
    """
    target = table.get(name, name)
    if ":" not in target:
        raise ValueError(
            f"unknown {kind} {name!r}.{nearest(name, table)} Known: {', '.join(sorted(table))}; "
            "or pass 'pkg.mod:attr' for one of your own."
        )
    try:
        return pkgutil.resolve_name(target)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"cannot import {kind} {name!r}: {error}. Write it as 'pkg.mod:attr' and run where "
            "'pkg' can be imported."
        ) from error
