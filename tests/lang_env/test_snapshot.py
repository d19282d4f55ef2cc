"""Snapshot as a value: equality, hash, pickle, JSON, and what is refused."""

import copy
import dataclasses
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lang_env import Problem, Snapshot
from lang_env.snapshot import SCHEMA_VERSION, Outcome

IDS = st.lists(st.integers(0, 2**31 - 2), max_size=20)
TEXT = st.text(st.characters(), max_size=20)  # surrogates and control characters included
FINISHED = st.tuples(
    st.booleans(), st.floats(allow_nan=False, allow_infinity=False), TEXT, TEXT
).map(lambda parts: Outcome(parts[0], not parts[0], *parts[1:]))


@st.composite
def snapshots(draw):
    problem = Problem(*(draw(TEXT) for _ in range(6)))
    prompt = draw(IDS.filter(bool))
    return Snapshot.of(
        problem,
        prompt,
        draw(IDS),
        fingerprint=draw(TEXT),
        outcome=draw(st.none() | FINISHED),
        rng_state=draw(TEXT),
    )


@given(snapshots())
def test_every_copy_is_the_same_state(state):
    copies = [
        pickle.loads(pickle.dumps(state)),
        Snapshot.from_json(state.to_json()),
        copy.deepcopy(state),
        copy.copy(state),
    ]
    for other in copies:
        assert other == state
        assert hash(other) == hash(state)
        assert other.to_json() == state.to_json()
        assert other.tokens == state.tokens == state.prompt + state.response
    assert len({state, *copies}) == 1


@given(snapshots(), snapshots())
def test_equal_exactly_when_the_values_are(one, other):
    assert (one == other) == (one.to_json() == other.to_json())


def state(**changes):
    values = {
        "problem": Problem("p", "1+1?", "2"),
        "prompt": [1, 5],
        "response": [7, 8],
        "fingerprint": "f",
    }
    values |= changes
    return Snapshot.of(
        values.pop("problem"), values.pop("prompt"), values.pop("response"), **values
    )


@pytest.mark.parametrize(
    "change",
    [
        {"problem": Problem("p", "1+1?", "3")},
        {"prompt": [1]},
        {"prompt": [1, 5, 7], "response": [8]},
        {"response": [7]},
        {"fingerprint": "g"},
        {"rng_state": "{}"},
        {"outcome": Outcome(True, False, 1.0, "correct")},
    ],
)
def test_every_part_counts(change):
    assert state(**change) != state()
    assert state() == state()
    assert state() != "state"


def test_it_is_frozen():
    for name in ("problem", "num_tokens", "_history", "anything"):
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            setattr(state(), name, 1)


def test_properties_of_running_and_finished():
    running, finished = state(), state(outcome=Outcome(False, True, 0.5, "unfinished", "x"))
    assert (running.is_finished, running.terminated, running.truncated) == (False, False, False)
    assert (running.score, running.verdict, running.extracted) == (0.0, "", "")
    assert (finished.is_finished, finished.terminated, finished.truncated) == (True, False, True)
    assert (finished.score, finished.verdict, finished.extracted) == (0.5, "unfinished", "x")
    assert repr(running) == ("Snapshot(problem='p', prompt=2 tokens, response=2 tokens, running)")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": []}, "prompt needs at least one token"),
        ({"prompt": [1, -1]}, "negative id"),
        ({"response": [2**31]}, "32 bits"),
        ({"response": [True]}, "sequence of int"),
        ({"response": [1.0]}, "sequence of int"),
        ({"response": "abc"}, "sequence of int"),
        ({"version": SCHEMA_VERSION + 1}, "schema version 2, this release reads 1"),
    ],
)
def test_values_that_are_no_state_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        state(**change)


@pytest.mark.parametrize(
    ("terminated", "truncated", "score"),
    [(True, True, 0.0), (False, False, 0.0), (True, False, float("nan"))],
)
def test_outcomes_that_cannot_be_are_refused(terminated, truncated, score):
    with pytest.raises(ValueError, match=r"finished episode|finite"):
        Outcome(terminated, truncated, score, "wrong")


def changed(**changes):
    data = json.loads(state(outcome=Outcome(True, False, 1.0, "correct", "2")).to_json())
    for name, value in changes.items():
        parent = data
        *path, last = name.split("__")
        for part in path:
            parent = parent[part]
        if value is KeyError:
            del parent[last]
        else:
            parent[last] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a snapshot"),
        ("{", "not a snapshot"),
        ("[" * 100_000, "not a snapshot"),
        ("[]", "expected an object, got list"),
        ("{}", "wrong fields"),
        (changed(version=2), "schema version 2"),
        (changed(version="1"), "'version'"),
        (changed(version=True), "'version'"),
        (changed(extra=1), "'extra'"),
        (changed(prompt=KeyError), "'prompt'"),
        (changed(prompt=[1, "2"]), "prompt must be a sequence"),
        (changed(prompt={"a": 1}), "prompt must be a sequence"),
        (changed(response=[10**30]), "32 bits"),
        (changed(response=None), "response must be a sequence"),
        (changed(fingerprint=3), "fingerprint must be text"),
        (changed(rng_state=None), "rng_state must be text"),
        (changed(problem=[]), "problem must have the fields"),
        (changed(problem__id=KeyError), "problem must have the fields"),
        (changed(problem__answer=2), "problem.answer must be str, got 2"),
        (changed(outcome=1), "outcome must have the fields"),
        (changed(outcome__score="1"), "outcome.score must be float"),
        (changed(outcome__score=float("nan")), "finite"),
        (changed(outcome__terminated=1), "outcome.terminated must be bool"),
        (changed(outcome__truncated=True), "either terminated or truncated"),
    ],
)
def test_json_that_is_no_snapshot_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Snapshot.from_json(text)
