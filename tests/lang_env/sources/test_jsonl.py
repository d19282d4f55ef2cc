"""Problems of one's own: fields, answers, splits, hold-out, broken and hostile lines."""

import json
import shutil

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lang_env  # noqa: F401 - registers our ids
from lang_env import Problem
from lang_env.sources import files, load_problems
from lang_env.sources import jsonl as module
from lang_env.sources.jsonl import jsonl
from lang_env.sources.selection import held_out


def row(number, **columns):
    return {"question": f"{number}+1?", "answer": number + 1} | columns


def write(path, rows):
    lines = [r if isinstance(r, str) else json.dumps(r) for r in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "mine.jsonl", [row(number) for number in range(20)])


def problems(source):
    return [source.problem(index) for index in range(source.num_problems)]


def one(tmp_path, line, **options):
    return jsonl(data=write(tmp_path / "one.jsonl", [line]), **options).problem(0)


def test_a_file_becomes_an_environment(file):
    env = gym.make("MathReason-v0", problems="jsonl", data=str(file)).unwrapped
    env.reset(options={"index": 0})
    answer = [*env.tokenizer.encode(f"#### {env.problem.answer}"), env.tokenizer.eos_token_id]
    assert env.play(answer)[1] == 1.0
    assert env.num_problems == 18


def test_a_tenth_is_held_out_and_no_question_is_on_both_sides(file):
    train, validation = (problems(jsonl(data=file, split=s)) for s in ("train", "validation"))
    assert (len(train), len(validation)) == (18, 2)
    assert not {p.question for p in train} & {p.question for p in validation}
    ids = [f"mine/{number}" for number in range(20)]
    assert sorted(p.id for p in train + validation) == sorted(ids)
    write(file, [row(number) for number in reversed(range(20))])
    again = problems(jsonl(data=file, split="validation"))
    assert {p.question for p in again} == {p.question for p in validation}
    others = {
        tuple(p.id for p in problems(jsonl(data=file, split="validation", holdout_seed=seed)))
        for seed in range(5)
    }
    assert len(others) > 1


@given(numbers=st.lists(st.integers(0, 9), min_size=2), fraction=st.floats(0.01, 0.99))
def test_equal_questions_stay_together(numbers, fraction):
    every = [Problem(str(i), f"{number}?", "1") for i, number in enumerate(numbers)]
    if len(set(numbers)) == 1:
        with pytest.raises(ValueError, match="needs two different questions, got 1"):
            held_out(every, fraction)
        return
    train, out = held_out(every, fraction)
    assert train and out and len(train) + len(out) == len(every)
    assert not {p.question for p in train} & {p.question for p in out}


ODD = "<s>{question}\x1b[31m\u2028"


@pytest.mark.parametrize(
    ("line", "question", "answer", "solution"),
    [
        ({"problem": "a", "question": "b", "answer": "1"}, "a", "1", ""),
        ({"prompt": "a", "answer": " 1 "}, "a", "1", ""),
        ({"question": "a", "answer": 0.5}, "a", "0.5", ""),
        ({"question": "a", "answer": 0}, "a", "0", ""),
        ({"question": "a", "answer": "5 apples"}, "a", "5 apples", ""),
        ({"question": "a", "answer": "2+3\n#### 5"}, "a", "5", "2+3\n#### 5"),
        ({"question": "a", "answer": "so \\boxed{5}"}, "a", "5", "so \\boxed{5}"),
        ({"question": "a", "answer": None, "solution": "so \\boxed{5}"}, "a", "5", "so \\boxed{5}"),
        ({"question": "a", "answer": "5", "solution": "#### 6"}, "a", "5", "#### 6"),
        ({"question": ODD, "answer": "1"}, ODD, "1", ""),
    ],
)
def test_question_answer_and_solution(tmp_path, line, question, answer, solution):
    problem = one(tmp_path, line)
    assert (problem.question, problem.answer, problem.solution) == (question, answer, solution)


