"""Shipped configs are found by path and by name, from a checkout and from a wheel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import agents
from agents.core import config_files
from agents.core.config_files import find_config


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one shipped config, as seen from agents/core/config_files.py."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "configs" / "tiny_vineppo.yaml").write_text("seed: 1\n")
    monkeypatch.setattr(config_files, "__file__", str(tmp_path / "agents/core/config_files.py"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


@pytest.mark.parametrize("name", ["tiny_vineppo", "tiny_vineppo.yaml", "configs/tiny_vineppo.yaml"])
def test_shipped_names_from_any_folder(checkout: Path, name: str) -> None:
    assert find_config(name).read_text() == "seed: 1\n"


def test_a_file_wins_over_a_shipped_name(checkout: Path) -> None:
    Path("tiny_vineppo.yaml").write_text("seed: 2\n")
    assert find_config("tiny_vineppo.yaml").read_text() == "seed: 2\n"


@pytest.mark.parametrize("name", ["tiny_vinepo", "other/tiny_vineppo.yaml"])
def test_an_unknown_name_suggests_the_nearest(checkout: Path, name: str) -> None:
    with pytest.raises(ValueError, match="Did you mean 'tiny_vineppo'"):
        find_config(name)


def test_a_wheel_ships_them_as_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site-packages" / "agents"
    (installed / "configs").mkdir(parents=True)
    (installed / "configs" / "tiny_vineppo.yaml").write_text("seed: 3\n")
    monkeypatch.chdir(tmp_path)  # away from this checkout's own configs/
    monkeypatch.setattr(config_files, "__file__", str(installed / "core/config_files.py"))
    monkeypatch.setattr(agents, "__path__", [str(installed)])
    monkeypatch.delitem(sys.modules, "agents.configs", raising=False)
    monkeypatch.delattr(agents, "configs", raising=False)
    try:
        assert find_config("configs/tiny_vineppo.yaml").read_text() == "seed: 3\n"
    finally:
        sys.modules.pop("agents.configs", None)
