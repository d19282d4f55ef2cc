"""OlympiadBench from local files of the hub's columns."""

import json

import gymnasium as gym
import pytest

import lang_env  # noqa: F401
from lang_env.sources.olympiad import olympiadbench

ROW = {
    "id": 1606, "question": "What is $1+1$?", "final_answer": ["$2$"], "solution": ["It is 2."],
    "subfield": "Algebra", "is_multiple_answer": False, "unit": None,
}  # fmt: skip


def write(folder, *rows):
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_columns_become_problems(tmp_path):
    other = ROW | {"id": 2, "subfield": "Geometry", "final_answer": ["3", "4"]}
    source = olympiadbench(data=write(tmp_path, ROW, other))
    problem = source.problem(0)
    assert (problem.id, problem.answer, problem.solution) == (
        "olympiadbench/1606", "$2$", "It is 2.",
    )  # fmt: skip
    assert source.problem(1).answer == "3, 4"
    assert olympiadbench(data=tmp_path, subjects="Geometry").num_problems == 1


def test_the_environment_grades_its_answers(tmp_path):
    env = gym.make("OlympiadBench-v0", data=str(write(tmp_path, ROW))).unwrapped
    env.reset(options={"index": 0})
    tokens = env.tokenizer.encode("The answer is $\\boxed{2}$.")
    *_, info = env.play([*tokens, env.tokenizer.eos_token_id])
    assert info["verdict"] == "correct"


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match="test part only, got split 'train'"):
        olympiadbench(data=tmp_path, split="train")
    with pytest.raises(ValueError, match=r"line 1: 'final_answer' must be a list of texts"):
        olympiadbench(data=write(tmp_path, ROW | {"final_answer": "2"}))
