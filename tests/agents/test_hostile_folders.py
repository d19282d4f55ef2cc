"""Model and run folders from a stranger: no pickle, no code, nothing outside the folder."""

import json
import pickle
import shutil

import pytest

from agents.core.checkpoint import load_checkpoint
from agents.core.loading import load_policy, tiny_folder
from agents.core.manifest import MANIFEST
from agents.rloo import main
from benchmarks.stopped_runs import command
from lang_env.tokenizers import load_tokenizer

TOKENIZER = load_tokenizer("builtin")


class Payload:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return open, (self.trace, "w")


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(tiny_folder(), tmp_path / "model")


def test_pickled_weights_are_not_opened(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    for name in ("pytorch_model.bin", "model.pt", "model.bin"):
        (folder / name).write_bytes(pickle.dumps(Payload(tmp_path / "trace")))
    with pytest.raises(ValueError, match="cannot load model"):
        load_policy(str(folder), TOKENIZER)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("model_type", ["llama", "own"])
def test_code_of_a_model_is_not_run(folder, tmp_path, model_type):
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {
        "AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel",
    }  # fmt: skip
    config["model_type"] = model_type
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')\n")
    try:
        load_policy(str(folder), TOKENIZER)
    except ValueError as error:
        assert "cannot load model" in str(error)
    assert not (tmp_path / "trace").exists()


def test_code_of_a_tokenizer_is_not_run(folder, tmp_path):
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}, "tokenizer_class": "Own"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')\n")
    try:
        load_tokenizer(str(folder))
    except ValueError as error:
        assert "cannot load tokenizer" in str(error)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_a_huge_file_is_refused_before_it_is_read(folder, name, monkeypatch):
    monkeypatch.setattr("agents.core.loading.MOST_BYTES", dict.fromkeys([name], 10))
    (folder / name).write_text('{"a": "0123456789"}')
    with pytest.raises(ValueError, match=rf"{name} has 19 bytes, more than 10"):
        load_policy(str(folder), TOKENIZER)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", "[1, 2"),
        ("config.json", '{"model_type": "llama", "hidden_size": -4}'),
        ("config.json", '{"model_type": "llama", "hidden_size": "wide"}'),
        ("config.json", "[" * 100_000),
        ("model.safetensors", "\x00" * 40),
        ("model.safetensors", '{"a": 1}'),
    ],
)
def test_a_broken_model_folder_gets_one_clear_line(folder, name, text):
    (folder / name).write_text(text)
    with pytest.raises(ValueError, match="cannot load model") as caught:
        load_policy(str(folder), TOKENIZER)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "run"
    assert main(command("rloo", run, iterations=1, eval_problems=0)) == 0
    return run / "checkpoints" / "step-1"


@pytest.mark.parametrize("name", ["../../config.yaml", "/etc/hostname", "a/b", "..", ""])
def test_a_manifest_names_files_of_its_folder_only(finished, tmp_path, name):
    checkpoint = shutil.copytree(finished.parents[1], tmp_path / "run") / "checkpoints" / "step-1"
    manifest = json.loads((checkpoint / MANIFEST).read_text())
    manifest["files"][name] = {"size": 1, "sha256": "0"}
    (checkpoint / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="missing, or not a file of the checkpoint"):
        load_checkpoint(checkpoint)


def test_a_link_out_of_a_checkpoint_is_refused(finished, tmp_path):
    checkpoint = shutil.copytree(finished.parents[1], tmp_path / "run") / "checkpoints" / "step-1"
    (tmp_path / "elsewhere").write_bytes((checkpoint / "model.safetensors").read_bytes())
    (checkpoint / "model.safetensors").unlink()
    (checkpoint / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="missing, or not a file of the checkpoint"):
        load_checkpoint(checkpoint)
