"""Prompt templates as JSON: what is read, and what is refused with its name."""

import json

import gymnasium as gym
import pytest

import lang_env  # noqa: F401 - registers our ids
from lang_env import Problem
from lang_env import prompt_files as module
from lang_env.prompt_files import prompt_from, read_prompt
from lang_env.prompts import get_prompt

CONTENT = {
    "template": "Q: {question}\nA:",
    "target_template": " {solution}\n",
    "stop": "\nQ:",
    "separator": "\n",
    "few_shot": [{"question": "1+1?", "solution": "2.\n#### 2"}],
}


def test_a_file_becomes_a_template(tmp_path):
    path = tmp_path / "own.json"
    path.write_text(json.dumps(CONTENT), encoding="utf-8")
    template = get_prompt(str(path))
    assert template == read_prompt(path)
    assert template.text(Problem("p", "2+2?", "4")) == "Q: 1+1?\nA: 2.\n#### 2\n\nQ: 2+2?\nA:"
    assert (template.name, template.stop) == (str(path), ("\nQ:",))
    env = gym.make("MathReason-v0", prompt=str(path), max_prompt_tokens=300).unwrapped
    env.reset(seed=0)
    asked = env.tokenizer.decode(env.prompt_tokens)
    assert asked == template.text(env.problem)
    assert env.stop == ("\nQ:",)


def test_a_mapping_becomes_a_template():
    template = get_prompt({"template": "{question}", "name": "bare", "stop": ["a", "b"]})
    assert (template.name, template.stop, template.few_shot) == ("bare", ("a", "b"), ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"templat": "x"}, "unknown field 'templat'. Did you mean 'template'"),
        ({"template": 3}, "template must be text, got 3"),
        ({"template": "no place"}, "needs {question} in exactly one place"),
        ({"template": "\ud800{question}"}, "half of a surrogate pair"),
        ({"stop": [1]}, "stop must be a text or a list of texts"),
        ({"system": 1}, "system must be text, got 1"),
        ({"chat": "yes"}, "chat_template must be true, false or options"),
        ({"few_shot": "x"}, "few_shot must be a list of problems"),
        ({"few_shot": [{"question": "1?"}]}, "few_shot 1: no answer"),
        ({"few_shot": [{"question": "1?", "answer": 1}]}, "few_shot 1: no 'solution' to show"),
    ],
)
def test_broken_templates_are_named(change, message):
    with pytest.raises(ValueError) as error:
        prompt_from(CONTENT | change)
    assert message in str(error.value)


def test_broken_files_are_named(tmp_path, monkeypatch):
    path = tmp_path / "own.json"
    broken = {
        b"{": "is no JSON object",
        b"[1]": "must be a JSON object, got list",
        b"{}": "needs a 'template'",
        b"[" * 99_999: "no JSON object",
    }
    for data, message in broken.items():
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message):
            get_prompt(str(path))
    monkeypatch.setattr(module, "MAX_FILE", 10)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        get_prompt(str(path))
    path.unlink()
    with pytest.raises(ValueError, match=r"cannot read prompt .*own.json: No such file"):
        get_prompt(str(path))
