"""A state of an episode as a value: frozen, comparable, and free of the environment it came from.

Response tokens lie in an append-only array that a snapshot shares with the episode and with later
snapshots; a snapshot owns the first ``length`` of them. An episode that leaves a shared past copies
it first, so that an old snapshot never changes and a snapshot per token costs linear memory.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from lang_env.problem import Problem

SCHEMA_VERSION = 1
_HINT = "pass the text that Snapshot.to_json() wrote"
_INTS, _TEXTS = ("prompt", "response"), ("fingerprint", "rng_state")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended.

    Attributes:
        terminated: It ended by a stop token or a stop string.
        truncated: It ran out of budget; exactly one of the two is true.
        score: The reward of the last step.
        verdict: "correct", "wrong", "undecided", or "unfinished" for a truncated episode.
        extracted: The answer that the grader found, or an empty string.
    """

    terminated: bool
    truncated: bool
    score: float
    verdict: str
    extracted: str = ""

    def __post_init__(self) -> None:
        """Checks that the parts fit together."""
        if self.terminated == self.truncated:
            raise ValueError(
                "a finished episode is either terminated or truncated, got "
                f"terminated={self.terminated}, truncated={self.truncated}"
            )
        if not math.isfinite(self.score):
            raise ValueError(f"a score must be a finite number, got {self.score}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Snapshot:
    """One state of one episode; environments make them, ``of`` builds one from plain values.

    Equal states are ``==`` and have the same hash, whatever instance or process they came from.

    Attributes:
        problem: The problem of the episode.
        outcome: How the episode ended, or None while it is running.
        fingerprint: Hash of the vocabulary that the ids belong to.
        rng_state: The environment's random state as JSON, or an empty string if left out.
        version: Schema version of this value.
    """

    problem: Problem
    _prompt: array[int]
    _history: array[int]
    num_tokens: int
    outcome: Outcome | None
    fingerprint: str
    id_bound: int
    rng_state: str = ""
    version: int = SCHEMA_VERSION

    @classmethod
    def of(
        cls,
        problem: Problem,
        prompt: Sequence[int],
        response: Sequence[int],
        *,
        fingerprint: str,
        outcome: Outcome | None = None,
        rng_state: str = "",
        version: int = SCHEMA_VERSION,
    ) -> Snapshot:
        """Builds a snapshot from plain values.

        Args:
            problem: The problem.
            prompt: Prompt ids, at least one.
            response: Response ids.
            fingerprint: ``tokenizer.fingerprint``.
            outcome: How the episode ended, or None.
            rng_state: What ``snapshot(include_rng=True)`` stored, or an empty string.
            version: Schema version; must be this module's.

        Raises:
            ValueError: Another version, an empty prompt, or ids that are no ids.

        >>> problem = Problem("p", "1+1?", "2")
        >>> state = Snapshot.of(problem, [1, 5], [7], fingerprint="f")
        >>> state.tokens, state.is_finished, state == Snapshot.from_json(state.to_json())
        ((1, 5, 7), False, True)
        """
        if version != SCHEMA_VERSION:
            raise _other_version(version)
        ids, history = _ids(prompt, "prompt"), _ids(response, "response")
        if not ids:
            raise ValueError("a snapshot's prompt needs at least one token, got none")
        bound = max(max(ids), max(history, default=0)) + 1
        return cls(
            problem, ids, history, len(history), outcome, fingerprint, bound, rng_state, version
        )

    @property
    def prompt(self) -> tuple[int, ...]:
        """Prompt ids."""
        return tuple(self._prompt)

    @property
    def response(self) -> tuple[int, ...]:
        """Response ids up to this state."""
        return tuple(self._history[: self.num_tokens])

    @property
    def tokens(self) -> tuple[int, ...]:
        """Prompt and response ids."""
        return self.prompt + self.response

    @property
    def terminated(self) -> bool:
        """Whether the episode had ended by a stop token or string."""
        return self.outcome is not None and self.outcome.terminated

    @property
    def truncated(self) -> bool:
        """Whether the episode had run out of budget."""
        return self.outcome is not None and self.outcome.truncated

    @property
    def is_finished(self) -> bool:
        """Whether the episode had ended."""
        return self.outcome is not None

    @property
    def score(self) -> float:
        """The final reward; 0.0 while the episode is running."""
        return 0.0 if self.outcome is None else self.outcome.score

    @property
    def verdict(self) -> str:
        """The grader's verdict; empty while the episode is running."""
        return "" if self.outcome is None else self.outcome.verdict

    @property
    def extracted(self) -> str:
        """The answer that the grader found; empty while the episode is running."""
        return "" if self.outcome is None else self.outcome.extracted

    def _key(self) -> tuple[object, ...]:
        return (
            self.num_tokens,
            self._prompt.tobytes(),
            self._history[: self.num_tokens].tobytes(),
            self.problem,
            self.outcome,
            self.fingerprint,
            self.rng_state,
        )

    def __eq__(self, other: object) -> bool:
        """Returns whether both are the same state."""
        return self._key() == other._key() if isinstance(other, Snapshot) else NotImplemented

    def __hash__(self) -> int:
        """Returns a hash that equal states share within a process."""
        return hash(self._key())

    def __repr__(self) -> str:
        """Returns a short description without the token ids."""
        state = "finished" if self.is_finished else "running"
        return (
            f"Snapshot(problem={self.problem.id!r}, prompt={len(self._prompt)} tokens, "
            f"response={self.num_tokens} tokens, {state})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles this state's own tokens only."""
        return _rebuild, (self._plain(),)

    def __copy__(self) -> Snapshot:
        """Returns itself: a snapshot never changes."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Snapshot:
        """Returns itself: a snapshot never changes."""
        return self

    def _plain(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "fingerprint": self.fingerprint,
            "problem": asdict(self.problem),
            "prompt": list(self._prompt),
            "response": self._history[: self.num_tokens].tolist(),
            "outcome": None if self.outcome is None else asdict(self.outcome),
            "rng_state": self.rng_state,
        }

    def to_json(self) -> str:
        """Returns the state as one line of JSON."""
        return json.dumps(self._plain(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """Reads what ``to_json`` wrote; the text may come from anywhere.

        Raises:
            ValueError: Not such a text; says which part is wrong.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError, TypeError) as error:
            raise ValueError(f"not a snapshot: {error}; {_HINT}") from error
        return _rebuild(data)


def _other_version(version: int) -> ValueError:
    return ValueError(
        f"this snapshot has schema version {version}, this release reads {SCHEMA_VERSION}; "
        "take the snapshot again"
    )


def _rebuild(data: Any) -> Snapshot:
    """Builds a snapshot from untrusted plain values."""
    if not isinstance(data, dict):
        raise ValueError(f"not a snapshot: expected an object, got {type(data).__name__}; {_HINT}")
    version, expected = data.get("version"), {"version", "problem", "outcome", *_INTS, *_TEXTS}
    if type(version) is int and version != SCHEMA_VERSION:
        raise _other_version(version)
    if set(data) != expected or type(version) is not int:
        wrong = sorted(map(str, set(data) ^ expected)) or ["version"]
        raise ValueError(f"not a snapshot: missing, unknown or wrong fields {wrong}; {_HINT}")
    for name in _TEXTS:
        if not isinstance(data[name], str):
            raise ValueError(f"not a snapshot: {name} must be text; {_HINT}")
    outcome = data["outcome"]
    return Snapshot.of(
        _dataclass_from(Problem, data["problem"], "problem"),
        data["prompt"],
        data["response"],
        fingerprint=data["fingerprint"],
        outcome=None if outcome is None else _dataclass_from(Outcome, outcome, "outcome"),
        rng_state=data["rng_state"],
    )


def _dataclass_from(kind: Any, data: Any, name: str) -> Any:
    types = {field.name: field.type for field in fields(kind)}
    if not isinstance(data, dict) or set(data) != set(types):
        raise ValueError(f"not a snapshot: {name} must have the fields {sorted(types)}; {_HINT}")
    for key, value in data.items():
        if type(value).__name__ != types[key]:
            raise ValueError(
                f"not a snapshot: {name}.{key} must be {types[key]}, got {value!r:.60}; {_HINT}"
            )
    return kind(**data)


def _ids(tokens: Any, name: str) -> array[int]:
    if not isinstance(tokens, (list, tuple, array)) or any(type(t) is not int for t in tokens):
        raise ValueError(f"a snapshot's {name} must be a sequence of int ids, got {tokens!r:.60}")
    try:
        ids = array("i", tokens)
    except OverflowError as error:
        raise ValueError(f"a snapshot's {name} holds an id beyond 32 bits") from error
    if ids and min(ids) < 0:
        raise ValueError(f"a snapshot's {name} holds a negative id: {min(ids)}")
    return ids
