"""TokenVectorEnv against a list of TokenEnvs and against Gymnasium's own vector env."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from lang_env import Problem, Snapshot
from lang_env.env import TokenEnv
from lang_env.tokenizers import load_tokenizer
from lang_env.vector import TokenVectorEnv

TOKENIZER = load_tokenizer("builtin")
EOS = TOKENIZER.eos_token_id
PROBLEMS = [Problem(f"p{i}", f"{i}+1?", str(i + 1)) for i in range(8)]
OPTIONS = {
    "problems": PROBLEMS,
    "max_prompt_tokens": 12,
    "max_new_tokens": 6,
    "stop": ("::",),
    "unfinished_reward": 0.25,
}
BROKEN = Snapshot.of(PROBLEMS[0], [1], [], fingerprint=TOKENIZER.fingerprint, rng_state="{")
IDS = [*TOKENIZER.encode("#### 2"), *TOKENIZER.encode(":a"), EOS]


def make(num_envs=3):
    return TokenVectorEnv(num_envs, **OPTIONS)


def sync(num_envs=3):
    envs = [lambda: TokenEnv(**OPTIONS) for _ in range(num_envs)]
    return SyncVectorEnv(envs, autoreset_mode=AutoresetMode.DISABLED)


def assert_same(ours, theirs):
    """Both results of reset or step are equal, keys, values and types."""
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_equal(one, other)  # keys and values
        parts = [(one[key], other[key]) for key in one] if isinstance(one, dict) else []
        for value, other_value in [*parts] or [(one, other)]:
            assert (value.dtype, value.shape) == (other_value.dtype, other_value.shape)


def test_spaces_are_batched():
    ours, theirs = make(), sync()
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space.contains(ours.reset(seed=0)[0])
    assert ours.metadata["autoreset_mode"] is AutoresetMode.DISABLED


@settings(deadline=None, max_examples=60)
@given(
    actions=st.lists(st.lists(st.sampled_from(IDS), min_size=3, max_size=3), max_size=20),
    seed=st.integers(0, 99) | st.lists(st.integers(0, 99), min_size=3, max_size=3),
)
def test_it_is_gymnasiums_sync_vector_env(actions, seed):
    """Step for step, with partial resets of whatever has ended; infos included."""
    ours, theirs = make(), sync()
    assert_same(ours.reset(seed=seed), theirs.reset(seed=seed))
    for row in actions:
        result = ours.step(np.array(row))
        assert_same(result, theirs.step(np.array(row)))
        done = result[2] | result[3]
        if done.any():
            assert_same(
                ours.reset(options={"reset_mask": done}), theirs.reset(options={"reset_mask": done})
            )
    assert [ours.remaining[i] for i in range(3)] == [e.unwrapped.remaining for e in theirs.envs]


@settings(deadline=None, max_examples=60)
@given(
    rounds=st.lists(
        st.lists(st.lists(st.sampled_from(IDS), max_size=4), min_size=3, max_size=3), max_size=6
    )
)
def test_play_is_play_of_each(rounds):
    ours, singles = make(), [TokenEnv(**OPTIONS) for _ in range(3)]
    ours.reset(options={"index": [1, 2, 3]})
    for index, env in enumerate(singles, start=1):
        env.reset(options={"index": index})
    for tokens in rounds:
        before = [ours.snapshot(i) for i in range(3)]
        try:
            expected = [e.play(t) if t else None for e, t in zip(singles, tokens, strict=True)]
        except (ValueError, ResetNeeded) as error:
            with pytest.raises(type(error)):
                ours.play(tokens)
            assert [ours.snapshot(i) for i in range(3)] == before  # all or nothing
            for env, state in zip(singles, before, strict=True):
                env.restore(state)
            continue
        observation, rewards, terminations, truncations, infos = ours.play(tokens)
        for i, result in enumerate(expected):
            state = ours.snapshot(i)
            assert state == singles[i].snapshot()
            assert (terminations[i], truncations[i]) == (state.terminated, state.truncated)
            assert infos["_score"][i] == (result is not None)
            assert observation["tokens"][i, : len(state.tokens)].tolist() == list(state.tokens)
            if result is None:
                assert rewards[i] == 0.0
            else:
                np.testing.assert_equal(observation["tokens"][i], result[0]["tokens"])
                assert rewards[i] == result[1]
                assert {key: infos[key][i] for key in result[4]} == result[4]


def test_a_group_is_one_reset_one_snapshot_and_restores():
    envs = make(4)
    envs.reset(seed=0)
    state = envs.snapshot(0)
    observation, infos = envs.restore(dict.fromkeys(range(1, 4), state))
    assert (observation["tokens"] == observation["tokens"][0]).all()
    assert infos["_problem_id"].tolist() == [False, True, True, True]
    envs.step(np.array([40, 41, 42, 43]))
    assert [envs.snapshot(i).response for i in range(4)] == [(40,), (41,), (42,), (43,)]
    assert state.response == ()


def test_a_shorter_state_leaves_no_old_tokens_in_its_row():
    envs = make(2)
    envs.reset(options={"index": [0, 1]})
    state = envs.snapshot(1)
    expected, _ = envs.restore({})
    envs.play([[], [40, 41, 42]])
    np.testing.assert_equal(envs.restore({1: state})[0], expected)


def test_options_may_differ_for_each_episode():
    envs = make()
    own = Problem("own", "9*9?", "81")
    names = envs.reset(options={"index": np.array([4, 5, 6])})[1]["problem_id"].tolist()
    assert names == ["p4", "p5", "p6"]
    state = envs.snapshot(2)
    _, infos = envs.reset(options={"problem": [own, None, None], "snapshot": [None, state, None]})
    assert infos["problem_id"].tolist()[:2] == ["own", "p6"]
    _, infos = envs.reset(
        options={"index": [7, None, 7], "reset_mask": np.array([False, False, True])}
    )
    assert infos["problem_id"].tolist() == [None, None, "p7"]
    assert envs.snapshot(0).problem == own


def test_include_rng_is_of_the_episode():
    envs = make()
    envs.reset(seed=3)
    state = envs.snapshot(1, include_rng=True)
    drawn = [envs.reset()[1]["problem_id"][1] for _ in range(5)]
    envs.restore({2: state})
    assert [envs.reset()[1]["problem_id"][2] for _ in range(5)] == drawn
    assert len(envs.np_random) == 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda e: e.step([5, 5]), ValueError, "needs 3 actions, got 2"),
        (lambda e: e.step([5, 5, 999]), ValueError, "token 999 is outside"),
        (lambda e: e.play([[5]]), ValueError, "needs 3 lists of tokens, got 1"),
        (lambda e: e.play([[5], [5], [5] * 9]), ValueError, "ends after 6 of the 9"),
        (lambda e: e.restore({3: e.snapshot(0)}), ValueError, "no episode 3, only 0 to 2"),
        (lambda e: e.restore({0: e.snapshot(1), 1: "s"}), ValueError, "a Snapshot is needed"),
        (lambda e: e.restore({0: e.snapshot(1), 1: BROKEN}), ValueError, "random state"),
        (lambda e: e.reset(options={"mask": 1}), ValueError, "unknown reset option 'mask'"),
        (lambda e: e.reset(options={"index": [1, 2]}), ValueError, "needs a list of 3, got 2"),
        (lambda e: e.reset(options={"index": [0, 1, 8]}), IndexError, "problem index 8"),
        (lambda e: e.reset(seed=[1, 2]), ValueError, "need 3 seeds"),
        (lambda e: e.reset(options={"reset_mask": [True] * 3}), TypeError, "array of bool"),
        (
            lambda e: e.reset(options={"reset_mask": np.zeros(3, np.bool_)}),
            ValueError,
            "mark an episode",
        ),
        (
            lambda e: e.reset(options={"index": [0, 1, 2], "problem": [None, PROBLEMS[0], None]}),
            ValueError,
            "one reset option, got index and problem",
        ),
    ],
)
def test_errors_change_no_episode(call, error, message):
    envs = make()
    envs.reset(seed=0)
    before = [envs.snapshot(i) for i in range(3)]
    with pytest.raises(error, match=message):
        call(envs)
    assert [envs.snapshot(i) for i in range(3)] == before


def test_finished_and_unstarted_episodes_are_not_stepped():
    envs = make()
    with pytest.raises(ResetNeeded):
        envs.step([5, 5, 5])
    assert envs.remaining.tolist() == [0, 0, 0]
    envs.reset(options={"index": [0, 1, 2]})
    envs.play([[EOS], [], []])
    assert envs.remaining.tolist() == [0, 6, 6]
    with pytest.raises(ResetNeeded, match="'p0' ended after 1 tokens"):
        envs.step([5, 5, 5])
    assert envs.snapshot(1).num_tokens == 0
    with pytest.raises(ValueError, match="num_envs must be >= 1, got 0"):
        make(0)


def test_made_by_gymnasium_and_drawn():
    envs = gym.make_vec("MathReason-v0", num_envs=2, render_mode="ansi", max_new_tokens=8)
    assert isinstance(envs, TokenVectorEnv)
    envs.reset(seed=0)
    drawings = envs.render()
    assert len(drawings) == 2 and all("running" in drawing for drawing in drawings)
    assert envs.split == "train" and envs.max_new_tokens == 8


def test_human_mode_draws_what_changed(capsys):
    envs = TokenVectorEnv(2, render_mode="human", **OPTIONS)
    envs.reset(options={"index": [0, 1]})
    assert "p0" in (shown := capsys.readouterr().out) and "p1" in shown
    envs.play([[], [40]])
    assert "p0" not in (shown := capsys.readouterr().out) and "p1" in shown
    assert envs.render() is None
