"""Actions that are texts or reasoning steps, and Gymnasium's stock wrappers, on our envs."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from lang_env import Problem
from lang_env.env import TokenEnv
from lang_env.tokenizers import character_tokenizer
from lang_env.wrappers import StepAction, TextAction, TokenText

PROBLEMS = [Problem(f"p{i}", f"{i}+1?", str(i + 1)) for i in range(5)]
ALPHABET = "0123456789+=?# \n"
ANSWER = "1+1=2\nso it is 2\n#### 2"


def token_env(**options):
    options = {"max_prompt_tokens": 16, "max_new_tokens": 64} | options
    return TokenEnv(options.pop("problems", PROBLEMS), **options)


def small_env(**options):
    return token_env(tokenizer=character_tokenizer(ALPHABET), **options)


@pytest.mark.parametrize("wrapper", [TextAction, StepAction])
@pytest.mark.parametrize("options", [{}, {"tokenizer": character_tokenizer(ALPHABET)}])
def test_check_env_has_no_complaint_but_the_wrapper(wrapper, options):
    env = wrapper(gym.make("MathReason-v0", problems=PROBLEMS, **options))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version.*")
        check_env(env)


@pytest.mark.parametrize("wrapper", [TextAction, StepAction])
@pytest.mark.parametrize("size", [4, 64])
def test_no_sampled_action_uses_the_budget_up(wrapper, size):
    env = wrapper(token_env(max_new_tokens=size))
    env.action_space.seed(0)
    for _ in range(100):
        env.reset(seed=0)
        action = env.action_space.sample()
        assert action in env.action_space
        assert not env.step(action)[3]


@pytest.mark.parametrize("wrapper", [TextAction, StepAction])
def test_episodes_of_sampled_actions_end(wrapper):
    env = wrapper(small_env())
    env.action_space.seed(0)
    for seed in range(20):
        env.reset(seed=seed)
        for _ in range(64):
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                break
        assert terminated != truncated
        with pytest.raises(ResetNeeded):
            env.step(env.action_space.sample())


@pytest.mark.parametrize("wrapper", [TextAction, StepAction])
def test_a_wrapped_env_can_be_made_again_from_its_spec(wrapper):
    made = wrapper(gym.make("MathReason-v0"))
    again = gym.make(made.spec)
    assert any(isinstance(layer, wrapper) for layer in layers(again))


def layers(env):
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


def test_a_text_is_the_whole_answer():
    env, plain = TextAction(token_env()), token_env()
    env.reset(options={"index": 1})
    plain.reset(options={"index": 1})
    observation, reward, terminated, truncated, info = env.step(ANSWER)
    ids = [*plain.tokenizer.encode(ANSWER), plain.tokenizer.eos_token_id]
    expected = plain.play(ids)
    np.testing.assert_equal(observation, expected[0])
    assert (reward, terminated, truncated) == expected[1:4] == (1.0, True, False)
    texts = {"prompt": "1+1?\n", "response": ANSWER}
    assert info == expected[4] | texts


def test_a_text_beyond_the_end_is_not_played():
    env = TextAction(token_env(max_new_tokens=5, unfinished_reward=-1.0))
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step("123456789")
    assert (reward, terminated, truncated) == (-1.0, False, True)
    assert (info["num_tokens"], info["response"]) == (5, "12345")
    stopped = TextAction(token_env(stop=["\n\n"]))
    stopped.reset(options={"index": 1})
    _, reward, terminated, _, info = stopped.step("#### 2\n\nmore")
    assert (reward, terminated, info["response"]) == (1.0, True, "#### 2\n\n")


def test_an_answer_in_pieces_ends_with_the_empty_text():
    env = TextAction(token_env(), whole=False)
    env.reset(options={"index": 1})
    for piece in ("1+1=2\n", "#### ", "2"):
        _, reward, terminated, truncated, info = env.step(piece)
        assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["response"] == "1+1=2\n#### 2"
    assert env.step("")[1:4] == (1.0, True, False)


def test_tokens_that_were_played_are_not_encoded_again():
    """``of`` is a token of the built-in tokenizer; in two pieces it stays two tokens."""
    env = TextAction(token_env(), whole=False)
    env.reset(seed=0)
    assert len(env.base.tokenizer.encode("of")) == 1
    env.step("o")
    env.step("f")
    assert env.base.response_tokens == [
        *env.base.tokenizer.encode("o"),
        *env.base.tokenizer.encode("f"),
    ]


def test_a_text_that_cannot_be_written_changes_nothing():
    env = TextAction(small_env())
    env.reset(seed=0)
    for action, message in (("1-1", "cannot write '1-1'"), (7, "an action is a text, got 7")):
        with pytest.raises(ValueError, match=message):
            env.step(action)
    assert env.base.response_tokens == []


def test_which_texts_the_space_holds():
    builtin = TextAction(token_env()).action_space
    assert "€ and 数\n" in builtin and "" in builtin
    assert "\ud800" not in builtin and 3 not in builtin and "x" * 1025 not in builtin
    small = TextAction(small_env(), max_characters=9).action_space
    assert isinstance(small, TokenText) and small.max_length == 9
    assert small.character_set == frozenset(ALPHABET)


def test_a_step_ends_at_the_next_border():
    env = StepAction(token_env())
    tokenizer = env.base.tokenizer
    _, info = env.reset(options={"index": 1})
    assert (info["step_tokens"], info["at_border"]) == (0, True)
    ids = tokenizer.encode(ANSWER)
    borders = env.base.segmenter(ids, tokenizer)
    seen = []
    for begin in borders[:-1]:
        info = env.step(ids[begin:])[4]
        assert info["at_border"]
        seen.append(info["num_tokens"])
    assert seen == borders[1:]
    _, reward, terminated, _, info = env.step([*ids[borders[-1] :], tokenizer.eos_token_id, 5, 5])
    assert (reward, terminated, info["at_border"]) == (1.0, True, True)
    assert info["step_tokens"] == len(ids) - borders[-1] + 1


def test_a_short_action_stays_inside_the_step():
    env = StepAction(token_env())
    ids = env.base.tokenizer.encode("1+1=2\n#### 2")
    env.reset(seed=0)
    info = env.step(ids[:2])[4]
    assert (info["step_tokens"], info["at_border"]) == (2, False)
    state = env.unwrapped.snapshot()
    info = env.step(ids[2:])[4]
    assert (info["step_tokens"], info["at_border"]) == (4, True)
    assert env.reset(options={"snapshot": state})[1]["at_border"] is False


def test_steps_of_fixed_length_and_of_sentences():
    env = StepAction(token_env(), segmenter="fixed_tokens:3")
    env.reset(seed=0)
    assert [env.step([40] * 32)[4]["step_tokens"] for _ in range(4)] == [3, 3, 3, 3]
    env = StepAction(token_env(max_new_tokens=128), segmenter="sentences")
    env.reset(seed=0)
    ids = env.base.tokenizer.encode("It is true. Then we see that it is x.\nSo we go.")
    assert env.step(ids)[4]["step_tokens"] == env.segmenter(ids, env.base.tokenizer)[1] < len(ids)


@pytest.mark.parametrize("segmenter", ["newline", "sentences", "every_token", "fixed_tokens:5"])
def test_steps_are_the_segmenters_steps(segmenter):
    """Whatever is written, the states at borders are those of the whole response."""
    env = StepAction(small_env(), segmenter=segmenter)
    env.action_space.seed(1)
    for seed in range(30):
        env.reset(seed=seed)
        ends, done = [], False
        while not done:
            *_, terminated, truncated, info = env.step(env.action_space.sample())
            done = terminated or truncated
            if info["at_border"] and not done:
                ends.append(info["num_tokens"])
        assert [0, *ends] == env.segmenter(env.base.response_tokens, env.base.tokenizer)


@pytest.mark.parametrize("action", [[], [-1], [99999], [[1]], [1.5], [1] * 33])
def test_an_action_that_is_no_step_changes_nothing(action):
    env = StepAction(token_env())
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"an action is 1 to 32 ids|outside the vocabulary"):
        env.step(action)
    assert env.base.response_tokens == []


def test_what_cannot_be_wrapped_is_named():
    with pytest.raises(ValueError, match="TextAction wraps a"):
        TextAction(gym.make("CartPole-v1"))
    with pytest.raises(ValueError, match="has none; pass stop_token_ids"):
        TextAction(token_env(stop_token_ids=[]))
    with pytest.raises(ValueError, match="max_characters must be >= 1"):
        TextAction(token_env(), max_characters=0)
    with pytest.raises(ValueError, match="'newline_paper' looks ahead"):
        StepAction(token_env(segmenter="newline_paper"))
    with pytest.raises(ValueError, match="max_step_tokens must be >= 1"):
        StepAction(token_env(), max_step_tokens=0)


@pytest.mark.parametrize("wrapper", [TextAction, StepAction])
def test_snapshots_go_through_the_wrapper(wrapper):
    env = wrapper(gym.make("MathReason-v0"))
    env.reset(seed=0)
    state = env.unwrapped.snapshot()
    solution = env.unwrapped.prompt.target(env.unwrapped.problem)
    ids = env.unwrapped.tokenizer.encode(solution)

    def act():
        return env.step(solution if wrapper is TextAction else ids)

    first = act()
    env.reset(options={"snapshot": state})
    np.testing.assert_equal(act(), first)
    env.unwrapped.restore(state)
    np.testing.assert_equal(act(), first)


def test_wrappers_inside_see_every_token():
    inside = gym.wrappers.RecordEpisodeStatistics(token_env())
    env = TextAction(gym.wrappers.TransformReward(inside, lambda reward: 2 * reward - 1))
    env.reset(options={"index": 1})
    _, reward, terminated, _, info = env.step("#### 2")
    assert terminated and info["episode"]["l"] == info["num_tokens"] == 4
    assert info["episode"]["r"] == 1.0 and reward == 2.0 - 4
