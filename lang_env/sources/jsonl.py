"""Problems of one's own: JSON-lines files with a question and an answer on each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graders.extract import boxed_answer, hash_answer
from graders.resolve import nearest
from lang_env.problem import Problem, ProblemList
from lang_env.sources.files import checked_text, jsonl_rows, scalar_text
from lang_env.sources.selection import Level, held_out, level_name, select

COLUMNS = {
    "question": ("problem", "question", "prompt"),
    "answer": ("answer",),
    "solution": ("solution",),
    "id": ("id", "unique_id"),
    "level": ("level",),
    "subject": ("subject", "type"),
    "split": ("split",),
}
"""Field of a problem -> the columns it is looked for in; ``fields=`` names another one."""

HOLDOUT = 0.1
"""Share of the problems held out for validation where the data names no such part."""

MAX_PROBLEMS = 10**6
"""Most problems of a file."""

_SPLITS = {"train": "train", "validation": "validation", "test": "test"} | dict.fromkeys(
    ("val", "valid", "dev"), "validation"
)
_LAYOUT = (
    'a file of JSON lines such as {"question": "6*7?", "answer": "42"}, or a folder with '
    "train.jsonl and, if there are such parts, validation.jsonl and test.jsonl"
)


def jsonl(
    *,
    data: str | Path | None = None,
    split: str = "train",
    fields: Mapping[str, str] | None = None,
    holdout: float | None = None,
    holdout_seed: int = 0,
    levels: Level | Sequence[Level] | None = None,
    subjects: str | Sequence[str] | None = None,
) -> ProblemList:
    r"""Loads problems from JSON lines.

    A line needs a question ("problem", "question" or "prompt") and an "answer" or a "solution" that
    ends in one (``#### 42`` or ``\boxed{42}``); "id", "level", "subject" and "split" are read if
    they are there. Without a part for validation, a tenth of the training problems is held out.

    Args:
        data: A file, or a folder with ``train.jsonl`` and perhaps ``validation.jsonl`` and
            ``test.jsonl``.
        split: "train", "validation" or "test".
        fields: Columns of other names, such as ``{"question": "input", "answer": "label"}``.
        holdout: Share of the training problems to hold out for validation (default 0.1); 0: none.
        holdout_seed: Another seed holds out others.
        levels: Levels to keep; None: all.
        subjects: Subjects to keep; None: all.

    Raises:
        ValueError: Data that is missing or broken, with file and line; a part that does not exist.
    """
    if data is None:
        raise ValueError(f"problems='jsonl' needs data (--data on the command line): {_LAYOUT}")
    columns = _columns(fields)
    path = Path(data)
    parts = _folder(path, columns) if path.is_dir() else _file(path, columns)
    problems = part_of(parts, split, holdout=holdout, seed=holdout_seed, where=str(path))
    return ProblemList(select(problems, levels=levels, subjects=subjects))


def part_of(
    parts: Mapping[str, Sequence[Problem]],
    split: str,
    *,
    holdout: float | None = None,
    seed: int = 0,
    where: str = "the data",
) -> Sequence[Problem]:
    """Returns the problems of one split; validation is held out of train if it is no part.

    Args:
        parts: Split -> its problems.
        split: "train", "validation" or "test".
        holdout: Share of the training problems; None: a tenth, if there are two questions.
        seed: Another seed holds out others.
        where: File or folder, for the error message.

    Raises:
        ValueError: There is no such part, or ``holdout`` does not fit.
    """
    train = parts.get("train", ())
    if parts.get("validation"):
        if holdout is not None:
            raise ValueError(
                f"{where} names its own validation problems; pass no holdout, got {holdout!r}"
            )
    elif train and split != "test":
        several = len({problem.question for problem in train}) > 1
        fraction = holdout if holdout is not None else HOLDOUT if several else 0
        kept, out = held_out(train, fraction, seed)
        if split == "validation" and not out:
            raise ValueError(
                f"{where} leaves no problem for validation (holdout={fraction:g}). Add problems, "
                f"pass holdout={HOLDOUT}, or evaluate nothing with --eval_problems 0."
            )
        return kept if split == "train" else out
    if not parts.get(split):
        sizes = ", ".join(f"{name}: {len(part)}" for name, part in parts.items() if part)
        raise ValueError(
            f"{where} has no {split} problems (it has {sizes or 'none at all'}). Name the part in "
            f"a column 'split', or pass a folder that holds {split}.jsonl."
        )
    return parts[split]


def problem_from(
    row: Mapping[str, Any], columns: Mapping[str, Sequence[str]], name: str, where: str
) -> Problem:
    r"""Builds a problem from one row.

    Args:
        row: A JSON object; texts and numbers are taken as they stand.
        columns: As ``COLUMNS``.
        name: The problem's id, if the row has none.
        where: File and line, for the error message.

    Raises:
        ValueError: There is no question or no answer.

    >>> row = {"prompt": "6*7?", "answer": 42, "level": "easy"}
    >>> problem = problem_from(row, COLUMNS, "mine/1", "mine.jsonl, line 1")
    >>> problem.id, problem.question, problem.answer, problem.level
    ('mine/1', '6*7?', '42', 'easy')
    >>> problem_from({"question": "6*7?", "solution": "40+2\n#### 42"}, COLUMNS, "", "").answer
    '42'
    """
    found = {field: _text(row, field, columns[field], where) for field in columns}
    question, answer, solution = found["question"], found["answer"], found["solution"]
    if not question.strip():
        raise ValueError(_missing("question", row, columns, where))
    final = _final(answer)
    if answer and final != answer.strip() and not solution:
        solution = answer  # an answer with its working, as in GSM8K
    if not answer and solution:
        final = _final(solution) if "####" in solution or "\\boxed" in solution else ""
        if not final:
            raise ValueError(
                f"{where}: no 'answer', and 'solution' ends in neither '#### 42' nor "
                f"'\\boxed{{42}}', got '...{solution[-60:]}'. Add a column 'answer', or pass "
                'fields={"answer": "solution"} if the solution is the bare answer.'
            )
    if not final:
        raise ValueError(_missing("answer", row, columns, where))
    return Problem(
        id=found["id"] or name,
        question=question,
        answer=final,
        solution=solution,
        level=level_name(found["level"]),
        subject=found["subject"],
    )


def _final(text: str) -> str:
    """Returns what follows the last ``####``, else the last box, else the text itself."""
    marked = hash_answer(text)
    if marked is None:
        marked = boxed_answer(text)
    return text.strip() if marked is None else marked


def _text(row: Mapping[str, Any], field: str, names: Sequence[str], where: str) -> str:
    """Returns a field's text from the first of its columns that has one; "" if none has."""
    for name in names:
        value = row.get(name)
        if value is None:
            continue
        text = scalar_text(value)
        if text is None:
            raise ValueError(
                f"{where}: {field} {name!r} must be text or a number, got {value!r:.60}"
                + (" (chat messages: write the question alone)" if field == "question" else "")
            )
        return checked_text(text, name, where)
    return ""


def _missing(
    field: str, row: Mapping[str, Any], columns: Mapping[str, Sequence[str]], where: str
) -> str:
    names = " or ".join(repr(name) for name in columns[field])
    return (
        f"{where}: no {field}: {names} is missing or empty; the line has "
        f"{sorted(map(str, row))!s:.200}. Name its column with fields={{{field!r}: COLUMN}} "
        f'(--env_kwargs \'{{"fields": {{"{field}": "COLUMN"}}}}\').'
    )


def _columns(fields: Mapping[str, str] | None) -> dict[str, Sequence[str]]:
    columns: dict[str, Sequence[str]] = dict(COLUMNS)
    if fields is not None and not isinstance(fields, Mapping):
        raise ValueError(f"fields must map a field to a column, got {fields!r:.60}")
    for field, column in (fields or {}).items():
        if field not in COLUMNS:
            raise ValueError(
                f"unknown field {field!r}.{nearest(str(field), COLUMNS)} Known: "
                f"{', '.join(COLUMNS)}"
            )
        if not isinstance(column, str):
            raise ValueError(f"fields[{field!r}] must name a column, got {column!r:.60}")
        columns[field] = (column,)
    return columns


def _read(path: Path, columns: Mapping[str, Sequence[str]]) -> list[tuple[Problem, str, str]]:
    """Returns each problem with the split that its line names, "" if none, and its place."""
    found: list[tuple[Problem, str, str]] = []
    places: dict[str, str] = {}
    for number, (where, row) in enumerate(jsonl_rows(path)):
        if number == MAX_PROBLEMS:
            raise ValueError(f"{where}: more than {MAX_PROBLEMS:,} problems; split the file")
        problem = problem_from(row, columns, f"{path.stem}/{number}", where)
        if problem.id in places:
            raise ValueError(
                f"{where}: id {problem.id!r:.80} is that of {places[problem.id]} too; ids must be "
                "unique, or leave the column out"
            )
        places[problem.id] = where
        found.append((problem, _text(row, "split", columns["split"], where), where))
    return found


def _file(path: Path, columns: Mapping[str, Sequence[str]]) -> dict[str, list[Problem]]:
    """Returns the parts of a file, as its lines name them."""
    if not path.is_file():
        raise ValueError(f"cannot read problems: {path} does not exist; data must be {_LAYOUT}")
    rows = _read(path, columns)
    if not rows:
        raise ValueError(f"{path} holds no problem; data must be {_LAYOUT}")
    parts: dict[str, list[Problem]] = {"train": [], "validation": [], "test": []}
    named = any(split for _, split, _ in rows)
    for problem, split, where in rows:
        if named and split not in _SPLITS:
            raise ValueError(
                f"{where}: split must be train, validation or test, got {split!r:.60}."
                f"{nearest(split, _SPLITS)} Name it on each line or on none."
            )
        parts[_SPLITS[split] if named else "train"].append(problem)
    return parts


def _folder(path: Path, columns: Mapping[str, Sequence[str]]) -> dict[str, list[Problem]]:
    """Returns the parts of a folder, a file each."""
    parts = {}
    for split in ("train", "validation", "test"):
        file = path / f"{split}.jsonl"
        parts[split] = [one for one, _, _ in _read(file, columns)] if file.is_file() else []
    if not any(parts.values()):
        raise ValueError(f"{path} holds no problem; data must be {_LAYOUT}")
    return parts
