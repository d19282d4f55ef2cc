"""MATH and MATH-500: partitions, answers, levels and subjects, and the public files if at hand."""

import json
import os
import sys
import types
from collections import Counter
from pathlib import Path

import gymnasium as gym
import pytest

import lang_env  # noqa: F401 - registers our ids
from lang_env.sources import math as module
from lang_env.sources.math import SUBJECTS, math, math500
from lang_env.sources.selection import text_hash

DATA = os.environ.get("LANG_ENV_DATA")
needs_data = pytest.mark.skipif(
    not DATA, reason="LANG_ENV_DATA names no folder with the public data sets"
)
KINDS = ("Algebra", "Counting & Probability", "Number Theory")


def row(number, **columns):
    return {
        "problem": f"What is ${number}+1$?",
        "level": f"Level {number % 5 + 1}",
        "type": KINDS[number % 3],
        "solution": f"It is $\\boxed{{{number + 1}}}$.",
    } | columns


def write(folder, name, rows):
    lines = [r if isinstance(r, str) else json.dumps(r) for r in rows]
    (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """120 training rows and 60 test rows, of which every 6th belongs to MATH-500."""
    tested = [row(1000 + number)["problem"] for number in range(0, 60, 6)]
    monkeypatch.setattr(module, "_math500_questions", lambda: frozenset(map(text_hash, tested)))
    write(tmp_path, "test", [row(1000 + number) for number in range(60)])
    return write(tmp_path, "train", [row(number) for number in range(120)])


def ids(source):
    return [source.problem(index).id for index in range(source.num_problems)]


def test_the_papers_partition_takes_from_both_files(folder):
    parts = {split: ids(math(data=folder, split=split)) for split in ("train", "validation")}
    test = ids(math(data=folder, split="test"))
    assert test == [f"math/test/{number}" for number in range(0, 60, 6)]
    others = [f"math/train/{number}" for number in range(120)]
    others += [f"math/test/{number}" for number in range(60) if number % 6]
    assert parts["validation"] == others[23::24] and len(parts["validation"]) == 7
    assert [one for one in others if one not in parts["validation"]] == parts["train"]


def test_the_original_partition(folder):
    original = {"data": folder, "partition": "original"}
    assert ids(math(**original)) == [f"math/train/{number}" for number in range(120)]
    assert ids(math(**original, split="test")) == [f"math/test/{number}" for number in range(60)]
    with pytest.raises(ValueError, match=r"no validation part. Pass holdout=0.05"):
        math(**original, split="validation")
    train = math(**original, holdout=0.1)
    validation = math(**original, holdout=0.1, split="validation")
    assert (train.num_problems, validation.num_problems) == (108, 12)
    assert not set(ids(train)) & set(ids(validation))


def test_levels_and_subjects(folder):
    source = math(data=folder, levels=["Level 1", 3], subjects=["counting_and_probability"])
    found = {source.problem(i) for i in range(source.num_problems)}
    assert {problem.level for problem in found} == {"1", "3"}
    assert {problem.subject for problem in found} == {"Counting & Probability"}
    everything = math(data=folder)
    kept = [
        problem.id
        for problem in map(everything.problem, range(everything.num_problems))
        if problem.level in ("1", "3") and problem.subject == "Counting & Probability"
    ]
    assert ids(source) == kept


def test_the_environment_takes_the_options(folder):
    env = gym.make("MATH-v0", data=str(folder), levels=2, subjects="algebra").unwrapped
    env.reset(seed=0)
    assert (env.problem.level, env.problem.subject) == ("2", "Algebra")
    assert env.segmenter.name == "sentences"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": 7}, r"no problem has level 7\. Known: 1, 2, 3, 4, 5"),
        ({"levels": []}, "must name at least one level"),
        ({"subjects": ["algebar"]}, "no problem has subject 'algebar'. Did you mean 'algebra'"),
        ({"split": "dev"}, "unknown split 'dev'"),
        ({"partition": "papers"}, "unknown partition 'papers'. Did you mean 'paper'"),
        ({"holdout": 0.1}, "its own validation part"),
    ],
)
def test_what_does_not_exist_is_refused(folder, options, message):
    with pytest.raises(ValueError, match=message):
        math(data=folder, **options)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "train.jsonl, line 2: no JSON object"),
        (row(1, problem=3), "line 2: column 'problem' is missing or no text"),
        (row(1, solution="It is 2."), r"line 2: 'solution' boxes no answer.*column 'answer'"),
        (row(1, problem="\ud83d"), "line 2: 'problem' holds half of a surrogate pair"),
    ],
)
def test_broken_lines_are_named(folder, line, message):
    with pytest.raises(ValueError, match=message):
        math(data=write(folder, "train", [row(0), line]))


