"""Which package imports which: graders <- lang_env <- agents, and nothing heavy early."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALLOWED = {
    "graders": {"graders"},
    "lang_env": {"graders", "lang_env"},
    "agents": {"graders", "lang_env", "agents"},
}
HEAVY = ("torch", "transformers", "tianshou", "datasets", "vllm")


def imported(source: str) -> set[str]:
    """Returns the top-level names that a file imports anywhere, lazily or not."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return {name.partition(".")[0] for name in names}


def test_the_walk_sees_lazy_imports():
    assert imported("def f():\n    from agents.core import x\n    import a.b") == {"agents", "a"}


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_arrows_point_one_way(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        names = imported(path.read_text(encoding="utf-8"))
        assert not (names & ALLOWED.keys()) - ALLOWED[package], path
        assert "" not in names, f"{path} uses a relative import"


@pytest.mark.parametrize(
    "code",
    [
        "import lang_env, graders",
        "import gymnasium, lang_env; gymnasium.make('MathReason-v0').reset(seed=0)",
    ],
)
def test_environments_load_nothing_heavy(code):
    check = (
        f"import sys; loaded = [m for m in {HEAVY} if m in sys.modules]; assert not loaded, loaded"
    )
    command = [sys.executable, "-c", f"{code}; {check}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_our_packages_win_over_others_of_the_same_name():
    import agents
    import graders
    import lang_env

    for package in (agents, graders, lang_env):
        assert Path(package.__file__).parents[1] == ROOT
