"""The other end of ``graders.pool``: ``python -m graders.worker MEGABYTES MODULE``.

It talks in frames over standard streams. A frame is four bytes of length and a pickle, exchanged
only between a parent and its own child.
"""

from __future__ import annotations

import importlib
import os
import pickle
import struct
import sys
from typing import Any, BinaryIO

from graders.base import Grade, Verdict


def write_frame(stream: BinaryIO, value: object) -> None:
    """Writes one value."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(struct.pack("<I", len(data)) + data)
    stream.flush()


def read_frame(stream: BinaryIO) -> Any:
    """Reads one value; EOFError at the end of the stream."""
    header = stream.read(4)
    if len(header) < 4:
        raise EOFError
    (size,) = struct.unpack("<I", header)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


def limit_memory(megabytes: int) -> None:
    """Caps the address space of this process, where the platform can."""
    try:
        import resource
    except ImportError:
        return
    size = megabytes << 20
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def run_task(task: tuple[Any, ...], stream: BinaryIO) -> None:
    """Runs one task and writes its results: one frame for each pair, or one for a proof."""
    if task[0] == "prove":
        from graders.symbolic import prove

        write_frame(stream, prove(task[1], task[2]))
        return
    _, grader, pairs = task
    for completion, answer in pairs:
        try:
            grade = grader(completion, answer)
        except MemoryError:
            grade = Grade(0.0, Verdict.UNDECIDED)
        write_frame(stream, grade)


def main() -> None:
    """Serves tasks until the parent closes the stream."""
    source = sys.stdin.buffer
    target = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not break frames
    from graders import pool

    pool.mark_worker()
    limit_memory(int(sys.argv[1]))
    importlib.import_module(sys.argv[2])  # a grade's clock does not run while this loads
    write_frame(target, "ready")
    while True:
        try:
            task = read_frame(source)
        except EOFError:
            return
        run_task(task, target)


if __name__ == "__main__":
    main()
