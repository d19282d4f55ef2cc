"""The families beside the programs: solved here once more, from the text of their questions."""

import ast
import operator
import pickle
import re
from fractions import Fraction
from itertools import islice

import gymnasium as gym
import pytest
import sympy

import lang_env  # noqa: F401 - registers the ids
from graders import get_grader
from lang_env.sources import load_problems, procedural
from lang_env.sources.procedural.base import split_of

GRADE = get_grader("gsm8k")
FAMILIES = ("word", "linear", "fractions", "gcd_lcm", "remainders", "sequences")
LEVELS = (1, 2, 3, 4)
_OPERATIONS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip


def value(formula, x=None):
    """Returns the exact value of a formula such as ``3(x - 2) / 5^2``."""
    text = re.sub(r"(\d)([x(])", r"\1*\2", formula).replace("^", "**")

    def walk(node):
        if isinstance(node, ast.BinOp):
            return _OPERATIONS[type(node.op)](walk(node.left), walk(node.right))
        if isinstance(node, ast.UnaryOp):
            return -walk(node.operand)
        return x if isinstance(node, ast.Name) else Fraction(node.value)

    result = walk(ast.parse(text.strip(), mode="eval").body)
    return Fraction(int(result)) if isinstance(result, int) else result


def ints(text):
    return [int(number) for number in re.findall(r"-?\d+", text)]


WORDS = {  # what only one template says -> the answer from the numbers in its text
    "and buys # more. How": lambda a, b: a + b,
    "has # [a-z]+ and [A-Z][a-z]+ has # [a-z]+. How": lambda a, b: a + b,
    "and gives # of them": lambda a, b: a - b,
    "has # so far": lambda a, b: a - b,
    "in each box. How": lambda a, b: a * b,
    "# [a-z]+ equally among # friends": lambda a, b: a / b,
    "more and then gives": lambda a, b, c: a + b - c,
    "in each and gives away": lambda a, b, c: a * b - c,
    "times as many. How": lambda a, b: a + a * b,
    "equally among # children": lambda a, b, c: (a + b) / c,
    "buys # [a-z]+ at # dollars each and pays": lambda a, b, c: c - a * b,
    "pages a day": lambda a, b, c: c - a * b,
    "in each and # bags": lambda a, b, c, d: a * b + c * d,
    "more in each. Then": lambda a, b, c, d: a + b * c - d,
    "hours a day for": lambda a, b, c, d: a * b * c - d,
    "picks # more than": lambda a, b, c: (a + a + b) / c,
    "A bus has": lambda a, b, c, d: a - b + c - d,
    "dollars each and # [a-z]+ at": lambda a, b, c, d, e: e - a * b - c * d,
    "fewer than": lambda a, b, c: a + a * b + a * b - c,
    "rows of": lambda a, b, c, d, e: (a * b * c - d) / e,
    "on Monday": lambda a, b, c, d: ((a + b) * c - d) / 2,
    "and then bought": lambda a, b, c, d, e: a - b - c + d * e,
}


def solve_word(question):
    shape = re.sub(r"[0-9]+", "#", question)
    (phrase,) = [phrase for phrase in WORDS if re.search(phrase, shape)]
    return WORDS[phrase](*map(Fraction, ints(question)))


def solve_linear(question):
    left, right = question.removeprefix("Solve for x: ").split(" = ")
    at_0, at_1 = (value(left, Fraction(x)) - value(right, Fraction(x)) for x in (0, 1))
    assert at_0 != at_1, "one solution only"
    return at_0 / (at_0 - at_1)


def solve_fractions(question):
    return value(question.removeprefix("What is ").removesuffix("?"))


def solve_gcd_lcm(question):
    numbers = ints(question)
    return sympy.igcd(*numbers) if "divisor" in question else sympy.ilcm(*numbers)


def solve_remainders(question):
    if "smallest" in question:
        wanted, small, rest, large = ints(question)
        return next(
            n for n in range(1, small * large + 1) if (n % small, n % large) == (wanted, rest)
        )
    formula, by = re.search(r"when (.*) is divided by (\d+)", question).groups()
    return value(formula) % int(by)