def test_other_problems_have_no_paper_partition(folder, monkeypatch):
    monkeypatch.setattr(module, "_math500_questions", lambda: frozenset())
    with pytest.raises(ValueError, match=r"none of the problems of MATH-500 .*'original'"):
        math(data=folder)
    (folder / "test.jsonl").unlink()
    with pytest.raises(ValueError, match=r"test.jsonl does not exist; data must be a folder"):
        math(data=folder)


def test_answers_are_what_the_solution_boxes_last(tmp_path):
    solutions = {
        "$\\boxed{3}$, squared $\\boxed{9}$": "9",
        "$\\boxed{3}$ or $\\boxed{4}$": "3, 4",
        "$\\boxed{\\frac{1}{2}}$": "\\frac{1}{2}",
        "\\boxed{}": "",
    }
    write(tmp_path, "test", [row(i, solution=text) for i, text in enumerate(solutions)])
    source = math(data=tmp_path, split="test", partition="original")
    assert [source.problem(i).answer for i in range(4)] == list(solutions.values())


def test_math500_has_a_test_part_only(tmp_path):
    rows = [row(1, answer="two", subject="Algebra", level=4, unique_id="test/algebra/7.json")]
    write(tmp_path, "test", [*rows, row(2, answer="3")])
    source = math500(data=tmp_path)
    first = source.problem(0)
    assert (first.id, first.answer, first.level) == ("math500/test/algebra/7", "two", "4")
    assert ids(source)[1] == "math500/1"
    assert gym.make("MATH500-v0", data=str(tmp_path)).unwrapped.num_problems == 2
    with pytest.raises(ValueError, match=r"test part only, got split 'train'. Train .* MATH-v0"):
        math500(data=tmp_path, split="train")


def test_without_data_it_comes_from_the_hub(monkeypatch):
    asked = []

    def load_dataset(name, config, split):
        asked.append((name, config, split))
        return [row(hash_number) for hash_number in range(len(asked) * 10, len(asked) * 10 + 3)]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    assert math(split="test", partition="original").num_problems == 21
    assert asked == [("EleutherAI/hendrycks_math", subject, "test") for subject in SUBJECTS]
    asked.clear()
    assert math500().num_problems == 3
    assert asked == [("HuggingFaceH4/MATH-500", "default", "test")]


@needs_data
def test_the_partitions_of_the_public_files():
    data = Path(DATA) / "math"
    parts = {s: math(data=data, split=s) for s in ("train", "validation", "test")}
    assert [part.num_problems for part in parts.values()] == [11_500, 500, 500]
    original = [math(data=data, split=s, partition="original") for s in ("train", "test")]
    assert [part.num_problems for part in original] == [7_500, 5_000]
    owners = Counter()
    for part in parts.values():
        owners.update({text_hash(part.problem(i).question) for i in range(part.num_problems)})
    assert set(owners.values()) == {1}, "a question is in two splits"
    official = math500(data=f"{DATA}/math500")
    questions = {official.problem(i).question for i in range(500)}
    assert questions == {parts["test"].problem(i).question for i in range(500)}
    answers = {official.problem(i).question: official.problem(i).answer for i in range(500)}
    mine = [parts["test"].problem(i) for i in range(500)]
    assert sum(problem.answer != answers[problem.question] for problem in mine) == 1  # "3 or 4"


@needs_data
@pytest.mark.parametrize(
    ("name", "split"), [("MATH-v0", "validation"), ("MATH-v0", "test"), ("MATH500-v0", "test")]
)
def test_gold_solutions_are_right_and_every_prompt_fits(name, split):
    folder = "math500" if name == "MATH500-v0" else "math"
    env = gym.make(name, data=f"{DATA}/{folder}", split=split, max_new_tokens=7000).unwrapped
    assert (env.num_problems, env.num_filtered) == (500, 0)
    for index in env.valid_indices[::7]:
        env.reset(options={"index": index})
        target = env.tokenizer.encode(env.prompt.target(env.problem))
        _, reward, terminated, *_ = env.play([*target, env.tokenizer.eos_token_id])
        assert (reward, terminated) == (1.0, True), env.problem.id


@needs_data
def test_rows_without_level_or_answer_are_kept():
    source = math(data=f"{DATA}/math", partition="original")
    problems = [source.problem(i) for i in range(source.num_problems)]
    assert sum(problem.level == "" for problem in problems) == 2
    assert sum(problem.answer == "" for problem in problems) == 2