def test_other_columns(tmp_path):
    line = row(1, id="x", level="Level 2", subject="sums")
    problem = one(tmp_path, line)
    assert (problem.id, problem.level, problem.subject) == ("x", "2", "sums")
    own = {"input": "1+1?", "label": "2", "topic": "sums"}
    fields = {"question": "input", "answer": "label", "subject": "topic"}
    problem = one(tmp_path, own, fields=fields)
    assert (problem.question, problem.answer, problem.subject) == ("1+1?", "2", "sums")
    bare = one(tmp_path, {"question": "a", "solution": "2"}, fields={"answer": "solution"})
    assert bare.answer == "2"


def test_levels_and_subjects_do_not_move_the_hold_out(tmp_path):
    rows = [row(i, level=i % 2, subject="ab"[i % 3 == 0]) for i in range(40)]
    file = write(tmp_path / "a.jsonl", rows)
    everything = {p.id for p in problems(jsonl(data=file, split="validation"))}
    some = problems(jsonl(data=file, split="train", levels=[1], subjects="a"))
    assert some and not everything & {p.id for p in some}
    assert {(p.level, p.subject) for p in some} == {("1", "a")}
    with pytest.raises(ValueError, match=r"no problem has level 7. Known: 0, 1"):
        jsonl(data=file, levels=7)


def test_lines_may_name_their_split(tmp_path):
    names = ["train", "train", "dev", "test"]
    file = write(tmp_path / "a.jsonl", [row(i, split=name) for i, name in enumerate(names)])
    sizes = [jsonl(data=file, split=s).num_problems for s in ("train", "validation", "test")]
    assert sizes == [2, 1, 1]
    with pytest.raises(ValueError, match=r"own validation problems; pass no holdout, got 0.2"):
        jsonl(data=file, holdout=0.2)
    write(file, [row(0, split="train"), row(1)])
    with pytest.raises(ValueError, match=r"line 2: split must be .* got ''.*each line or on none"):
        jsonl(data=file)
    write(file, [row(0, split="trian")])
    with pytest.raises(ValueError, match=r"line 1: split .*'trian'. Did you mean 'train'"):
        jsonl(data=file)


def test_a_folder_has_a_file_for_each_split(tmp_path):
    write(tmp_path / "train.jsonl", [row(i) for i in range(10)])
    assert jsonl(data=tmp_path, split="validation", holdout=0.3).num_problems == 3
    write(tmp_path / "validation.jsonl", [row(i) for i in range(50, 54)])
    assert jsonl(data=tmp_path).num_problems == 10
    assert jsonl(data=tmp_path, split="validation").num_problems == 4
    with pytest.raises(ValueError, match=r"no test problems \(it has train: 10, validation: 4\)"):
        jsonl(data=tmp_path, split="test")
    write(tmp_path / "test.jsonl", [row(99)])
    assert jsonl(data=tmp_path, split="test").problem(0).id == "test/0"
    shutil.rmtree(tmp_path)
    with pytest.raises(ValueError, match=r"does not exist; data must be a file of JSON lines"):
        jsonl(data=tmp_path)


def test_without_hold_out_there_is_no_validation(file):
    assert jsonl(data=file, holdout=0).num_problems == 20
    with pytest.raises(ValueError, match=r"no problem for validation \(holdout=0\).*holdout=0.1"):
        jsonl(data=file, split="validation", holdout=0)
    write(file, [row(0)])
    assert jsonl(data=file).num_problems == 1
    with pytest.raises(ValueError, match=r"no problem for validation .*--eval_problems 0"):
        jsonl(data=file, split="validation")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"mine.jsonl, line 2: no JSON object: .* Write one object a line, in UTF-8"),
        ("[1]", r"line 2: expected a JSON object, got list. Write one object a line"),
        ("[" * 100_000, r"line 2: no JSON object: it is nested too deeply"),
        ({"q": "1?", "answer": 1}, r"line 2: no question: 'problem' or .*'q'\].*fields="),
        ({"question": " ", "answer": 1}, r"line 2: no question"),
        ({"question": "1?"}, r"line 2: no answer: 'answer' is missing or empty; the line has"),
        ({"question": "1?", "answer": ""}, r"line 2: no answer"),
        ({"question": "1?", "answer": "\\boxed{}"}, r"line 2: no answer"),
        ({"question": "1?", "answer": "2 ####"}, r"line 2: no answer"),
        ({"question": "1?", "answer": True}, r"line 2: answer 'answer' must be text or a number"),
        ({"question": "1?", "answer": ["1"]}, r"must be text or a number, got \['1'\]"),
        ('{"question": "1?", "answer": NaN}', r"must be text or a number, got nan"),
        ({"question": [{"role": "user"}], "answer": 1}, r"chat messages: write the question"),
        ({"question": "1?", "solution": "it is 2"}, r"line 2: no 'answer', and 'solution' ends"),
        ({"question": "\ud800", "answer": 1}, r"line 2: 'question' holds half of a surrogate"),
        (row(1, id="mine/0"), r"line 2: id 'mine/0' is that of .*line 1 too"),
        (json.dumps(row(1)) + " " * 2**22, r"line 2: the line has more than 4,194,304 bytes"),
        ('{"question": "1?", "answer": ' + "1" * 5000 + "}", r"line 2: no JSON object"),
    ],
)
def test_broken_lines_are_named(tmp_path, line, message):
    file = write(tmp_path / "mine.jsonl", [row(0), line])
    with pytest.raises(ValueError, match=message):
        jsonl(data=file)


