"""Rollouts through an environment of somebody else's, and the agreement of env and engine."""

import numpy as np
import pytest
from toy import DEPTH, PROMPT, ToyEngine, ToyEnv, reward_of

from agents.core.rollout import (
    OverlongPenalty,
    Sampler,
    mark_states,
    play_out,
    play_tokens,
    start_of,
)
from agents.engines.base import Completion


def _sampler(env=None):
    return Sampler(ToyEngine(), env or ToyEnv(), seed=0, temperature=1.0)


def test_an_answer_is_played_and_judged_by_the_environment():
    sampler = _sampler()
    starts = [start_of(sampler.env, slot, index=slot) for slot in range(3)]
    assert starts[2].tokens == list(PROMPT)
    assert (starts[2].problem_id, starts[2].budget) == ("2", DEPTH)
    groups = sampler.sample(starts, 5, iteration=1, purpose="rollout")
    assert sampler.engine.calls == [[5, 5, 5]], "the engine is asked once for the whole batch"
    for group in groups:
        for trajectory in group:
            assert trajectory.reward == reward_of(trajectory.response)
            assert trajectory.terminated == (trajectory.response[-1] == 0)
            assert trajectory.truncated == (not trajectory.terminated)
            assert len(trajectory.log_probs) == len(trajectory.response)


def test_streams_differ_between_slots_iterations_purposes_and_seeds():
    sampler = _sampler()
    start = start_of(sampler.env, 0, index=0)

    def answers(sampler=sampler, start=start, **changes):
        settings = {"iteration": 1, "purpose": "rollout"} | changes
        return [t.response for t in sampler.sample([start], 12, **settings)[0]]

    first = answers()
    assert first == answers()
    assert first != answers(iteration=2)
    assert first != answers(purpose="value")
    assert first != answers(start=start_of(sampler.env, 1, index=0))
    assert first != answers(sampler=Sampler(ToyEngine(), sampler.env, 1, 1.0))
    assert len({tuple(a) for a in first}) > 1, "siblings have streams of their own"


def test_states_at_step_borders_continue_where_the_answer_was():
    env = ToyEnv(step_length=1)
    sampler = _sampler(env)
    start = start_of(env, 0, index=3)
    for trajectory in sampler.sample([start], 20, iteration=1, purpose="rollout")[0]:
        mark_states(env, trajectory)
        assert trajectory.borders == list(range(len(trajectory.response)))
        for border, state in zip(trajectory.borders, trajectory.states, strict=True):
            env.restore(state)
            reward, *_ = play_tokens(env, trajectory.response[border:])
            assert reward == trajectory.reward


@pytest.mark.parametrize(
    ("tokens", "reason", "message"),
    [
        ([1, 1], "stop_token", "engine 'stop_token', environment terminated=False, truncated=F"),
        ([1, 0], "length", "engine 'length', environment terminated=True"),
        ([0, 1], "length", "ended after 1 of 2 tokens"),
    ],
)
def test_a_disagreement_about_the_end_is_an_error(tokens, reason, message):
    env = ToyEnv()
    start = start_of(env, 0, index=0)
    with pytest.raises(RuntimeError, match=message):
        play_out(env, start, Completion(tokens, [-1.0] * len(tokens), reason), OverlongPenalty())


def test_log_probs_are_kept_as_the_engine_gave_them():
    env = ToyEnv()
    completion = Completion([1, 0], [-0.5, -1.5], "stop_token")
    played = play_out(env, start_of(env, 0), completion, OverlongPenalty())
    np.testing.assert_array_equal(played.log_probs, [-0.5, -1.5])
