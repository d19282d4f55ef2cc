"""The curriculum: when it changes the level, what counts, and that its state is all of it."""

import json

import gymnasium as gym
import numpy as np
import pytest

from lang_env import Problem
from lang_env.curriculum import Curriculum

RULES = {"levels": [1, 2, 3], "window": 2, "rise": 0.6, "fall": 0.4}


def make(**options):
    return gym.make("MathReason-v0", **({"curriculum": RULES} | options)).unwrapped


def answer(env, right=True):
    """Returns the tokens of a right or a wrong answer to the present problem."""
    text = f"#### {int(env.problem.answer) + (not right)}"
    return [*env.tokenizer.encode(text), env.tokenizer.eos_token_id]


def test_levels_follow_the_rate():
    curriculum, seen = Curriculum((1, 2, 3), window=4, rise=0.7, fall=0.3), []
    outcomes = [1, 1, 1, 0, 1, 1, 1, 0.5, 0, 0, 0.5, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    for outcome in outcomes:
        curriculum.record(str(curriculum.level), outcome)
        seen.append(curriculum.level)
    # 3/4 = 0.75 > 0.7 rises; (1 + 1 + 1 + 0.5)/4 rises; 0.5/4 falls; 0/4 falls to the lowest,
    # then 1, 1, 1 beside a 0 makes 0.75, and four more; the highest level stays.
    expected = [1] * 3 + [2] * 4 + [3] * 4 + [2] * 4 + [1] * 4 + [2] * 4 + [3] * 2
    assert seen == expected


def test_between_the_thresholds_and_at_the_ends_nothing_changes():
    curriculum = Curriculum((1, 2), window=2, rise=0.8, fall=0.2)
    for outcome in (0, 0, 0, 1, 0, 1):
        curriculum.record("1", outcome)
    assert curriculum.state() == {"level": 1, "recent": [0.0, 1.0]}
    curriculum = Curriculum((1, 2), start=2, window=1)
    curriculum.record("2", 1.0)
    assert curriculum.level == 2


def test_a_state_is_json_and_holds_everything():
    first, rng = Curriculum((1, 2, 3), window=5, rise=0.6, fall=0.4), np.random.default_rng(0)
    outcomes = rng.random(60)
    for outcome in outcomes[:30]:
        first.record(str(first.level), outcome)
    second = Curriculum((1, 2, 3), window=5, rise=0.6, fall=0.4)
    second.load(json.loads(json.dumps(first.state())))
    for outcome in outcomes[30:]:
        first.record(str(first.level), outcome)
        second.record(str(second.level), outcome)
        assert first.state() == second.state()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"level": 9, "recent": []}, r"a level of \[1, 2\] and recent outcomes, got"),
        ({"level": True, "recent": []}, "a level of"),
        ({"level": 1}, "a level of"),
        ({"level": 1, "recent": [2.0]}, "numbers from 0 to 1"),
        ({"level": 1, "recent": [float("nan")]}, "numbers from 0 to 1"),
        ({"level": 1, "recent": "01"}, "numbers from 0 to 1"),
    ],
)
def test_a_foreign_state_is_refused(state, message):
    curriculum = Curriculum((1, 2), start=2)
    with pytest.raises(ValueError, match=message):
        curriculum.load(state)
    assert curriculum.state() == {"level": 2, "recent": []}


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"levels": [1]}, r"two or more different ones, got \[1\]"),
        ({"levels": [1, 1]}, "two or more different ones"),
        ({"levels": ["1", "2"]}, "must be a list of numbers"),
        ({"levels": [1, 7]}, r"level must be one of \[1, 2, 3, 4\], got 7"),
        ({"start": 5}, r"start must be one of \[1, 2, 3, 4\], got 5"),
        ({"window": 0}, "window must be a whole number >= 1, got 0"),
        ({"rise": 0.2, "fall": 0.5}, "0 <= fall < rise <= 1, got fall=0.5, rise=0.2"),
        ({"rise": "much"}, "rise='much'"),
        ({"widow": 8}, r"unknown curriculum option 'widow'\. Did you mean 'window'\?"),
        ("yes", "must be true or options such as"),
    ],
)
def test_clear_errors(rules, message):
    with pytest.raises(ValueError, match=message):
        make(curriculum=rules)


