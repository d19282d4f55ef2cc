"""Every example in a docstring is run."""

import doctest
import importlib
import pkgutil
from importlib.util import find_spec

import pytest

EXTRAS = {"agents.engines.vllm_sampling": "vllm"}
"""Modules that import a package which only an extra installs."""


def modules(package: str) -> list[str]:
    path = importlib.import_module(package).__path__
    found = [module.name for module in pkgutil.walk_packages(path, f"{package}.")]
    usable = [name for name in found if name not in EXTRAS or find_spec(EXTRAS[name])]
    return [package, *(name for name in usable if not name.endswith("__main__"))]


@pytest.mark.parametrize("package", ["graders", "lang_env", "agents"])
def test_examples_hold(package):
    attempted = 0
    for name in modules(package):
        result = doctest.testmod(importlib.import_module(name))
        assert result.failed == 0, name
        attempted += result.attempted
    assert attempted > 0
