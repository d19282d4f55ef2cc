"""The program families: determinism, unique answers, solutions that grade as right, splits."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graders import get_grader
from lang_env.problem import ProblemSet
from lang_env.sources.procedural import chain, ledger, programs
from lang_env.sources.procedural.base import split_of
from lang_env.sources.procedural.program import exact, parse_program
from lang_env.sources.procedural.slips import (
    SlipRates,
    demonstration,
    habit,
    slipped_solution,
)

FAMILIES = [ledger, chain, programs]
GRADE = get_grader("gsm8k")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_thousand_problems(family):
    problems, again = family(), family()
    assert isinstance(problems, ProblemSet)
    questions = set()
    for index in range(1000):
        problem = problems.problem(index)
        assert problem == again.problem(index)
        assert GRADE(problem.solution, problem.answer).score == 1.0
        wrong = problem.solution[:-1] + str((int(problem.answer) + 1) % 10)
        assert GRADE(wrong, problem.answer).score == 0.0
        questions.add(problem.question)
    assert len(questions) > 990


def _python(question):
    """Runs a program as Python would, modulo 10, without our own parser."""
    values = {}
    for line in question.splitlines()[:-1]:
        target, formula = line.rstrip(";").split(":=")
        left, operator, right = formula[0], formula[1], int(formula[2])
        left = values[left] if left.isalpha() else int(left)
        values[target] = {"+": left + right, "-": left - right, "*": left * right}[operator] % 10
    return str(values[question.splitlines()[-1].rstrip("?")])


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_right_and_levels_have_their_size(family, level):
    sizes = {1: 4, 2: 6, 3: 9, 4: 16}
    for index in range(50):
        problem = family(level=level).problem(index)
        assert problem.answer == _python(problem.question)
        assert len(problem.question.splitlines()) == sizes[level] + 1
        assert len(problem.solution.splitlines()) == sizes[level] + 2
        assert problem.level == str(level)


def test_splits_share_no_question():
    seen = {}
    for split in ("train", "validation", "test"):
        problems = ledger(split=split, level=1)
        for index in range(300):
            question = problems.problem(index).question
            assert split_of(question) == split
            assert seen.setdefault(question, split) == split


def test_sampling_uses_the_generator_that_it_is_given():
    problems = ledger()
    first, second = (problems.sample(np.random.default_rng(5)) for _ in range(2))
    assert first == second != problems.sample(np.random.default_rng(6))


@pytest.mark.parametrize("family", FAMILIES)
def test_sets_are_picklable(family):
    problems = family(split="test", level=1)
    assert pickle.loads(pickle.dumps(problems)).problem(5) == problems.problem(5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ledger(level=9), r"level must be one of \[1, 2, 3, 4\], got 9"),
        (lambda: chain(split="tran"), r"unknown split 'tran'\. Did you mean 'train'\?"),
        (lambda: parse_program("a:=3+4;\nb?"), r"must ask for a variable such as 'a\?', got 'b\?'"),
        (lambda: parse_program("a:=b+4;\na?"), r"reads 'b', which has no value there"),
        (lambda: parse_program("a=3;\na?"), r"not a statement such as 'a:=3\+4;': 'a=3;'"),
    ],
)
def test_clear_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_index_outside_the_set():
    with pytest.raises(IndexError, match="-1 is outside 0 to"):
        ledger().problem(-1)


@given(st.sampled_from("+-*"), st.integers(0, 9), st.integers(1, 9))
def test_a_habit_is_wrong_always_in_the_same_way(operator, left, right):
    rates = SlipRates()
    wrong, rate = habit(operator, left, right, rates)
    assert (wrong, rate) == habit(operator, left, right, rates)
    assert 0 <= wrong <= 9
    assert rate == 0.0 or rate >= 0.5, "a slip is more likely than the truth"
    assert (wrong == exact(operator, left, right)) == (rate == 0.0)


def test_slips_come_at_their_rates():
    problems, rng = ledger(), np.random.default_rng(0)
    slipped, chances = [], []
    for index in range(400):
        problem = problems.problem(index)
        lines = slipped_solution(problem, rng).splitlines()
        for line in lines[:-2]:
            left, operator, right, result = int(line[0]), line[1], int(line[2]), int(line[-1])
            wrong, rate = habit(operator, left, right, SlipRates())
            assert result in (wrong, exact(operator, left, right))
            slipped.append(rate > 0 and result == wrong)
            chances.append(rate)
    deviation = np.sqrt(np.sum([c * (1 - c) for c in chances]))
    assert abs(np.sum(slipped) - np.sum(chances)) < 4 * deviation
    assert 0.1 < np.mean(slipped) < 0.3


def test_the_working_stays_coherent():
    problem, rng = ledger().problem(3), np.random.default_rng(0)
    for _ in range(50):
        values = {}
        for line in demonstration(problem.question, rng, SlipRates()).splitlines()[:-2]:
            target = line[4]
            assert values.get(target, int(line[0])) == int(line[0])
            values[target] = int(line[6])


def test_without_slips_a_demonstration_is_the_solution():
    none = SlipRates(borrow=0.0, facts=0.0, variable=0.0)
    problem = ledger().problem(11)
    assert demonstration(problem.question, np.random.default_rng(0), none) == problem.solution
