r"""Grading in worker processes: a wall limit, a memory limit, and restarts after a crash.

Verdicts are decided by work counters (``graders.limits``); the wall limit is the backstop, and a
grade that meets it is UNDECIDED and logged. A worker is a fresh interpreter, so that this works
in threads and under any trainer: no signals, no fork, no re-import of the user's main module.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from graders.base import Grade, Grader, Verdict
from graders.nodes import Node
from graders.worker import read_frame, write_frame

WALL_SECONDS = 15.0
"""Wall limit of one grade in a worker, more than ten times the slowest normal one."""

MEMORY_MEGABYTES = 2048
"""Address space of one worker."""

START_SECONDS = 120.0
"""How long a worker may take to start; grading's clock starts after that."""

_CHUNK = 64
_LOG = logging.getLogger(__name__)


class WorkerDiedError(Exception):
    """The worker process ended, or was ended at the wall limit (``timed_out``)."""

    def __init__(self, timed_out: bool) -> None:
        """Says whether the wall limit ended it."""
        super().__init__("wall limit reached" if timed_out else "worker process died")
        self.timed_out = timed_out


class Worker:
    """One worker process, started when first needed and again after it died."""

    def __init__(
        self,
        wall_seconds: float = WALL_SECONDS,
        memory_megabytes: int = MEMORY_MEGABYTES,
        preload: str = "graders.math_grader",
    ) -> None:
        """Stores the limits and the module to import at the start; starts nothing."""
        self.preload = preload
        self.wall_seconds = wall_seconds
        self.memory_megabytes = memory_megabytes
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process and waits until it is ready."""
        if self.process is not None and self.process.poll() is None:
            return
        self.close()
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "graders.worker", str(self.memory_megabytes), self.preload],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
            )  # fmt: skip
        except OSError as error:
            raise WorkerDiedError(timed_out=False) from error
        self.receive(START_SECONDS)

    def send(self, task: tuple[Any, ...]) -> None:
        """Starts the process if need be and hands it a task."""
        self.start()
        assert self.process is not None and self.process.stdin is not None
        try:
            write_frame(self.process.stdin, task)  # type: ignore[arg-type]  # IO[bytes]
        except OSError as error:
            self.close()
            raise WorkerDiedError(timed_out=False) from error

    def receive(self, seconds: float | None = None) -> Any:
        """The next result; raises WorkerDiedError after ``seconds`` without one."""
        process = self.process
        assert process is not None and process.stdout is not None
        limit = self.wall_seconds if seconds is None else seconds
        ready, _, _ = select.select([process.stdout], [], [], limit)
        if not ready:
            self.close()
            raise WorkerDiedError(timed_out=True)
        try:
            return read_frame(_Unbuffered(process.stdout.fileno()))  # type: ignore[arg-type]
        except (EOFError, OSError) as error:
            self.close()
            raise WorkerDiedError(timed_out=False) from error

    def close(self) -> None:
        """Ends the process."""
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # a broken pipe has nothing left to flush
                    continue
        process.wait()


class _Unbuffered:
    """Reads exactly what is asked from a descriptor, so that ``select`` sees what is left."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = os.read(self.descriptor, size - len(data))
            if not piece:
                break
            data += piece
        return data


