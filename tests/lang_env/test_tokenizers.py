"""The built-in tokenizer: lossless, digits single, nothing in a text becomes a special token."""

import json
import pickle
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lang_env.sources.procedural import ledger
from lang_env.tokenizers import Tokenizer, build_builtin, load_tokenizer

TOKENIZER = load_tokenizer("builtin")


def test_the_shipped_file_is_what_the_code_builds():
    shipped = resources.files("lang_env").joinpath("assets/builtin_tokenizer.json").read_text()
    assert json.loads(shipped) == json.loads(build_builtin().to_str())


@given(st.text())
def test_any_text_decodes_to_itself(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(st.text(st.sampled_from("ab 0123456789:=;+-*?#\n</s>pad")))
def test_program_like_text_decodes_to_itself(text):
    tokens = TOKENIZER.encode(text)
    assert TOKENIZER.decode(tokens) == text
    assert all(0 <= token < len(TOKENIZER) for token in tokens)


def test_text_that_spells_a_special_token_stays_text():
    tokens = TOKENIZER.encode("</s><s><pad>")
    special = {TOKENIZER.eos_token_id, TOKENIZER.bos_token_id, TOKENIZER.pad_token_id}
    assert not special & set(tokens)
    assert TOKENIZER.decode(tokens) == "</s><s><pad>"
    assert TOKENIZER.decode([TOKENIZER.eos_token_id]) == ""


def test_digits_and_signs_are_single_and_the_answer_mark_is_whole():
    pieces = [TOKENIZER.decode([token]) for token in TOKENIZER.encode("12+345\n#### 67")]
    assert pieces == ["1", "2", "+", "3", "4", "5", "\n", "####", " ", "6", "7"]


def test_every_line_of_a_program_and_its_working_has_eight_tokens():
    """The embedded policy finds its place by distance: statement and step are equally long."""
    problem = ledger(level=3).problem(0)
    lines = problem.question.splitlines()[:-1] + problem.solution.splitlines()[:-2]
    assert {len(TOKENIZER.encode(line + "\n")) for line in lines} == {8}


def test_bytes_that_are_no_character_decode_without_error():
    for token in range(len(TOKENIZER)):
        assert isinstance(TOKENIZER.decode([token]), str)


def test_pickle_and_fingerprint():
    copy = pickle.loads(pickle.dumps(TOKENIZER))
    assert copy.fingerprint == TOKENIZER.fingerprint
    assert copy.encode("a:=3 é") == TOKENIZER.encode("a:=3 é")
    assert isinstance(TOKENIZER, Tokenizer)
    assert TOKENIZER.encode_batch(["a", "b1"]) == [TOKENIZER.encode("a"), TOKENIZER.encode("b1")]


def test_nothing_loadable_under_a_name(tmp_path):
    with pytest.raises(ValueError, match=r"cannot load tokenizer .*the folder holds none.*builtin"):
        load_tokenizer(str(tmp_path))


def test_a_hugging_face_folder_is_loaded(tmp_path):
    from agents.core.checkpoint import save_tokenizer

    save_tokenizer(TOKENIZER, tmp_path)
    loaded = load_tokenizer(str(tmp_path))
    assert isinstance(loaded, Tokenizer)
    assert loaded.fingerprint == TOKENIZER.fingerprint
    assert loaded.encode("a:=3+4; é") == TOKENIZER.encode("a:=3+4; é")
    assert loaded.encode_batch(["a:=3"]) == [TOKENIZER.encode("a:=3")]
    assert loaded.decode([*TOKENIZER.encode("x1"), TOKENIZER.eos_token_id]) == "x1"
    assert len(loaded) == len(TOKENIZER)
