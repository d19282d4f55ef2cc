"""Counter-based random streams: a draw depends on its key and position, on nothing before it.

A stream is a 64-bit key made from what the sample is: run seed, iteration, prompt slot, purpose,
start state and ordinal. Number ``position`` of a stream is a hash of key and position (splitmix64),
so a result depends neither on what else is in the batch nor on order, and nothing has to be saved
to resume. Source of the mixing function: Steele, Lea and Flood, "Fast splittable pseudorandom
number generators", 2014.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def stream_key(*parts: int | str | Iterable[int]) -> int:
    """Returns the 64-bit key of a stream, a hash of its parts in order.

    Args:
        parts: Integers (signed 64 bits), strings, and token sequences.

    >>> stream_key(0, 1, "rollout", [3, 4]) == stream_key(0, 1, "rollout", [3, 4])
    True
    >>> stream_key(0, 1, "rollout", [3, 4]) == stream_key(0, 1, "rollout", [3], [4])
    False
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        if isinstance(part, str):
            data, tag = part.encode("utf-8", "surrogatepass"), b"s"
        elif isinstance(part, int):
            data, tag = struct.pack("<q", part), b"i"
        else:
            data, tag = np.asarray(list(part), dtype=np.int64).tobytes(), b"t"
        digest.update(tag + struct.pack("<q", len(data)) + data)
    return int.from_bytes(digest.digest(), "little")


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * _MIX_1
    values = (values ^ (values >> np.uint64(27))) * _MIX_2
    return values ^ (values >> np.uint64(31))


def uniforms(keys: NDArray[np.uint64], positions: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Returns one number in [0, 1) for each (key, position).

    Args:
        keys: Stream keys, uint64, shape [B].
        positions: Counters, uint64, shape [B] or broadcastable to it.
    """
    counters = (np.atleast_1d(positions) + np.uint64(1)) * _GAMMA  # arrays wrap, scalars warn
    bits = _mix(_mix(keys) + counters)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def generator(*parts: int | str | Iterable[int]) -> np.random.Generator:
    """Returns a numpy generator for draws that are not per token (shuffles, problem order)."""
    return np.random.Generator(np.random.Philox(key=stream_key(*parts)))
