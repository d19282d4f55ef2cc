"""Trainer state comes back as it was, and a stranger's file is refused."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agents.core import state_tree
from agents.core.state_tree import load_tree, save_tree


def test_everything_comes_back(tmp_path):
    tree = {
        "optimizer": {0: {"step": torch.tensor(3.0), "m": torch.randn(2, 3).bfloat16().t()}},
        "rows": [np.arange(3), np.zeros(0), None, True, "text\x00"],
        "__tensor__": 1,
        "best": -math.inf,
        "scalar": np.float64(0.5),
    }
    save_tree(tmp_path, "state", tree)
    back = load_tree(tmp_path, "state")
    assert list(back) == list(tree)
    moments = back["optimizer"][0]
    assert torch.equal(moments["m"], tree["optimizer"][0]["m"])
    assert moments["m"].dtype == torch.bfloat16
    assert back["rows"][0].tolist() == [0, 1, 2]
    assert back["rows"][1].shape == (0,)
    assert (back["__tensor__"], back["best"], back["scalar"]) == (1, -math.inf, 0.5)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), plain))
def test_any_plain_tree_comes_back(tree):
    flat, tensors = state_tree.flatten(tree)
    assert tensors == {}
    assert state_tree.unflatten(json.loads(json.dumps(flat)), {}) == tree


def test_what_it_cannot_hold_is_named():
    with pytest.raises(TypeError, match="cannot hold object"):
        state_tree.flatten({"x": object()})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "must hold a JSON object"),
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ('{"a": {"__array__": "7"}}', "not a trainer state"),
        ('{"a": {"__pairs__": [[[], 1]]}}', "not a trainer state"),
        ('{"a": {"__number__": "x"}}', "not a trainer state"),
        ('{"__number__": "1.0"}', "not a trainer state"),
    ],
)
def test_a_strangers_file_is_refused(tmp_path, text, said):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(ValueError, match=said):
        load_tree(tmp_path, "state")


def test_a_huge_file_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(state_tree, "MOST_JSON_BYTES", 10)
    (tmp_path / "state.json").write_text('{"a": "0123456789"}')
    with pytest.raises(ValueError, match="19 bytes, more than 10"):
        load_tree(tmp_path, "state")


def test_tensors_that_are_none_are_refused(tmp_path):
    save_tree(tmp_path, "state", {"a": np.ones(1)})
    (tmp_path / "state.safetensors").write_bytes(b"\x80\x04pickle")
    with pytest.raises(ValueError, match="not a safetensors file"):
        load_tree(tmp_path, "state")
