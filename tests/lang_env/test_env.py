"""TokenEnv: spaces, transitions, rewards, options and errors."""

import copy

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from hypothesis import given, settings
from hypothesis import strategies as st

from graders import Grade, Verdict
from lang_env import Problem
from lang_env.env import TokenEnv
from lang_env.problem import ProblemList
from lang_env.tokenizers import load_tokenizer

TOKENIZER = load_tokenizer("builtin")
EOS, BOS = TOKENIZER.eos_token_id, TOKENIZER.bos_token_id
PROBLEMS = [Problem(f"p{i}", f"{i}+1?", str(i + 1)) for i in range(8)]
INFO_KEYS = ["problem_id", "num_tokens", "score", "verdict", "extracted", "is_success"]


def ids(text):
    return TOKENIZER.encode(text)


def make(**options):
    options = {"max_prompt_tokens": 12, "max_new_tokens": 16} | options
    return TokenEnv(options.pop("problems", PROBLEMS), **options)


def stepped(env, tokens):
    """Steps through tokens and returns every result."""
    return [env.step(token) for token in tokens]


def test_observation_is_prompt_then_response_then_padding():
    env = make()
    observation, info = env.reset(options={"index": 3})
    prompt = [BOS, *ids("3+1?\n")]
    assert observation["tokens"].tolist() == prompt + [TOKENIZER.pad_token_id] * (28 - len(prompt))
    assert observation["length"].tolist() == [len(prompt)]
    assert (observation["tokens"].dtype, observation["length"].dtype) == (np.int32, np.int32)
    assert info == {
        "problem_id": "p3",
        "num_tokens": 0,
        "score": 0.0,
        "verdict": "",
        "extracted": "",
        "is_success": False,
    }
    later = stepped(env, ids("ab"))[-1][0]
    assert later["tokens"][: len(prompt) + 2].tolist() == prompt + ids("ab")
    assert observation["length"].tolist() == [len(prompt)]  # what was handed out stays
    assert env.prompt_tokens == prompt and env.response_tokens == ids("ab")
    assert env.observation_space.contains(later) and env.problem == PROBLEMS[3]


def test_spaces_are_the_vocabulary_and_the_budget():
    env = make()
    assert env.action_space == gym.spaces.Discrete(len(TOKENIZER))
    tokens = env.observation_space["tokens"]
    assert (tokens.shape, tokens.dtype, tokens.high.max()) == ((28,), np.int32, len(TOKENIZER) - 1)


@pytest.mark.parametrize(
    ("text", "end", "expected"),
    [
        ("#### 4", [EOS], (1.0, True, False, "correct", "4", True)),
        ("#### 5", [EOS], (0.0, True, False, "wrong", "5", False)),
        ("", [EOS], (0.0, True, False, "wrong", "", False)),
        ("#### 4", ids(";"), (1.0, True, False, "correct", "4", True)),
        ("#### 4" + "x" * 10, [], (0.25, False, True, "unfinished", "", False)),
    ],
)
def test_reward_comes_with_the_last_step_only(text, end, expected):
    env = make(stop=(";",), unfinished_reward=0.25, max_new_tokens=13)
    env.reset(options={"index": 3})
    *before, last = stepped(env, [*ids(text), *end])
    assert all(step[1:4] == (0.0, False, False) for step in before)
    assert all(list(step[4]) == INFO_KEYS and step[4]["verdict"] == "" for step in before)
    info = last[4]
    assert last[1:4] == expected[:3]
    assert (info["verdict"], info["extracted"], info["is_success"]) == expected[3:]
    assert info["score"] == last[1] and info["num_tokens"] == len(ids(text)) + len(end)
    assert [type(part) for part in last[1:4]] == [float, bool, bool]
    assert [type(info[key]) for key in INFO_KEYS] == [str, int, float, str, str, bool]
    assert env.remaining == 0


