"""Checkpoints open with transformers alone, and are never half there."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agents.core.checkpoint import save_checkpoint, save_tokenizer
from agents.core.loading import new_policy
from lang_env.tokenizers import load_tokenizer

INIT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1,
        "intermediate_size": 32}  # fmt: skip


@pytest.fixture
def tokenizer():
    return load_tokenizer("builtin")


def test_transformers_opens_it(tmp_path, tokenizer):
    policy = new_policy(INIT, tokenizer, seed=0)
    folder = save_checkpoint(tmp_path, 7, policy, tokenizer, {"agent": "vineppo"})
    assert folder == tmp_path / "checkpoints" / "step-7"
    model = AutoModelForCausalLM.from_pretrained(folder)
    for mine, theirs in zip(policy.model.parameters(), model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    theirs = AutoTokenizer.from_pretrained(folder)
    text = "a:=3+4;\nnaïve ≤ #### 12"
    assert theirs.encode(text, add_special_tokens=False) == tokenizer.encode(text)
    assert theirs.decode(tokenizer.encode(text)) == text
    assert (theirs.bos_token_id, theirs.eos_token_id) == (
        tokenizer.bos_token_id, tokenizer.eos_token_id,
    )  # fmt: skip
    assert load_tokenizer(str(folder)).fingerprint == tokenizer.fingerprint
    state = json.loads((folder / "trainer_state.json").read_text())
    assert state == {"iteration": 7, "agent": "vineppo"}
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}


def test_old_ones_go_and_latest_points_at_the_newest(tmp_path, tokenizer):
    policy = new_policy(INIT, tokenizer, seed=0)
    for step in (1, 2, 10):
        save_checkpoint(tmp_path, step, policy, tokenizer, {}, keep=2)
    parent = tmp_path / "checkpoints"
    assert sorted(path.name for path in parent.iterdir()) == ["latest", "step-10", "step-2"]
    assert (parent / "latest").read_text() == "step-10\n"


def test_a_failed_write_leaves_no_checkpoint(tmp_path, tokenizer, monkeypatch):
    policy = new_policy(INIT, tokenizer, seed=0)
    save_checkpoint(tmp_path, 1, policy, tokenizer, {})

    def fail(folder):
        raise OSError("disk full")

    monkeypatch.setattr(policy.model, "save_pretrained", fail)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(tmp_path, 2, policy, tokenizer, {})
    assert not (tmp_path / "checkpoints" / "step-2").exists()
    assert (tmp_path / "checkpoints" / "latest").read_text() == "step-1\n"


def test_a_tokenizer_that_cannot_be_saved_says_so(tmp_path):
    with pytest.raises(TypeError, match="int cannot be saved: no save_pretrained"):
        save_tokenizer(3, tmp_path)
