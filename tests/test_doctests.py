"""Every example in a docstring is run."""

import doctest
import importlib
import pkgutil

import pytest


def modules(package: str) -> list[str]:
    path = importlib.import_module(package).__path__
    found = [module.name for module in pkgutil.walk_packages(path, f"{package}.")]
    return [package, *(name for name in found if not name.endswith("__main__"))]


@pytest.mark.parametrize("package", ["graders", "lang_env", "agents"])
def test_examples_hold(package):
    attempted = 0
    for name in modules(package):
        result = doctest.testmod(importlib.import_module(name))
        assert result.failed == 0, name
        attempted += result.attempted
    assert attempted > 0
