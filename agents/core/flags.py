"""A command line read into the fields of an Options class.

The parser is argparse built from the dataclass. transformers' HfArgumentParser was tried: it hands
all field metadata to argparse, so that ranges and the paper's values cannot stand beside a field;
it cannot set an optional field back to None, cannot read a JSON field, and does not check YAML.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any, NoReturn

from agents.core.options import Options, check, choices_of, default_of, kind_of, names_of
from graders.resolve import nearest

_OWN = ("config", "resume", "force")
_METAVARS = {int: "N", float: "X", bool: "true|false", tuple: "X", dict: "JSON"}


def command_line() -> str:
    """Returns what the user typed to start this program, without the options.

    ``python -m agents.vineppo`` for a module, ``python examples/custom_agent.py`` for a file.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None:
        return f"python {sys.argv[0]}"
    package, _, last = str(spec.name).rpartition(".")
    if last != "__main__":
        return f"python -m {spec.name}"
    return " ".join(["python", "-m", package, *sys.argv[1:2]])


def parse_flags(
    cls: type[Options],
    argv: Sequence[str] | None = None,
    *,
    shared: type[Options],
    shared_title: str,
    description: str = "",
    epilog: str = "",
    resumable: bool = False,
) -> dict[str, Any]:
    """Returns the options that a command line names, checked; ``config`` is the YAML file's name.

    With ``resumable`` there may be two more: ``resume``, what to go on from ("" for the latest),
    and ``force``.

    Args:
        cls: The configuration class.
        argv: The command line without the program's name; None: ``sys.argv[1:]``.
        shared: The class whose options ``--help`` shows together, below the command's own.
        shared_title: What it calls them.
        description: What the command does, for ``--help``.
        epilog: The last sentences of ``--help``.
        resumable: Whether the command takes ``--resume`` and ``--force``.

    Raises:
        ValueError: An unknown option, or a value that is refused.
        SystemExit: ``--help`` was given.
    """
    tokens = [_underscored(token) for token in (sys.argv[1:] if argv is None else argv)]
    parser = _Parser(
        prog=command_line() if getattr(sys.modules["__main__"], "__spec__", None) else None,
        usage="%(prog)s [--config YAML] [--OPTION VALUE ...]",
        description=description,
        epilog=epilog,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    if resumable:
        parser.add_argument(
            "--resume",
            nargs="?",
            const="",
            metavar="RUN",
            help="Go on with a run: a run folder, one of its checkpoints, or without a value "
            "--output_dir, else the newest run of this command under runs/.",
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="Resume although options changed that change what is learned.",
        )
    _add_options(parser, cls, {item.name for item in fields(shared)}, shared_title)
    namespace, rest = parser.parse_known_args(tokens)
    if rest:
        known = [f"--{name}" for name in (*names_of(cls), *_OWN)]
        raise ValueError(f"unknown option {rest[0]!r}.{nearest(rest[0], known)} See --help.")
    given = vars(namespace)
    own = {name: given.pop(name) for name in _OWN if name in given}
    return own | {name: check(cls, name, value) for name, value in given.items()}


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of leaving the program."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _underscored(token: str) -> str:
    """Returns ``--num-prompts=4`` as ``--num_prompts=4``; other tokens as they are."""
    if not token.startswith("--"):
        return token
    name, equals, value = token[2:].partition("=")
    return f"--{name.replace('-', '_')}{equals}{value}"


def _add_options(parser: _Parser, cls: type[Options], shared: set[str], title: str) -> None:
    parser.add_argument("--config", metavar="YAML", help="A YAML file, or a shipped config's name.")
    own_group = parser.add_argument_group("options of this command")
    shared_group = parser.add_argument_group(title)
    for item in fields(cls):
        names = [f"--{name}" for name in (item.name, *item.metadata.get("aliases", ()))]
        kind, choices = kind_of(cls, item.name), choices_of(cls, item.name)
        settings: dict[str, Any] = {"help": _help_of(item), "dest": item.name}
        settings["metavar"] = "|".join(choices) if choices else _METAVARS.get(kind, "NAME")
        if kind is bool:
            settings |= {"nargs": "?", "const": "true"}
        elif kind is tuple:
            settings["nargs"] = "+"
        group = shared_group if item.name in shared else own_group
        group.add_argument(*names, **settings)


def _help_of(item: Field[Any]) -> str:
    default, paper = default_of(item), item.metadata.get("paper", "")
    shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
    notes = [] if default in (None, {}) else [f"default: {shown}"]
    if paper and _text_differs(paper, default):
        notes.append(f"paper: {paper}")
    about = str(item.metadata.get("help", ""))
    return (about + (f" ({'; '.join(notes)})" if notes else "")).replace("%", "%%")


def _text_differs(paper: str, default: Any) -> bool:
    try:
        return bool(float(paper) != default)
    except ValueError:
        return bool(paper != default)
