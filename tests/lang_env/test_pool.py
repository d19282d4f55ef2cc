"""Which problems fit: filtering, counting and drawing."""

import numpy as np
import pytest

from lang_env import Problem, ProblemList
from lang_env.env import TokenEnv
from lang_env.pool import ProblemPool
from lang_env.prompts import get_prompt
from lang_env.tokenizers import load_tokenizer

PROBLEMS = [Problem(f"p{i}", f"{i}+1?", str(i + 1)) for i in range(8)]


def make(**options):
    options = {"max_prompt_tokens": 12, "max_new_tokens": 16} | options
    return TokenEnv(options.pop("problems", PROBLEMS), **options)


def test_overlong_prompts_of_a_finite_set_are_filtered():
    problems = [*PROBLEMS, Problem("long", "x" * 20, "1"), Problem("fits", "x" * 10, "1")]
    env = make(problems=ProblemList(problems))
    assert (env.num_problems, env.num_filtered) == (9, 1)
    assert env.valid_indices == (*range(8), 9)
    assert "long" not in {env.reset(seed=seed)[1]["problem_id"] for seed in range(60)}
    assert env.reset(options={"index": 9})[1]["problem_id"] == "fits"
    with pytest.raises(ValueError, match=r"'long' has 22 tokens.*Raise max_prompt_tokens to 22"):
        env.reset(options={"index": 8})
    assert make(problems=problems, max_prompt_tokens=40, max_length=13).num_problems == 9
    assert make(problems=problems, max_prompt_tokens=40, max_length=12).num_problems == 8
    with pytest.raises(ValueError, match="none of the 8 prompts fits into 3 tokens"):
        make(max_prompt_tokens=3)


def test_what_is_filtered_is_measured_in_tokens():
    problems = [Problem(f"{n}", "é" * n, "1") for n in range(1, 8)]  # two tokens each
    env = make(problems=problems, max_prompt_tokens=10)
    assert env.valid_indices == (0, 1, 2, 3)
    env = make(problems=[Problem(f"{n}", "x" * n, "1") for n in range(8, 14)])
    assert env.valid_indices == (0, 1, 2)  # 12 tokens hold BOS, ten characters and a newline
    env = make(problems=[Problem("w", " the" * 9, "1")], max_prompt_tokens=11)
    assert env.num_filtered == 0


def test_an_overlong_problem_of_a_generator_is_an_error():
    env = make(problems="chain")
    assert env.num_problems is None and env.valid_indices is None and env.num_filtered == 0
    with pytest.raises(ValueError, match="Raise max_prompt_tokens"):
        env.reset(seed=0)


class OneMerge:
    """A tokenizer that needs fewer tokens than characters, and no BOS."""

    name, fingerprint = "one_merge", "one_merge"
    bos_token_id = eos_token_id = pad_token_id = None
    asked = 0

    def __len__(self):
        return 256

    def encode(self, text):
        self.asked += 1
        return list(text.replace("xx", "y").encode())

    def decode(self, tokens):
        return bytes(tokens).decode()


def test_only_prompts_that_might_not_fit_are_encoded():
    tokenizer = OneMerge()
    problems = [Problem("a", "x" * 7, ""), Problem("b", "x" * 18, ""), Problem("c", "x" * 20, "")]
    pool = ProblemPool(ProblemList(problems), get_prompt("plain"), tokenizer, 10)
    assert tokenizer.asked == 2
    assert (pool.num_problems, pool.num_filtered, pool.valid_indices) == (2, 1, (0, 1))
    rng = np.random.default_rng(0)
    assert {pool.draw(rng)[0].id for _ in range(20)} == {"a", "b"}


def test_a_set_that_draws_only_what_was_filtered_is_named():
    class Stubborn(ProblemList):
        def sample(self, rng):
            return self.problem(1)

    problems = Stubborn([Problem("a", "x", "1"), Problem("b", "x" * 20, "1")])
    pool = ProblemPool(problems, get_prompt("plain"), load_tokenizer("builtin"), 10)
    with pytest.raises(RuntimeError, match="only problems that were filtered"):
        pool.draw(np.random.default_rng(0))


def test_an_empty_prompt_is_named():
    template = get_prompt("lang_env.prompts:PLAIN")
    pool = ProblemPool(ProblemList([Problem("a", "x", "1")]), template, Silent(), 10)
    with pytest.raises(ValueError, match="'a' has an empty prompt"):
        pool.by_index(0)


class Silent(OneMerge):
    """A tokenizer that gives no token for anything."""

    def encode(self, text):
        return []
