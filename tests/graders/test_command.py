"""``python -m graders``, the table of names, and the doctests of the package."""

from __future__ import annotations

import doctest
import importlib
import json
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import graders
from graders import Grade, Verdict, get_grader
from graders.__main__ import main

CASES = [
    {"id": "a", "kind": "one", "gold": "4", "pred": "2^2", "expect": True},
    {"id": "b", "kind": "one", "gold": "4", "pred": "5", "expect": True},
    {"id": "c", "kind": "two", "gold": "4", "pred": "4", "expect": False},
    {"id": "d", "kind": "two", "gold": "4", "completion": "#### 4", "format": "gsm8k",
     "expect": True},
    {"id": "e", "gold": "", "completion": "\\boxed{4}", "format": "math"},
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, CASES)) + "\n\n")
    return str(path)


def test_summary(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([file, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    summary = json.loads(line)
    assert summary["accuracy"] == 0.5
    assert summary["false_positives"] == summary["false_negatives"] == summary["undecided"] == 1
    assert summary["by_kind"]["two"]["false_positives"] == 1 and summary["by_kind"]["all"]["n"] == 1
    assert 0 < summary["max_seconds"] < 60 and summary["n"] == 5


def test_table_names_wrong_cases(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([file, "--wrong"])
    out = capsys.readouterr().out
    assert "b: expected True, got wrong" in out and "accuracy 50.00 %" in out
    assert json.loads(out.splitlines()[-1])["n"] == 5


def test_bad_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"pred": "4"}\n')
    with pytest.raises(SystemExit):
        main([str(path)])
    assert "bad.jsonl:1: a case needs 'gold'" in capsys.readouterr().err
    path.write_text("{\n")
    with pytest.raises(SystemExit):
        main([str(path)])
    assert "no JSON" in capsys.readouterr().err


def test_names() -> None:
    assert get_grader("exact")("#### Paris ", "paris").score == 1.0
    assert get_grader("exact")("Rome", "paris").verdict is Verdict.WRONG
    assert get_grader("exact")("Rome", " ").verdict is Verdict.UNDECIDED
    assert get_grader("graders.numeric:grade_gsm8k")("#### 4", "4").score == 1.0
    with pytest.raises(ValueError, match="Did you mean 'gsm8k'"):
        get_grader("gsm8")
    half = get_grader(lambda completion, answer: 0.5)
    assert half("", "") == Grade(0.5, Verdict.WRONG)
    assert pickle.loads(pickle.dumps(get_grader("math")))("\\boxed{4}", "4").score == 1.0
    assert pickle.loads(pickle.dumps(get_grader("graders.numeric:grade_gsm8k")))("4", "4")


def test_empty_references_are_refused() -> None:
    for name in ("math", "gsm8k", "exact"):
        assert get_grader(name)("\\boxed{4}", "").verdict is Verdict.UNDECIDED
        assert get_grader(name)("", "").verdict is Verdict.UNDECIDED


def test_import_is_light() -> None:
    code = (
        "import sys, graders; g = graders.get_grader('math'); g('\\\\boxed{x+1}', '1+x');"
        "print('sympy' in sys.modules, 'torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]


MODULES = [module.name for module in pkgutil.iter_modules(graders.__path__)]


@pytest.mark.parametrize("name", ["", *MODULES])
def test_doctests(name: str) -> None:
    module = importlib.import_module(f"graders.{name}" if name else "graders")
    assert doctest.testmod(module).failed == 0
