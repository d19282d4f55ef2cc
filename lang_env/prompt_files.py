"""Prompt templates of one's own as JSON: nothing to program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from graders.resolve import nearest
from lang_env.problem import Problem
from lang_env.prompts import PromptTemplate
from lang_env.sources.files import checked_text
from lang_env.sources.jsonl import COLUMNS, problem_from

MAX_FILE = 2**20
"""Longest file in bytes."""


def read_prompt(path: str | Path) -> PromptTemplate:
    r"""Reads a template from a JSON file: an object as in ``prompt_from``.

    Raises:
        ValueError: The file cannot be read, is too long or holds no template.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise ValueError(f"cannot read prompt {path}: {error.strerror or error}") from error
    if len(data) > MAX_FILE:
        raise ValueError(f"prompt {path} has more than {MAX_FILE:,} bytes")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"prompt {path} is no JSON object: {error}") from error
    return prompt_from(content, str(path))


def prompt_from(content: Any, name: str = "own") -> PromptTemplate:
    r"""Builds a template from a mapping with the fields of ``PromptTemplate``.

    Args:
        content: ``template`` with ``{question}`` in one place, and if wanted ``target_template``,
            ``stop`` (a string or a list), ``separator``, ``name``, ``chat`` (true, or options of
            the tokenizer's chat template), ``system`` and ``few_shot``: a list of problems as in a
            JSON-lines file, shown with their solutions.
        name: What to call it where it has no name; the file, for errors.

    Raises:
        ValueError: A field is unknown or of the wrong kind.

    >>> shown = [{"question": "1+1?", "solution": "It is 2.\n#### 2"}]
    >>> template = prompt_from({"template": "Q: {question}\nA: ", "few_shot": shown})
    >>> template.text(Problem("p", "2+2?", "4"))
    'Q: 1+1?\nA: It is 2.\n#### 2\n\n\nQ: 2+2?\nA: '
    """
    if not isinstance(content, Mapping):
        raise ValueError(f"prompt {name} must be a JSON object, got {type(content).__name__}")
    known = [field.name for field in fields(PromptTemplate)]
    for key in content:
        if key not in known:
            raise ValueError(
                f"prompt {name} has an unknown field {key!r}.{nearest(str(key), known)} "
                f"Known: {', '.join(known)}"
            )
    if "template" not in content:
        raise ValueError(
            f"prompt {name} needs a 'template' with {{question}} in it, has {[*content]}"
        )
    options = {"name": name, **content}
    for key in ("name", "template", "target_template", "separator", "system"):
        if key in options and not isinstance(options[key], str):
            raise ValueError(f"prompt {name}: {key} must be text, got {options[key]!r:.60}")
    stop = options.get("stop", ())
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list | tuple) or not all(isinstance(text, str) for text in stop):
        raise ValueError(f"prompt {name}: stop must be a text or a list of texts, got {stop!r:.60}")
    for text in (*(value for value in options.values() if isinstance(value, str)), *stop):
        checked_text(text, "template", f"prompt {name}")
    shown = options.get("few_shot", ())
    if not isinstance(shown, list | tuple) or not all(isinstance(row, Mapping) for row in shown):
        raise ValueError(f"prompt {name}: few_shot must be a list of problems, got {shown!r:.60}")
    return PromptTemplate(**options | {"stop": tuple(stop), "few_shot": tuple(_shown(shown, name))})


def _shown(rows: Any, name: str) -> list[Problem]:
    problems = []
    for number, row in enumerate(rows, start=1):
        where = f"prompt {name}, few_shot {number}"
        problem = problem_from(row, COLUMNS, f"shown/{number}", where)
        if not problem.solution:
            raise ValueError(f"{where}: no 'solution' to show")
        problems.append(problem)
    return problems