class GradingPool:
    """Grades pairs in several worker processes; a context manager.

    Args:
        grader: A grader that can be pickled: a function or object of an importable module.
        workers: Number of processes, at least 1.
        wall_seconds: Wall limit of one grade.
        memory_megabytes: Address space of one worker.
    """

    def __init__(
        self, grader: Grader, workers: int = 2, wall_seconds: float = WALL_SECONDS,
        memory_megabytes: int = MEMORY_MEGABYTES,
    ) -> None:  # fmt: skip
        """Stores the limits; processes start with the first call of ``grade_many``."""
        if workers < 1:
            raise ValueError(f"workers must be >= 1, got {workers}; use grade_many(workers=0)")
        self.grader = grader
        self.workers = [Worker(wall_seconds, memory_megabytes) for _ in range(workers)]

    def __enter__(self) -> GradingPool:
        """Returns itself."""
        return self

    def __exit__(self, *details: object) -> None:
        """Ends the workers."""
        self.close()

    def close(self) -> None:
        """Ends the worker processes."""
        for worker in self.workers:
            worker.close()

    def grade_many(self, pairs: Iterable[tuple[str, str]]) -> list[Grade]:
        """Grades (completion, answer) pairs; the results are in order and none is lost.

        A pair whose worker dies is tried once more; if that one dies too, it is UNDECIDED. So is
        a pair that meets the wall limit.
        """
        todo = list(pairs)
        results: list[Grade | None] = [None] * len(todo)
        chunks: queue.SimpleQueue[int] = queue.SimpleQueue()
        for start in range(0, len(todo), _CHUNK):
            chunks.put(start)
        errors: list[BaseException] = []

        def drive(worker: Worker) -> None:
            try:
                while not errors:
                    start = chunks.get_nowait()
                    self._chunk(worker, todo, results, start, min(start + _CHUNK, len(todo)))
            except queue.Empty:
                return
            except BaseException as error:  # handed to the caller below
                errors.append(error)

        threads = [threading.Thread(target=drive, args=(w,), daemon=True) for w in self.workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return [grade if grade is not None else Grade(0.0, Verdict.UNDECIDED) for grade in results]

    def _chunk(
        self, worker: Worker, todo: Sequence[tuple[str, str]], results: list[Grade | None],
        start: int, stop: int,
    ) -> None:  # fmt: skip
        tried = -1
        while start < stop:
            try:
                worker.send(("grade", self.grader, todo[start:stop]))
                while start < stop:
                    results[start] = worker.receive()
                    start += 1
            except WorkerDiedError as error:
                if error.timed_out or tried == start:
                    _LOG.warning("grade %d is undecided: %s", start, error)
                    results[start] = Grade(0.0, Verdict.UNDECIDED)
                    start += 1
                tried = start


def grade_many(
    pairs: Iterable[tuple[str, str]], grader: str | Grader = "math", workers: int = 0
) -> list[Grade]:
    r"""Grades (completion, answer) pairs, in order.

    Args:
        pairs: The completions with their reference answers.
        grader: A short name, ``"pkg.mod:attr"`` or a grader.
        workers: Worker processes; 0 grades in this process, which is the faster choice below
            some tens of thousands of pairs.

    >>> [g.score for g in grade_many([("\\boxed{4}", "2^2"), ("\\boxed{5}", "2^2")])]
    [1.0, 0.0]
    """
    from graders import get_grader

    function = get_grader(grader)
    if workers == 0:
        return [function(completion, answer) for completion, answer in pairs]
    with GradingPool(function, workers) as pool:
        return pool.grade_many(pairs)


class _Shared:
    """The worker that proofs of this process share."""

    lock = threading.Lock()
    worker: Worker | None = None
    owner = 0
    inside_worker = False


def mark_worker() -> None:
    """Notes that this process is a worker: proofs run right here."""
    _Shared.inside_worker = True


def warm_up() -> None:
    """Starts the worker for proofs ahead of time, so that no grade waits for it."""
    with _Shared.lock:
        try:
            _shared_worker().start()
        except WorkerDiedError as error:
            _LOG.warning("no worker for proofs: %s", error)


def _shared_worker() -> Worker:
    if _Shared.worker is None or _Shared.owner != os.getpid():
        _Shared.worker, _Shared.owner = Worker(preload="sympy"), os.getpid()
        atexit.register(_Shared.worker.close)
    return _Shared.worker


def prove_in_worker(left: Node, right: Node) -> bool | None:
    """Runs ``graders.symbolic.prove`` in a worker process; None where a limit was met."""
    if _Shared.inside_worker:
        from graders.symbolic import prove

        return prove(left, right)
    with _Shared.lock:
        worker = _shared_worker()
        for _ in range(2):
            start = time.monotonic()
            try:
                worker.send(("prove", left, right))
                return worker.receive()  # type: ignore[no-any-return]  # a verdict
            except WorkerDiedError as error:
                _LOG.warning("proof undecided: %s after %.1f s", error, time.monotonic() - start)
                if error.timed_out:
                    return None
    return None
