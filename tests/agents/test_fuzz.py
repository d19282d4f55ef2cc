"""Command lines, configs, checkpoints and the view on whatever may stand in them."""

import io
import json
import re
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import strategies as st
from rich.console import Console

from agents.core.config import command_errors
from agents.core.config_files import load_yaml
from agents.core.flags import parse_flags
from agents.core.manifest import MANIFEST, check_sealed, seal
from agents.core.options import Options
from agents.core.records import Sample
from agents.core.sample_view import draw_sample
from agents.core.state_tree import load_tree, save_tree
from agents.core.views import PlainView
from agents.vineppo import VinePPOConfig
from tests.fuzzing import JSON, TEXTS, fuzzed

ACTED_ON = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
FOLDER = Path(tempfile.mkdtemp())
NAMES = st.sampled_from([*VinePPOConfig.__dataclass_fields__, "levl", "no-such", "config"])
WORDS = st.one_of(TEXTS, st.integers().map(str), st.floats().map(str), st.just("true"))
SEALED = FOLDER / "sealed"


@fuzzed(
    8_000, pairs=st.lists(st.tuples(NAMES, WORDS), max_size=4), more=st.lists(TEXTS, max_size=1)
)
def test_a_command_line_is_read_or_refused(pairs, more):
    argv = [word for name, value in pairs for word in (f"--{name}", value)] + more
    argv = [word.replace("\x00", "") for word in argv]  # no command line can hold it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stderr", io.StringIO())
        patch.setattr("sys.stdout", io.StringIO())
        try:
            with command_errors():
                parse_flags(VinePPOConfig, argv, shared=Options, shared_title="x")
        except SystemExit as error:
            assert error.code in (0, 2)


@fuzzed(4_000, text=st.one_of(TEXTS, JSON.map(json.dumps)))
def test_a_config_file_is_read_or_named(text):
    path = FOLDER / "own.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load_yaml(VinePPOConfig, str(path))
    except ValueError as error:
        assert str(path) in str(error)


@fuzzed(8_000, text=st.one_of(TEXTS, JSON.map(json.dumps)))
def test_a_trainer_state_is_read_or_named(text):
    path = FOLDER / "trainer_state.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        assert isinstance(load_tree(FOLDER, "trainer_state"), dict)
    except ValueError as error:
        assert str(path) in str(error)


@fuzzed(4_000, place=st.integers(0, 2**20), byte=st.integers(1, 255), file=st.integers(0, 2))
def test_a_changed_byte_of_a_checkpoint_is_found(place, byte, file):
    """In every file but the manifest's list of versions and its blanks."""
    if not SEALED.exists():
        SEALED.mkdir()
        save_tree(SEALED, "trainer_state", {"step": 3, "moments": torch.arange(9.0)})
        seal(SEALED)
    copy = FOLDER / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(SEALED, copy)
    path = sorted(copy.iterdir())[file]
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= byte
    path.write_bytes(data)
    if path.name == MANIFEST:
        try:
            check_sealed(copy)
        except ValueError as error:
            assert str(copy) in str(error)
        return
    with pytest.raises(ValueError, match=re.escape(str(path))):
        check_sealed(copy)


@fuzzed(4_000, manifest=JSON)
def test_a_manifest_is_read_or_refused(manifest):
    folder = FOLDER / "strangers"
    folder.mkdir(exist_ok=True)
    content = {"versions": {}, "files": manifest}
    (folder / MANIFEST).write_text(json.dumps(content), encoding="utf-8")
    try:
        check_sealed(folder)
    except ValueError as error:
        assert str(folder) in str(error)


@fuzzed(6_000, question=TEXTS, steps=st.lists(TEXTS, min_size=1, max_size=4), reward=st.floats())
def test_a_sample_on_the_screen_holds_nothing_that_a_terminal_acts_on(question, steps, reward):
    numbers = tuple(reward for _ in steps)
    sample = Sample(question, tuple(steps), numbers, numbers, reward, question)
    screen = io.StringIO()
    Console(file=screen, width=80, color_system=None).print(draw_sample(sample, 1, 40))
    PlainView(screen, 1).header(question, {question: question})
    assert not ACTED_ON.search(screen.getvalue())
