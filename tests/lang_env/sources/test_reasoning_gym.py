"""reasoning-gym's tasks as a source; without the package only the error is tested."""

import builtins
import importlib.util
import pickle

import pytest

from graders import Verdict
from lang_env import Problem
from lang_env.env import TokenEnv
from lang_env.sources import load_problems
from lang_env.sources.procedural.base import split_of

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None,
    reason="reasoning-gym is not installed: pip install 'lang-env[reasoning_gym]'",
)
SUM = "reasoning_gym:chain_sum"


def test_without_the_package_the_error_names_the_command(monkeypatch):
    original = builtins.__import__

    def missing(name, *args, **kwargs):
        if name == "reasoning_gym":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ValueError, match=r"pip install 'lang-env\[reasoning_gym\]'"):
        load_problems(SUM)


@needs_package
def test_problems_are_seeded_split_and_picklable():
    for split in ("train", "validation", "test"):
        problems, again = load_problems(SUM, split=split), load_problems(SUM, split=split)
        for index in range(20):
            problem = problems.problem(index)
            assert problem == again.problem(index)
            assert split_of(problem.question) == split
        assert pickle.loads(pickle.dumps(problems)).problem(3) == problems.problem(3)
    assert load_problems(SUM).problem(0) != load_problems(SUM).problem(1)


@needs_package
def test_the_tasks_own_score_is_the_reward():
    env = TokenEnv(SUM)

    def reward(text):
        env.reset(options={"index": 4})
        return env.play([*env.tokenizer.encode(text), env.tokenizer.eos_token_id])

    env.reset(options={"index": 4})
    answer, solution = env.problem.answer, env.problem.solution
    for text in (solution, f"so it is\n#### {answer}", answer):
        _, score, _, _, info = reward(text)
        assert (score, info["verdict"], info["extracted"]) == (1.0, "correct", answer)
    _, score, _, _, info = reward(f"<answer>{int(answer) + 1}</answer>")
    assert score < 1.0 and info["verdict"] == "wrong"
    given = TokenEnv(SUM, grader="exact")
    assert type(given.mdp.grader).__name__ != "ReasoningGymGrader"


@needs_package
def test_foreign_problems_and_failing_scorers_are_undecided(monkeypatch):
    problems = load_problems(SUM)
    grade, problem = problems.grader.grade_problem, problems.problem(0)
    own = Problem("p/0", problem.question, problem.answer)
    moved = Problem(problem.id, "1 + 1 =", "2")
    for foreign in (own, moved, Problem("reasoning_gym:chain_sum/train/x", "q", "1")):
        assert grade(problem.answer, foreign).verdict == Verdict.UNDECIDED
    assert problems.grader(problem.solution, problem.answer).verdict == Verdict.UNDECIDED

    def failing(*args):
        raise KeyError("answer")

    import reasoning_gym

    kind = type(reasoning_gym.create_dataset("chain_sum"))
    monkeypatch.setattr(kind, "score_answer", failing)
    assert grade(problem.answer, problem).verdict == Verdict.UNDECIDED


@needs_package
def test_clear_errors():
    with pytest.raises(ValueError, match=r"no task 'chain_sun'\. Did you mean 'chain_sum'\?"):
        load_problems("reasoning_gym:chain_sun")
    with pytest.raises(ValueError, match="takes no level, got 2"):
        load_problems(SUM, level=2)
    with pytest.raises(ValueError, match="must be judged alike"):
        load_problems([SUM, "word"])
    assert load_problems([SUM, "reasoning_gym:gcd"]).problem(1).subject == "reasoning_gym:gcd"