def test_sources_without_levels_are_refused():
    one = [Problem("p", "1+1?", "2")]
    with pytest.raises(ValueError, match="these problems name no levels"):
        make(problems=one, curriculum=True)
    with pytest.raises(ValueError, match="takes no level, got 1"):
        make(problems=one)
    with pytest.raises(ValueError, match="endless sources only, but level 1 has 1 problems"):
        make(problems=lambda level=1: one)


def test_drawn_problems_follow_it_and_indices_do_not():
    env = make(level=4)
    for expected in (1, 1, 2, 2, 3, 3):
        env.reset(seed=7)
        assert env.problem.level == str(expected) == str(env.curriculum_state()["level"])
        assert env.play(answer(env))[4]["is_success"]
    env.reset(options={"index": 5})
    assert env.problem.id == "ledger/train/4/5"
    for _ in range(2):
        env.reset(seed=8)
        assert env.problem.level == "3"
        for token in answer(env, right=False):
            env.step(token)
    assert env.curriculum_state() == {"level": 2, "recent": []}


def test_only_episodes_that_began_with_a_draw_count_by_themselves():
    env = make()
    env.reset(seed=0)
    state = env.snapshot()
    for options in ({"index": 0}, {"problem": env.problem}, {"snapshot": state}):
        env.reset(options=options)
        env.play(answer(env))
    env.restore(state)
    env.play(answer(env))
    assert env.curriculum_state() == {"level": 1, "recent": []}
    env.record_success(state, 0.5)
    assert env.curriculum_state() == {"level": 1, "recent": [0.5]}
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
        env.record_success(state, 1.5)


def test_a_vector_environment_has_one_for_all_episodes():
    envs = gym.make_vec("MathReason-v0", num_envs=2, curriculum=RULES).unwrapped
    envs.reset(seed=0)
    problems = [envs.snapshot(i).problem for i in range(2)]
    tokens = [
        [*envs.tokenizer.encode(f"#### {p.answer}"), envs.tokenizer.eos_token_id] for p in problems
    ]
    envs.play([tokens[0], tokens[1][:2]])
    assert envs.curriculum_state() == {"level": 1, "recent": [1.0]}
    envs.play([[], tokens[1][2:]])
    assert envs.curriculum_state() == {"level": 2, "recent": []}
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert envs.snapshot(0).problem.level == "2"


def test_an_environment_goes_on_from_a_state():
    first, second = make(), make()
    first.record_success(_drawn(first, 0), 1.0)
    first.record_success(_drawn(first, 1), 1.0)
    second.set_curriculum_state(json.loads(json.dumps(first.curriculum_state())))
    assert _drawn(first, 2) == _drawn(second, 2)
    plain = gym.make("MathReason-v0").unwrapped
    assert plain.curriculum_state() == {}
    plain.set_curriculum_state({})
    plain.record_success(_drawn(plain, 0), 1.0)
    with pytest.raises(ValueError, match="no curriculum; make it with curriculum=True"):
        plain.set_curriculum_state(first.curriculum_state())


def _drawn(env, seed):
    env.reset(seed=seed)
    return env.snapshot()


def test_budgets_hold_the_hardest_level_and_mixtures_work():
    env = make(problems=["word", "linear"], curriculum={"levels": [1, 4], "start": 4})
    assert env.max_prompt_tokens == 2 + 220 + 2
    assert {_drawn(env, seed).problem.level for seed in range(8)} == {"4"}
    assert make(curriculum=True).curriculum_state() == {"level": 1, "recent": []}
