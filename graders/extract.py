"""The final answer inside a completion."""

from __future__ import annotations


def hash_answer(text: str) -> str | None:
    r"""Returns what follows the last ``####`` on its line, or None where there is no mark.

    >>> hash_answer("2 + 2 = 4\n#### 4 apples\n")
    '4 apples'
    """
    _, mark, rest = text.rpartition("####")
    if not mark:
        return None
    rest = rest.strip()
    return rest.partition("\n")[0].strip()
