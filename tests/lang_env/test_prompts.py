"""Prompt templates: text, target, beginning-of-sequence token, look-up."""

import pytest

from graders import Verdict, get_grader
from lang_env import Problem
from lang_env.prompts import PROMPTS, PromptTemplate, get_prompt, with_bos
from lang_env.tokenizers import load_tokenizer

TOKENIZER = load_tokenizer("builtin")
PROBLEM = Problem("p", "What is {1}+1?", "2", "1+1=2\n#### 2")


def test_plain_is_the_question_and_a_newline():
    plain = get_prompt("plain")
    assert plain.text(PROBLEM) == "What is {1}+1?\n"
    assert plain.target(PROBLEM) == PROBLEM.solution
    assert plain.stop == ()


@pytest.mark.parametrize("name", ["gsm8k", "math"])
def test_the_papers_template(name):
    template = get_prompt(name)
    assert template.text(PROBLEM) == "[MATH_TASK] Problem:\nWhat is {1}+1?\n\nSolution:"
    assert template.target(PROBLEM) == "\n1+1=2\n#### 2\n"
    assert template.stop == ("\n\n\nProblem:",)


def test_every_name_is_its_template():
    for name in PROMPTS:
        assert get_prompt(name).name == name


def test_the_word_problems_shown_are_solved_in_the_format_that_is_graded():
    template = get_prompt("word_chat")
    grade = get_grader("gsm8k")
    assert template.is_chat and len(template.few_shot) == 2
    for problem in template.few_shot:
        assert grade(template.target(problem), problem.answer).verdict == Verdict.CORRECT
    asked = [message["role"] for message in template.messages(PROBLEM)]
    assert asked == ["user", "assistant", "user", "assistant", "user"]


def test_few_shot_examples_come_first():
    shown = Problem("s", "0+0?", "0", "#### 0")
    template = PromptTemplate("few", "Q: {question}\nA:", " {solution}", (), (shown, shown), "\n\n")
    assert template.text(Problem("p", "1+1?", "2")) == (
        "Q: 0+0?\nA: #### 0\n\nQ: 0+0?\nA: #### 0\n\nQ: 1+1?\nA:"
    )


def test_a_question_that_looks_like_a_placeholder_stays_as_it_is():
    template = PromptTemplate("t", "{x} {question} {solution}", "{question} {solution}")
    odd = Problem("p", "{solution} {question}", "2", "{question}")
    assert template.text(odd) == "{x} {solution} {question} {solution}"
    assert template.target(odd) == "{question} {question}"


def test_bos_stands_in_front_exactly_once():
    bos = TOKENIZER.bos_token_id
    ids = get_prompt("plain").encode(PROBLEM, TOKENIZER)
    assert ids == [bos, *TOKENIZER.encode("What is {1}+1?\n")]
    assert with_bos([bos, 5], TOKENIZER) == [bos, 5]
    spelled = get_prompt("plain").encode(Problem("p", "<s>", "1"), TOKENIZER)
    assert spelled[0] == bos and spelled.count(bos) == 1


def test_a_tokenizer_without_bos_gets_none():
    class NoBos:
        bos_token_id = None

    assert with_bos([5], NoBos()) == [5]


@pytest.mark.parametrize(
    ("template", "target"),
    [("no place", "{solution}"), ("{question}{question}", "{solution}"), ("{question}", "none")],
)
def test_a_template_needs_its_places(template, target):
    with pytest.raises(ValueError, match="in exactly one place"):
        PromptTemplate("t", template, target)


def test_look_up():
    own = PromptTemplate("own", "{question}")
    assert get_prompt(own) is own
    assert get_prompt("lang_env.prompts:PLAIN").name == "plain"
    with pytest.raises(ValueError, match="is a float, not a PromptTemplate"):
        get_prompt("math:pi")
    with pytest.raises(ValueError, match=r"unknown prompt 'plan'\. Did you mean 'plain'"):
        get_prompt("plan")
