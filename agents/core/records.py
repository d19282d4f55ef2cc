"""What a run reports: an accuracy with its interval, a sample answer, seconds and tokens."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from graders.resolve import nearest

CLOCK_PHASES = ("rollout", "value", "grade", "update", "evaluate")
_PHASE_NAMES = {
    **{name: name for name in CLOCK_PHASES},
    "values": "value",
    "evaluation": "evaluate",
}
_COUNTED = ("seconds", "cpu_seconds", "tokens")
_Z95 = 1.959963984540054


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval.

    Attributes:
        mean: The estimate, a fraction.
        low: Lower end of the interval.
        high: Upper end of the interval.
        n: How many problems it rests on.
    """

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        """Returns for example ``41.0 % (35.2 to 47.1)``."""
        return f"{self.mean:.1%} ({100 * self.low:.1f} to {100 * self.high:.1f})".replace("%", " %")


def accuracy_interval(scores: Sequence[Sequence[float]]) -> Interval:
    """Returns mean accuracy and its 95 % interval over problems.

    Every problem counts the same; its score is the mean over its own answers. The interval is
    Wilson's, with the effective number of trials that makes the binomial variance equal the
    observed variance between problems: ``m = p (1 - p) n / s^2``. With one answer a problem this is
    Wilson's interval with m = n; ``m`` never exceeds the number of answers. It has a width at 0
    and 1 too, and nothing random in it.

    Args:
        scores: For each problem the scores of its answers, each in [0, 1].

    Raises:
        ValueError: No problem, a problem without an answer, or a score outside [0, 1].

    >>> print(accuracy_interval([[1.0], [0.0], [1.0], [1.0]]))
    75.0 % (30.1 to 95.4)
    """
    if not scores or not all(len(answers) for answers in scores):
        raise ValueError("accuracy needs at least one problem, and one answer for each problem")
    if not all(0.0 <= score <= 1.0 for answers in scores for score in answers):
        raise ValueError("accuracy needs scores between 0 and 1")
    means = [math.fsum(answers) / len(answers) for answers in scores]
    n = len(means)
    p = math.fsum(means) / n
    variance = math.fsum((mean - p) ** 2 for mean in means) / n
    answers = sum(map(len, scores))
    spread = p * (1 - p)
    m = min(spread * n / variance, answers) if variance > 1e-15 else answers
    if spread == 0.0:
        m = n
    centre = (p + _Z95**2 / (2 * m)) / (1 + _Z95**2 / m)
    half = _Z95 / (1 + _Z95**2 / m) * math.sqrt(spread / m + _Z95**2 / (4 * m**2))
    return Interval(p, max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half)), n)


@dataclass(frozen=True)
class Sample:
    """One answer of the policy, step by step; all texts are model output or data, never trusted.

    Attributes:
        question: The problem's text.
        steps: The answer's steps as text; joined they are the answer.
        advantages: One advantage per step.
        values: The estimated value of the state before each step; empty if there is none.
        reward: The reward at the end.
        reference: The reference answer, empty if unknown.
    """

    question: str
    steps: tuple[str, ...]
    advantages: tuple[float, ...]
    values: tuple[float, ...]
    reward: float
    reference: str = ""

    def __post_init__(self) -> None:
        """Checks that there is one advantage a step, and one value a step or none."""
        if len(self.advantages) != len(self.steps):
            raise ValueError(
                f"a sample needs one advantage per step, got {len(self.advantages)} "
                f"for {len(self.steps)} steps"
            )
        if self.values and len(self.values) != len(self.steps):
            raise ValueError(
                f"a sample needs one value per step or none, got {len(self.values)} "
                f"for {len(self.steps)} steps"
            )

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as a plain dict, for a line of ``samples.jsonl``."""
        return asdict(self)


@dataclass
class PhaseClock:
    """Seconds of wall-clock and CPU, and tokens, by phase.

    While one phase runs inside another (grading inside a rollout) only the inner one's clock runs,
    so that the phases add up. CPU seconds are this process's own, all threads together.

    Attributes:
        seconds: Wall-clock seconds by phase (``CLOCK_PHASES``).
        cpu_seconds: CPU seconds by phase.
        tokens: Tokens by phase.
    """

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CLOCK_PHASES, 0.0))
    cpu_seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CLOCK_PHASES, 0.0))
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLOCK_PHASES, 0))
    _running: list[str] = field(default_factory=list)
    _mark: tuple[float, float] = (0.0, 0.0)

    def state(self) -> dict[str, Any]:
        """Returns what was counted, for a checkpoint."""
        return {name: dict(getattr(self, name)) for name in _COUNTED}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Counts on from what ``state`` returned."""
        for name in _COUNTED:
            getattr(self, name).update(state[name])

    @contextmanager
    def run(self, name: str) -> Iterator[str]:
        """Runs phase ``name``'s clock; yields the phase's name in ``CLOCK_PHASES``.

        Raises:
            ValueError: There is no such phase.
        """
        if name not in _PHASE_NAMES:
            raise ValueError(f"unknown phase {name!r}.{nearest(name, _PHASE_NAMES)}")
        self._charge()
        self._running.append(_PHASE_NAMES[name])
        try:
            yield self._running[-1]
        finally:
            self._charge()
            self._running.pop()

    def _charge(self) -> None:
        """Adds the time since the last mark to the innermost running phase."""
        now = (time.perf_counter(), time.process_time())
        if self._running:
            self.seconds[self._running[-1]] += now[0] - self._mark[0]
            self.cpu_seconds[self._running[-1]] += now[1] - self._mark[1]
        self._mark = now