def solve_sequences(question):
    rule, asked = re.fullmatch(r"(.*\.) What is (.*)\?", question).groups()
    begin, numbers = ints(rule), ints(asked)

    def terms():
        if "with" in rule:
            term, factor, shift = begin
            while True:
                yield term
                term = factor * term + (shift if "plus" in rule else -shift)
        if "Each later" in rule:
            first, second = begin
            while True:
                yield first
                first, second = second, first + second
        term = Fraction(begin[0])
        while True:
            yield term
            geometric = "geometric" in rule
            term = term * begin[1] / begin[0] if geometric else term + begin[1] - begin[0]

    kind = "with" in rule or "Each later" in rule
    assert kind or list(islice(terms(), 3)) == begin, "the terms shown follow the rule"
    if "sum" in asked:
        return sum(islice(terms(), numbers[0]))
    return next(islice(terms(), (numbers[0] if numbers else 4) - 1, None))


def check_working(solution, answer):
    """Every line of a working is a chain of equal sides, x being the answer."""
    *lines, last = solution.split("\n")
    assert last == f"#### {answer}" and lines
    for line in lines:
        sides = [re.sub(r" [a-wyz]+$", "", side) for side in line.split(" = ")]
        values = {value(side, Fraction(answer)) for side in sides}
        assert len(sides) > 1 and len(values) == 1, line


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_thousand_problems_over_four_levels(family, level):
    problems, again = (load_problems(family, level=level) for _ in range(2))
    solve = globals()[f"solve_{family}"]
    questions = set()
    for index in range(250):
        problem = problems.problem(index)
        assert problem == again.problem(index)
        assert Fraction(problem.answer) == solve(problem.question), problem
        check_working(problem.solution, problem.answer)
        assert GRADE(problem.solution, problem.answer).score == 1.0
        body, _, _ = problem.solution.rpartition(" ")
        for changed in (Fraction(problem.answer) + 1, Fraction(problem.answer) - 10):
            assert GRADE(f"{body} {changed}", problem.answer).score == 0.0
        assert (problem.level, problem.subject) == (str(level), family)
        assert problems.longest.holds(problem.question, problem.solution)
        assert problem.question.isascii() and problem.solution.isascii()
        questions.add(problem.question)
    assert len(questions) > 225


@pytest.mark.parametrize("family", FAMILIES)
def test_splits_share_no_question_even_across_levels(family):
    for split in ("train", "validation", "test"):
        for level in LEVELS:
            problems = load_problems(family, split=split, level=level)
            for index in range(40):
                problem = problems.problem(index)
                assert split_of(problem.question) == split
                assert problem.id == f"{family}/{split}/{level}/{index}"


@pytest.mark.parametrize("family", FAMILIES)
def test_default_budgets_hold_every_prompt_and_solution(family):
    for level in LEVELS:
        env = gym.make("MathReason-v0", problems=family, level=level).unwrapped
        for index in range(25):
            env.reset(options={"index": index})
            target = env.tokenizer.encode(env.prompt.target(env.problem))
            result = env.play([*target, env.tokenizer.eos_token_id])
            assert result[1:4] == (1.0, True, False)


def test_levels_ask_for_more_steps():
    for family in FAMILIES:
        shortest, longest = (
            sum(
                load_problems(family, level=level).problem(index).solution.count("\n")
                for index in range(100)
            )
            for level in (1, 4)
        )
        assert longest > 1.5 * shortest, family


def test_a_story_counts_its_steps():
    for level in LEVELS:
        for index in range(50):
            assert procedural.word(level=level).problem(index).solution.count("\n") == level


@pytest.mark.parametrize("family", FAMILIES)
def test_sets_are_picklable(family):
    problems = load_problems(family, split="test", level=4)
    assert pickle.loads(pickle.dumps(problems)).problem(5) == problems.problem(5)


def test_levels_are_checked():
    for level in (0, 5, True, "hard"):
        with pytest.raises(
            ValueError, match=rf"level must be one of \[1, 2, 3, 4\], got {level!r}"
        ):
            procedural.sequences(level=level)