def test_bytes_that_are_no_text_and_other_limits(tmp_path, monkeypatch):
    file = tmp_path / "mine.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(row(0)).encode() + b"\r\n\xff\xfe\n")
    with pytest.raises(ValueError, match=r"line 2: no JSON object"):
        jsonl(data=file)
    write(file, [row(0), row(1)])
    monkeypatch.setattr(module, "MAX_PROBLEMS", 1)
    with pytest.raises(ValueError, match=r"line 2: more than 1 problems"):
        jsonl(data=file)
    monkeypatch.setattr(files, "MAX_LINE", 10)
    with pytest.raises(ValueError, match=r"line 1: the line has more than 10 bytes"):
        jsonl(data=file)
    write(file, ["", " "])
    with pytest.raises(ValueError, match=r"mine.jsonl holds no problem"):
        jsonl(data=file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": None}, r"needs data \(--data on the command line\)"),
        ({"fields": {"anser": "x"}}, r"unknown field 'anser'. Did you mean 'answer'"),
        ({"fields": {"answer": 3}}, r"fields\['answer'\] must name a column, got 3"),
        ({"fields": "answer"}, r"fields must map a field to a column, got 'answer'"),
        ({"holdout": 1.0}, r"holdout must be a share of the problems in \[0, 1\), got 1.0"),
        ({"split": "test"}, r"no test problems \(it has train: 20\)"),
    ],
)
def test_options_that_do_not_fit_are_refused(file, options, message):
    with pytest.raises(ValueError, match=message):
        jsonl(**{"data": file} | options)


@settings(deadline=None)
@given(line=st.binary(max_size=60))
def test_any_line_is_read_or_named(tmp_path_factory, line):
    file = tmp_path_factory.mktemp("any") / "any.jsonl"
    file.write_bytes(line)
    try:
        jsonl(data=file)
    except ValueError as error:
        assert "any.jsonl" in str(error)


EVERY = [Problem(str(i), f"{i}?", "1", level=str(i % 2)) for i in range(10)]


def test_lists_from_python():
    assert load_problems(EVERY, split="validation").num_problems == 10
    kept = [load_problems(EVERY, split=s, holdout=0.2) for s in ("train", "validation")]
    assert [part.num_problems for part in kept] == [8, 2]
    parts = {"train": EVERY[:6], "validation": EVERY[6:9], "test": EVERY[9:]}
    sizes = [load_problems(parts, split=s).num_problems for s in ("train", "validation", "test")]
    assert sizes == [6, 3, 1]
    assert load_problems({"train": EVERY}, split="validation").num_problems == 1
    assert load_problems(EVERY, levels=1).num_problems == 5
    with pytest.raises(ValueError, match=r"unknown split 'dev' in problems"):
        load_problems({"dev": EVERY})
    with pytest.raises(ValueError, match=r"takes no data, got 'x'"):
        load_problems(EVERY, data="x")
    env = gym.make("MathReason-v0", problems=parts, split="test").unwrapped
    assert env.num_problems == 1
