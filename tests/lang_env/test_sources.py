"""What ``problems=`` may be, and which options reach the source."""

import numpy as np
import pytest

from lang_env import Problem, ProblemList
from lang_env.sources import SOURCES, load_problems
from lang_env.sources.mixture import Mixture

ONE = Problem("one", "1+1?", "2")


class Recorder(ProblemList):
    """A source that remembers its options."""

    def __init__(self, **options):
        super().__init__([ONE])
        self.options = options


def without_split(*, level=1):
    return ProblemList([Problem(str(level), "1+1?", "2")])


FILES = {"gsm8k", "jsonl", "math", "math500", "olympiadbench"}


@pytest.mark.parametrize("name", sorted(set(SOURCES) - FILES))
def test_procedural_sources_by_name(name):
    for split in ("train", "validation", "test"):
        problem = load_problems(name, split=split, level=1).problem(0)
        assert problem.id.startswith(f"{name}/{split}/1/")


def test_a_list_of_names_is_a_mixture():
    mixture = load_problems(["word", "linear", "word"], split="test", level=2)
    assert (mixture.num_problems, mixture.levels) == (None, (1, 2, 3, 4))
    ids = [mixture.problem(index).id for index in range(6)]
    word, linear = "word/test/2/", "linear/test/2/"
    assert ids == [f"{word}0", f"{linear}0", f"{word}1", f"{word}2", f"{linear}1", f"{word}3"]
    rng = np.random.default_rng(0)
    drawn = [mixture.sample(rng).subject for _ in range(600)]
    assert set(drawn) == {"word", "linear"} and 350 < drawn.count("word") < 450
    longest = [load_problems(name, level=2).longest for name in ("word", "linear")]
    assert mixture.longest == longest[0] | longest[1]


def test_a_mixture_needs_endless_sources():
    parts = {"word": load_problems("word"), "own": ProblemList([ONE])}
    with pytest.raises(ValueError, match=r"but 'own' has 1 problems\. Use it alone"):
        Mixture(parts, ["word", "own"])


def test_ready_sets_are_used_as_they_are():
    ready = ProblemList([ONE])
    assert load_problems(ready, split="test") is ready
    assert load_problems([ONE]).problem(0) is ONE
    assert load_problems((ONE,), split="validation").num_problems == 1


def test_a_maker_gets_the_options_that_it_names():
    source = load_problems(Recorder, split="test", level=3, data="folder")
    assert source.options == {"split": "test", "level": 3, "data": "folder"}
    assert load_problems(Recorder).options == {"split": "train"}
    assert load_problems(without_split, level=4).problem(0).id == "4"
    with pytest.raises(ValueError, match="takes no data, got 'folder'"):
        load_problems(without_split, data="folder")


def test_an_importable_source():
    name = "lang_env.sources.procedural:ledger"
    assert load_problems(name, level=2).problem(0) == load_problems("ledger", level=2).problem(0)


@pytest.mark.parametrize(
    ("problems", "message"),
    [
        ("gsm9k", r"unknown problems 'gsm9k'\. Did you mean 'gsm8k'"),
        ("math:pi", "is a float, neither a ProblemSet nor"),
        (lambda: 3, "is a int, neither a ProblemSet nor"),
        ([3], "Problem objects only"),
        ([], "at least one problem, got none"),
        ([ONE, ONE], "problem id 'one' occurs twice"),
    ],
)
def test_what_is_no_source_is_refused(problems, message):
    with pytest.raises(ValueError, match=message):
        load_problems(problems)
