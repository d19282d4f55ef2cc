"""Tokenizer, segmenters, readers of data and drawings on whatever may be written."""

import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st

from lang_env import Problem, Snapshot
from lang_env.prompt_files import prompt_from
from lang_env.rendering import draw_episode, draw_text
from lang_env.segmenters import SEGMENTERS, get_segmenter
from lang_env.sources.jsonl import jsonl
from lang_env.tokenizers import load_tokenizer
from tests.fuzzing import JSON, TEXTS, fuzzed

TOKENIZER = load_tokenizer("builtin")
ACTED_ON = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What a terminal acts on, newlines and tabs aside."""


@fuzzed(10_000, text=TEXTS)
def test_the_tokenizer_gives_text_back(text):
    text = text.encode("utf-8", "replace").decode()
    ids = TOKENIZER.encode(text)
    assert all(0 <= token < len(TOKENIZER) for token in ids)
    assert TOKENIZER.decode(ids) == text


@fuzzed(10_000, ids=st.lists(st.integers(0, len(TOKENIZER) - 1), max_size=30))
def test_any_tokens_are_cut_into_steps(ids):
    assert isinstance(TOKENIZER.decode(ids), str)
    for name in [*SEGMENTERS, "fixed_tokens:3"]:
        borders = get_segmenter(name)(ids, TOKENIZER)
        assert borders == sorted(set(borders))
        assert not ids or (borders[0] == 0 and borders[-1] < len(ids))


@fuzzed(8_000, text=TEXTS)
def test_any_text_is_cut_into_steps(text):
    ids = TOKENIZER.encode(text.encode("utf-8", "replace").decode())
    for name in [*SEGMENTERS, "fixed_tokens:3"]:
        borders = get_segmenter(name)(ids, TOKENIZER)
        assert borders == sorted(set(borders))
        assert not ids or (borders[0] == 0 and borders[-1] < len(ids))


@fuzzed(4_000, row=JSON)
def test_a_prompt_file_is_read_or_named(row):
    try:
        prompt_from(row, "own.json")
    except ValueError as error:
        assert "own.json" in str(error) or "prompt" in str(error)


@fuzzed(8_000, text=st.one_of(TEXTS, JSON.map(json.dumps)))
def test_a_snapshot_is_read_or_refused(text):
    with pytest.raises(ValueError):
        Snapshot.from_json(text)


@fuzzed(4_000, question=TEXTS, steps=st.lists(TEXTS, max_size=4))
def test_a_drawing_holds_nothing_that_a_terminal_acts_on(question, steps):
    drawing = draw_episode(Problem(question, question, "1"), steps, None, used=1, budget=5)
    shown = re.sub("\x1b\\[[0-9;]*m", "", draw_text(drawing))  # our own colours
    assert not ACTED_ON.search(shown)


DATA = Path(tempfile.mkdtemp()) / "problems.jsonl"


@fuzzed(8_000, lines=st.lists(st.one_of(TEXTS, JSON.map(json.dumps)), max_size=3))
def test_a_data_file_is_read_or_named(lines):
    DATA.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    try:
        jsonl(data=DATA)
    except ValueError as error:
        assert str(DATA) in str(error)
