"""GSM8K: splits, columns, broken files, and the public files where they are at hand."""

import json
import os
import re
import sys
import types
from pathlib import Path

import gymnasium as gym
import pytest

from lang_env.segmenters import get_segmenter
from lang_env.sources.gsm8k import gsm8k

DATA = os.environ.get("LANG_ENV_DATA")
needs_data = pytest.mark.skipif(
    not DATA, reason="LANG_ENV_DATA names no folder with the public data sets"
)


def row(number):
    return {"question": f"{number}+1?", "answer": f"It is <<{number}+1=5>>5.\n#### {number + 1}"}


def write(folder, name, rows):
    lines = [r if isinstance(r, str) else json.dumps(r) for r in rows]
    (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "test", [row(n) for n in range(3)])
    return write(tmp_path, "train", [row(n) for n in range(100)])


def problems(source):
    return [source.problem(index) for index in range(source.num_problems)]


def test_the_splits_are_disjoint_and_ordered(folder):
    train, validation = gsm8k(data=folder), gsm8k(data=folder, split="validation")
    assert (train.num_problems, validation.num_problems) == (95, 5)
    assert [p.id for p in problems(train) + problems(validation)] == [
        f"gsm8k/train/{n}" for n in range(100)
    ]
    assert [p.id for p in problems(gsm8k(data=str(folder), split="test"))] == [
        f"gsm8k/test/{n}" for n in range(3)
    ]


def test_a_problem_has_its_answer_and_a_solution_without_marks(folder):
    problem = gsm8k(data=folder).problem(4)
    assert (problem.question, problem.answer) == ("4+1?", "5")
    assert problem.solution == "It is 5.\n#### 5"


def test_line_separators_inside_a_text_do_not_break_lines(tmp_path):
    rows = [row(0) | {"question": "a\u2028b\x85c"}]
    data = write(tmp_path, "test", [json.dumps(rows[0], ensure_ascii=False), ""])
    assert gsm8k(data=data, split="test").problem(0).question == "a\u2028b\x85c"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([row(0), "{"], r"test.jsonl, line 2: no JSON object"),
        ([row(0), "[1]"], r"test.jsonl, line 2: expected a JSON object, got list"),
        (["", {"question": "1?"}], r"line 2: column 'answer' is missing.*\['question'\]"),
        ([{"question": 1, "answer": "#### 1"}], "line 1: column 'question' is missing or no text"),
        (
            [{"question": "1?", "answer": "1"}],
            "line 1: 'answer' must end in '#### number', got '1'",
        ),
        ([{"question": "1?", "answer": "1 ####"}], "line 1: 'answer' must end in"),
        (["[" * 100_000], "line 1: no JSON object"),
        ([], "test split is empty"),
    ],
)
def test_broken_lines_are_named(tmp_path, lines, message):
    with pytest.raises(ValueError, match=message):
        gsm8k(data=write(tmp_path, "test", lines), split="test")


def test_bytes_that_are_no_text_are_named(tmp_path):
    (tmp_path / "test.jsonl").write_bytes(json.dumps(row(0)).encode() + b"\n\xff\xfe\n")
    with pytest.raises(ValueError, match="line 2: no JSON object"):
        gsm8k(data=tmp_path, split="test")


def test_missing_files_and_splits_are_named(tmp_path, folder):
    with pytest.raises(ValueError, match=r"nowhere is no folder; data must be a folder that holds"):
        gsm8k(data=tmp_path / "nowhere")
    (folder / "test.jsonl").unlink()
    with pytest.raises(ValueError, match=r"test.jsonl does not exist; data must be"):
        gsm8k(data=folder, split="test")
    with pytest.raises(ValueError, match=r"unknown split 'dev'"):
        gsm8k(data=folder, split="dev")


def fake_datasets(monkeypatch, load_dataset):
    module = types.ModuleType("datasets")
    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)


def test_without_data_it_comes_from_the_hub(monkeypatch):
    asked = []

    def load_dataset(*args, **kwargs):
        asked.append((args, kwargs))
        return [row(n) for n in range(40)]

    fake_datasets(monkeypatch, load_dataset)
    assert gsm8k(split="validation").num_problems == 2
    assert gsm8k(split="test").num_problems == 40
    hub = ("openai/gsm8k", "main")
    assert asked == [(hub, {"split": "train"}), (hub, {"split": "test"})]


def test_no_network_says_what_to_do(monkeypatch):
    def offline(*args, **kwargs):
        raise ConnectionError("no route to host")

    fake_datasets(monkeypatch, offline)
    with pytest.raises(ValueError, match=r"ConnectionError: no route.*data=FOLDER.*train\.jsonl"):
        gsm8k()
    monkeypatch.setitem(sys.modules, "datasets", None)  # the package is not installed
    with pytest.raises(ValueError, match=r"data=FOLDER"):
        gsm8k()


@needs_data
def test_the_papers_split_of_the_public_files():
    data = Path(DATA) / "gsm8k"
    sizes = [gsm8k(data=data, split=s).num_problems for s in ("train", "validation", "test")]
    assert sizes == [7100, 373, 1319]


@needs_data
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_every_gold_solution_is_right_and_every_prompt_fits(split):
    env = gym.make("GSM8K-v0", data=f"{DATA}/gsm8k", split=split, max_new_tokens=1300).unwrapped
    assert env.num_filtered == 0
    step = 50 if split == "train" else 10
    for index in env.valid_indices[::step]:
        env.reset(options={"index": index})
        target = env.tokenizer.encode(env.prompt.target(env.problem))
        _, reward, terminated, *_ = env.play([*target, env.tokenizer.eos_token_id])
        assert (reward, terminated) == (1.0, True), env.problem.id
        assert "<<" not in env.problem.solution


@needs_data
def test_steps_of_the_gold_solutions():
    """The paper's rule gives 3.6 steps a solution; the causal one adds the answer line."""
    env = gym.make("GSM8K-v0", data=f"{DATA}/gsm8k", split="test").unwrapped
    source = gsm8k(data=f"{DATA}/gsm8k", split="test")
    tokens = [env.tokenizer.encode(env.prompt.target(p)) for p in problems(source)[:200]]
    counts = {}
    for name in ("newline", "newline_paper"):
        segmenter = get_segmenter(name)
        counts[name] = [len(segmenter(ids, env.tokenizer)) for ids in tokens]
    lines = [len(re.findall(r"\n+", p.solution)) for p in problems(source)[:200]]
    assert counts["newline"] == [n + 1 for n in lines]
    assert 3.0 < sum(counts["newline_paper"]) / 200 < 4.2
