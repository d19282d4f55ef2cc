"""Packing: several examples in one row, each attending to itself only.

Positions restart at each example. From that transformers makes the block-diagonal mask, for models
whose attention asks for one; ``check_packing`` tries whether a model's does.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from agents.core.policy import Policy, Sequences

_TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-3}  # else bfloat16's: 5e-2


def pack(lengths: Sequence[int], limit: int) -> list[list[int]]:
    """Returns which examples share a row: the longest first, each in the first row with room.

    Args:
        lengths: Tokens of each example.
        limit: Tokens a row may have; a longer example has a row of its own.

    >>> pack([5, 3, 6, 2, 9], 8)
    [[4], [2, 3], [0, 1]]
    """
    rows: list[list[int]] = []
    used: list[int] = []
    for example in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        length = lengths[example]
        row = next((row for row, taken in enumerate(used) if taken + length <= limit), len(rows))
        if row == len(rows):
            rows.append([])
            used.append(0)
        rows[row].append(example)
        used[row] += length
    return rows


def packed(
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
    rows: Sequence[Sequence[int]],
    device: torch.device,
) -> Sequences:
    """Returns a batch whose rows hold several examples, their responses one after another.

    Args:
        prompts: Token ids before each response, at least one.
        responses: Token ids, at least one.
        rows: Which examples each row holds; where all hold one it is ``Sequences.of``.
        device: Where the tensors go.

    >>> batch = packed([[1, 2], [3]], [[7, 8], [9]], [[0, 1]], torch.device("cpu"))
    >>> batch.tokens.tolist(), batch.source.tolist(), batch.positions.tolist()
    ([[1, 2, 7, 8, 3, 9]], [[1, 2, 4]], [[0, 1, 2, 3, 0, 1]])
    """
    if all(len(row) == 1 for row in rows):
        alone = [row[0] for row in rows]
        return Sequences.of([prompts[i] for i in alone], [responses[i] for i in alone], device)
    columns: list[list[list[int]]] = [[], [], [], []]
    for row in rows:
        tokens: list[int] = []
        source: list[int] = []
        positions: list[int] = []
        for i in row:
            start, length = len(tokens) + len(prompts[i]), len(responses[i])
            tokens += [*prompts[i], *responses[i]]
            source += range(start - 1, start - 1 + length)
            positions += range(len(prompts[i]) + length)
        targets = [token for i in row for token in responses[i]]
        for column, values in zip(columns, (tokens, source, targets, positions), strict=True):
            column.append(values)
    # A padding token is at position 0, and so an example of its own.
    padded = [_padded(column, device) for column in columns]
    counts = torch.tensor([[len(targets)] for targets in columns[2]], device=device)
    mask = torch.arange(padded[2].shape[1], device=device) < counts
    return Sequences(padded[0], padded[1], padded[2], mask, positions=padded[3])


def check_packing(policy: Policy) -> None:
    """Tries whether packed examples have the hidden states that they have alone.

    Raises:
        ValueError: They have others, or the model takes no positions.
    """
    prompts, responses = [[1, 2], [3], [2, 3, 1], [1]], [[3, 1], [2, 1, 2], [1], [2, 3]]
    device, rows = policy.device, [[0, 1], [2, 3]]  # two rows: some kernels pack only in one
    try:
        with torch.no_grad():
            together = policy.hidden(packed(prompts, responses, rows, device)).double()
            apart = policy.hidden(Sequences.of(prompts, responses, device)).double()
        exact_enough = _TOLERANCES.get(policy.model.dtype, 5e-2) if not policy.bf16 else 5e-2
        same = bool((together - apart).norm() <= exact_enough * apart.norm())
    except TypeError:
        same = False
    if not same:
        raise ValueError(
            f"packing is not exact for {type(policy.model).__name__}: an example would see those "
            "before it in its row. Set packing to false."
        )


def _padded(rows: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
    """Returns rows of ids as one tensor, long, 0 beyond."""
    result = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.long)
    for place, row in enumerate(rows):
        result[place, : len(row)] = torch.tensor(row, dtype=torch.long)
    return result.to(device)
