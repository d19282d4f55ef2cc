"""The examples are imported from their folder, as the commands in them do."""

import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def examples_folder(monkeypatch):
    """Makes the folder importable and returns it."""
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    return EXAMPLES