def test_every_end_at_every_combination_of_the_last_two_tokens():
    """Stop token, stop string (one and two tokens long) and budget, alone and together."""
    colon, other = ids(":")[0], ids("a")[0]
    kinds = [other, colon, ids("\n")[0], EOS]
    for first in kinds:
        for second in kinds:
            for budget in (1, 2, 3):
                env = make(stop=("\n:", "::"), max_new_tokens=budget)
                env.reset(options={"index": 0})
                if first == EOS:
                    expected = (1, True)
                elif budget == 1:
                    expected = (1, False)
                elif second == EOS or (first, second) in ((kinds[2], colon), (colon, colon)):
                    expected = (2, True)
                else:
                    expected = (2, False) if budget == 2 else None
                ended = [env.step(first)]
                if not any(ended[0][2:4]):
                    ended.append(env.step(second))
                _, _, terminated, truncated, info = ended[-1]
                if expected is None:
                    assert (len(ended), terminated, truncated) == (2, False, False)
                else:
                    assert (len(ended), terminated, truncated) == (*expected, not expected[1])
                    assert info["num_tokens"] == expected[0]
                state = env.snapshot()
                env.reset(options={"index": 0})
                if len(ended) == 1:
                    with pytest.raises(ValueError, match="ends after 1 of the 2 tokens"):
                        env.play([first, second])
                    env.play([first])
                else:
                    env.play([first, second])
                assert env.snapshot() == state


def test_a_stop_beyond_the_budget_ends_nothing():
    env = make(max_new_tokens=3)
    env.reset(options={"index": 0})
    with pytest.raises(ValueError, match=r"ends after 3 of the 5 tokens \(out of budget\)"):
        env.play([40, 40, 40, 40, EOS])
    assert env.remaining == 3
    assert env.play([40, 40, EOS])[2:4] == (True, False)


def test_a_verdict_of_undecided_has_its_own_reward():
    def undecided(completion, answer):
        return Grade(1.0, Verdict.UNDECIDED, "?")

    env = make(grader=undecided, undecided_reward=-0.5)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(EOS)
    assert (reward, terminated, info["verdict"], info["is_success"]) == (
        -0.5,
        True,
        "undecided",
        False,
    )


def test_a_failing_grader_leaves_the_episode_where_it_was():
    def failing(completion, answer):
        raise ZeroDivisionError

    env = make(grader=failing)
    env.reset(seed=0)
    state = env.snapshot()
    for call in (lambda: env.step(EOS), lambda: env.play([EOS])):
        with pytest.raises(
            RuntimeError, match=r"grader failed on an answer to problem .*ZeroDivisionError"
        ):
            call()
        assert env.snapshot() == state
    env = make(grader=lambda completion, answer: float("nan"))
    env.reset(seed=0)
    with pytest.raises(ValueError, match="finite"):
        env.step(EOS)


def test_max_length_bounds_prompt_and_response_together():
    env = make(max_length=10)
    env.reset(options={"index": 3})
    assert env.remaining == 10 - 6
    results = stepped(env, ids("abcd"))
    assert [step[3] for step in results] == [False, False, False, True]


TOKENS = st.lists(
    st.sampled_from([*ids("a:\n7"), *ids("#### 4"), EOS, 200]), min_size=1, max_size=20
)


@settings(deadline=None)
@given(tokens=TOKENS, cut=st.integers(0, 20))
def test_play_is_step_for_each(tokens, cut):
    single, playing = make(stop=("\n:",)), make(stop=("\n:",))
    single.reset(options={"index": 3})
    playing.reset(options={"index": 3})
    total, played = 0.0, 0
    for token in tokens:
        result = single.step(token)
        total, played = total + result[1], played + 1
        if result[2] or result[3]:
            break
    if played < len(tokens):
        before = playing.snapshot()
        with pytest.raises(ValueError, match=f"ends after {played} of the {len(tokens)} tokens"):
            playing.play(tokens)
        assert playing.snapshot() == before
    for piece in (tokens[: min(cut, played)], tokens[min(cut, played) : played]):
        if piece:
            got = playing.play(piece)
    assert playing.snapshot() == single.snapshot()
    assert got[2:] == result[2:]
    np.testing.assert_equal(got[0], result[0])
    playing = make(stop=("\n:",))
    playing.reset(options={"index": 3})
    assert playing.play(np.array(tokens[:played]))[1] == total


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (-1, "token -1 is outside the vocabulary"),
        (len(TOKENIZER), f"token {len(TOKENIZER)} is outside"),
        (2**40, "outside|must be ids"),
        (3.0, "integer"),
        ("a", "integer|must be ids"),
        (None, "integer|must be ids"),
    ],
)
def test_actions_that_are_no_ids_change_nothing(action, message):
    env = make()
    env.reset(seed=0)
    state = env.snapshot()
    for call in (lambda: env.step(action), lambda: env.play([5, action])):
        with pytest.raises(ValueError, match=message):
            call()
        assert env.snapshot() == state


