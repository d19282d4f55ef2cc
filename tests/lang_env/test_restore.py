"""Snapshots of running environments: what holds wherever and whenever they are restored."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

import lang_env
from lang_env import Problem, Snapshot
from lang_env.env import TokenEnv
from lang_env.tokenizers import load_tokenizer

TOKENIZER = load_tokenizer("builtin")
EOS = TOKENIZER.eos_token_id
PROBLEMS = [Problem(f"p{i}", f"{i}+1?", str(i + 1)) for i in range(8)]
ANSWER = TOKENIZER.encode("#### 4")
PIECES = st.lists(st.sampled_from([*ANSWER, *TOKENIZER.encode("\n:;a"), 200]), max_size=8)


def make(**options):
    options = {"max_prompt_tokens": 12, "max_new_tokens": 24, "stop": ("::",)} | options
    return TokenEnv(options.pop("problems", PROBLEMS), **options)


def finish(env, tokens):
    """Plays tokens up to the end of the episode; returns every reward, flag and info."""
    results = []
    for token in tokens:
        results.append(env.step(token)[1:])
        if results[-1][1] or results[-1][2]:
            break
    return results


def running(env, tokens):
    """Plays tokens as far as the episode goes on."""
    env.reset(options={"index": 3})
    for token in tokens:
        before = env.snapshot()
        if any(env.step(token)[2:4]):
            env.restore(before)
            break
    return env.snapshot()


@settings(deadline=None)
@given(before=PIECES, after=PIECES, detour=PIECES)
def test_restoring_is_being_there(before, after, detour):
    """Restore twice, after a detour, in another instance, from pickle and from JSON."""
    env = make()
    state = running(env, before)
    observation, info = env.restore(state)
    end = finish(env, [*after, *ANSWER, EOS])
    copies = [state, pickle.loads(pickle.dumps(state)), Snapshot.from_json(state.to_json())]
    for other in (env, make()):
        for copied in copies:
            other.reset(options={"index": 1})
            finish(other, detour)
            for go in (other.restore, lambda s, e=other: e.reset(options={"snapshot": s})):
                again, info_again = go(copied)
                np.testing.assert_equal(again, observation)
                assert info_again == info
                assert other.snapshot() == state
            assert finish(other, [*after, *ANSWER, EOS]) == end


@settings(deadline=None)
@given(tokens=PIECES)
def test_a_finished_state_stays_finished(tokens):
    env = make()
    running(env, tokens)
    last = finish(env, [*ANSWER, EOS])[-1]
    state = env.snapshot()
    assert state.is_finished and (state.terminated, state.truncated) == last[1:3]
    assert (state.score, state.verdict) == (last[0], last[3]["verdict"])
    other = make()
    observation, info = other.restore(Snapshot.from_json(state.to_json()))
    assert info == last[3] and other.remaining == 0
    assert observation["tokens"][: observation["length"][0]].tolist() == list(state.tokens)
    with pytest.raises(gym.error.ResetNeeded):
        other.step(5)
    assert other.snapshot() == state


class Histories(RuleBasedStateMachine):
    """Random walks over two envs that share snapshots; a plain tuple is the oracle."""

    states = Bundle("states")

    def __init__(self):
        super().__init__()
        self.envs = [make(max_new_tokens=60), make(max_new_tokens=60)]
        self.oracle = [(), ()]
        self.taken = []
        for env in self.envs:
            env.reset(options={"index": 3})

    @rule(target=states, who=st.integers(0, 1))
    def take(self, who):
        self.taken.append((self.envs[who].snapshot(), self.oracle[who]))
        return self.taken[-1]

    @rule(who=st.integers(0, 1), token=st.integers(40, 43))
    def step(self, who, token):
        if self.envs[who].remaining > 1:
            self.envs[who].step(token)
            self.oracle[who] += (token,)

    @rule(who=st.integers(0, 1), tokens=st.lists(st.integers(40, 43), min_size=1, max_size=5))
    def play(self, who, tokens):
        if self.envs[who].remaining > len(tokens):
            self.envs[who].play(tokens)
            self.oracle[who] += tuple(tokens)

    @rule(who=st.integers(0, 1), taken=states)
    def restore(self, who, taken):
        self.envs[who].restore(taken[0])
        self.oracle[who] = taken[1]

    @rule(who=st.integers(0, 1))
    def reset(self, who):
        self.envs[who].reset(options={"index": 3})
        self.oracle[who] = ()

    @invariant()
    def nothing_taken_has_changed(self):
        for state, response in self.taken:
            assert state.response == response
        for env, response in zip(self.envs, self.oracle, strict=True):
            assert tuple(env.response_tokens) == response


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_a_snapshot_per_token_costs_linear_memory():
    env = make(max_new_tokens=1000)
    env.reset(options={"index": 3})
    states = [env.snapshot()]
    for _ in range(900):
        env.step(40)
        states.append(env.snapshot())
    assert len({id(state._history) for state in states}) == 1
    assert len(pickle.dumps(states[1])) < len(pickle.dumps(states[900])) / 5
    for number in (0, 450, 900):  # going on from the end copies nothing, from the middle once
        env.restore(states[number])
        env.step(41)
        assert (env.snapshot()._history is states[0]._history) == (number == 900)
        assert states[number].response == (40,) * number


def test_branches_that_grow_in_turn_cost_linear_memory():
    """As in a tree search: one environment, two branches, a snapshot per token."""
    env = make(max_new_tokens=1000)
    env.reset(options={"index": 3})
    tips = [env.snapshot(), env.snapshot()]
    arrays = set()
    for _ in range(50):
        for branch in (0, 1):
            env.restore(tips[branch])
            env.step(40 + branch)
            tips[branch] = env.snapshot()
            arrays.add(id(tips[branch]._history))
    assert [tip.response for tip in tips] == [(40,) * 50, (41,) * 50]
    assert len(arrays) == 2


def test_another_env_never_appends_to_a_shared_past():
    """Threads with an environment each may share snapshots."""
    env, other = make(), make()
    env.reset(options={"index": 3})
    env.play([40, 41])
    state = env.snapshot()
    other.restore(state)
    other.step(42)
    assert list(state._history) == [40, 41]
    env.step(43)
    assert (env.snapshot().response, other.snapshot().response) == ((40, 41, 43), (40, 41, 42))


def test_include_rng_sets_what_is_drawn_next():
    env = make()
    env.reset(seed=5)
    plain, whole = env.snapshot(), env.snapshot(include_rng=True)
    assert plain != whole and plain.rng_state == ""
    drawn = [env.reset()[1]["problem_id"] for _ in range(6)]
    env.restore(plain)
    later = [env.reset()[1]["problem_id"] for _ in range(6)]
    assert later != drawn
    for other in (env, make()):
        other.restore(Snapshot.from_json(whole.to_json()))
        assert [other.reset()[1]["problem_id"] for _ in range(6)] == drawn
    other.reset(seed=1, options={"snapshot": whole})  # the snapshot's state wins
    assert [other.reset()[1]["problem_id"] for _ in range(6)] == drawn


@pytest.mark.parametrize("rng_state", ["{", "[]", "{}", '{"bit_generator": "MT19937"}', "[" * 9999])
def test_a_broken_random_state_is_refused(rng_state):
    env = make()
    env.reset(seed=0)
    before = env.snapshot(include_rng=True)
    prompt, fingerprint = env.prompt_tokens, TOKENIZER.fingerprint
    state = Snapshot.of(PROBLEMS[0], prompt, [], fingerprint=fingerprint, rng_state=rng_state)
    with pytest.raises(ValueError, match="random state cannot be used"):
        env.restore(state)
    assert env.snapshot(include_rng=True) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_prompt_tokens": 5}, r"6 prompt and 7 response tokens.*5 \(max_prompt_tokens\)"),
        ({"max_new_tokens": 6}, r"6 \(max_new_tokens=6, max_length=None\)"),
        ({"max_length": 12}, r"takes 12 .*6 \(max_new_tokens=24, max_length=12\)"),
        ({"max_new_tokens": 7}, "not finished, and its 7 response tokens leave no budget"),
    ],
)
def test_a_snapshot_that_does_not_fit_is_refused(options, message):
    state = running(make(), TOKENIZER.encode("abcdefg"))
    env = make(problems=[Problem("q", "?", "1")], **options)
    env.reset(seed=0)
    before = env.snapshot()
    with pytest.raises(ValueError, match=message):
        env.restore(state)
    assert env.snapshot() == before


def test_ids_of_another_vocabulary_are_refused():
    env = make()
    prompt = running(env, []).prompt
    foreign = Snapshot.of(PROBLEMS[0], prompt, [], fingerprint="other")
    with pytest.raises(ValueError, match=r"another tokenizer \(vocabulary hash 'other'"):
        env.restore(foreign)
    beyond = Snapshot.of(PROBLEMS[0], prompt, [999], fingerprint=TOKENIZER.fingerprint)
    with pytest.raises(ValueError, match="token 999 is outside the vocabulary"):
        env.restore(beyond)


OPTIONS = {"max_prompt_tokens": 160, "max_new_tokens": 16}


def test_through_wrappers_and_make_vec():
    env = gym.make("MathReason-v0", **OPTIONS)
    env.reset(seed=0)
    env.unwrapped.play(ANSWER)
    state = env.unwrapped.snapshot()
    expected = env.step(EOS)
    wrapped = gym.wrappers.RecordEpisodeStatistics(gym.make("MathReason-v0", **OPTIONS))
    observation, _ = wrapped.reset(options={"snapshot": state})
    assert observation["length"][0] == len(state.tokens)
    result = wrapped.step(EOS)
    assert result[1:4] == expected[1:4]
    np.testing.assert_equal(result[0], expected[0])
    assert wrapped.unwrapped.snapshot() == env.unwrapped.snapshot()
    for mode in ("sync", "vector_entry_point"):
        envs = gym.make_vec("MathReason-v0", num_envs=2, vectorization_mode=mode, **OPTIONS)
        observations, _ = envs.reset(options={"snapshot": state})
        assert observations["length"].ravel().tolist() == [len(state.tokens)] * 2
        _, rewards, terminations, *_ = envs.step(np.array([EOS, EOS]))
        assert rewards.tolist() == [expected[1]] * 2 and terminations.all()
        envs.close()


CHILD = """
import pickle, sys
import gymnasium, lang_env
pickled, text, tokens = pickle.load(sys.stdin.buffer)
states = [pickle.loads(pickled), lang_env.Snapshot.from_json(text)]
env = gymnasium.make("lang_env:MathReason-v0", max_prompt_tokens=160, max_new_tokens=16)
results = []
for state in states:
    env.reset(options={"snapshot": state})
    results.append((env.unwrapped.play(tokens)[1:], env.unwrapped.snapshot()))
sys.stdout.buffer.write(pickle.dumps((states, results)))
"""


def test_in_another_process():
    env = gym.make("MathReason-v0", **OPTIONS).unwrapped
    env.reset(seed=0)
    env.play(ANSWER)
    state, tokens = env.snapshot(), [*TOKENIZER.encode("\n"), EOS]
    expected = env.play(tokens)[1:]
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=pickle.dumps((pickle.dumps(state), state.to_json(), tokens)),
        env=os.environ | {"PYTHONPATH": str(Path(lang_env.__file__).parents[1])},
        capture_output=True,
        timeout=120,
        check=True,
    )
    states, results = pickle.loads(done.stdout)
    assert states == [state, state]
    assert results == [(expected, env.snapshot())] * 2