def test_play_needs_a_token():
    env = make()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="at least one token"):
        env.play([])


@pytest.mark.parametrize("action", [5, np.int64(5), np.int32(5), np.array(5)])
def test_integers_of_any_kind_are_actions(action):
    env = make()
    env.reset(seed=0)
    env.step(action)
    assert env.response_tokens == [5]


def test_nothing_goes_on_after_the_end_or_before_the_start():
    env = make()
    for call in (lambda: env.step(5), lambda: env.play([5]), env.snapshot, lambda: env.problem):
        with pytest.raises(ResetNeeded, match="reset"):
            call()
    assert env.remaining == 0
    env.reset(options={"index": 3})
    env.step(EOS)
    for call in (lambda: env.step(5), lambda: env.play([5])):
        with pytest.raises(ResetNeeded, match=r"'p3' ended after 1 tokens; call reset\(\)"):
            call()


def test_problems_are_drawn_from_the_seed_alone():
    def drawn(seed):
        env = make()
        first = env.reset(seed=seed)[1]["problem_id"]
        return [first, *(env.reset()[1]["problem_id"] for _ in range(9))]

    assert drawn(1) == drawn(1)
    assert len({tuple(drawn(seed)) for seed in range(5)}) == 5
    assert set(drawn(0)) <= {problem.id for problem in PROBLEMS}


def test_options_name_the_problem():
    env = make()
    assert env.reset(options={"index": np.int64(2)})[1]["problem_id"] == "p2"
    own = Problem("own", "2*3?", "6")
    assert env.reset(options={"problem": own})[1]["problem_id"] == "own"
    assert env.problem == own and env.reset(options={})[1]["problem_id"].startswith("p")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"indx": 1}, ValueError, "unknown reset option 'indx'. Did you mean 'index'"),
        ({"index": 1, "problem": PROBLEMS[0]}, ValueError, "one reset option, got index and prob"),
        ({"index": 8}, IndexError, "problem index 8 is outside"),
        ({"index": -1}, IndexError, "problem index -1"),
        ({"index": "1"}, ValueError, "index must be an integer"),
        ({"problem": "1+1?"}, ValueError, "takes a Problem"),
        ({"problem": Problem("long", "x" * 20, "1")}, ValueError, "'long' has 22 tokens.*12 fit"),
        ({"snapshot": "{}"}, ValueError, "a Snapshot is needed"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, error, message):
    env = make()
    env.reset(seed=0)
    state = env.snapshot()
    with pytest.raises(error, match=message):
        env.reset(options=options)
    assert env.snapshot() == state


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problems": "legder"}, "unknown problems 'legder'. Did you mean 'ledger'"),
        ({"problems": "nowhere:at_all"}, "cannot import problems"),
        ({"problems": "chain", "data": "folder"}, "takes no data"),
        ({"level": 3}, "takes no level"),
        ({"problems": "chain", "level": 9}, "level must be one of"),
        ({"problems": [1, 2]}, "Problem objects only"),
        ({"problems": 3}, "neither a ProblemSet nor"),
        ({"split": "valid"}, "unknown split 'valid'. Did you mean 'validation'"),
        ({"grader": "gsm"}, "unknown grader 'gsm'. Did you mean 'gsm8k'"),
        ({"prompt": "plane"}, "unknown prompt 'plane'. Did you mean 'plain'"),
        ({"segmenter": "newlin"}, "unknown segmenter 'newlin'. Did you mean 'newline'"),
        ({"max_new_tokens": 0}, "max_new_tokens must be >= 1, got 0"),
        ({"max_prompt_tokens": 0}, "max_prompt_tokens must be >= 1, got 0"),
        ({"max_length": 1}, "max_length"),
        ({"unfinished_reward": float("nan")}, "unfinished_reward must be a finite number"),
        ({"stop_token_ids": [999]}, "stop token id 999"),
        ({"render_mode": "rgb_array"}, "render_mode must be None or one of"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_a_function_makes_the_problems_of_its_split():
    def source(split):
        return ProblemList([Problem(split, "1+1?", "2")])

    env = make(problems=source, split="validation")
    assert env.reset(seed=0)[1]["problem_id"] == "validation" and env.split == "validation"


def test_an_env_can_be_copied():
    env = make()
    env.reset(seed=3)
    env.play(ids("ab"))
    twin = copy.deepcopy(env)
    env.step(5)
    assert twin.response_tokens == ids("ab")
    assert twin.reset()[1] == env.reset()[1]
