"""Options as dataclass fields that know their range, their help text and the paper's value.

A command's configuration is a frozen dataclass that inherits from ``Options``. Every value goes
through the same conversion and the same range check, whether it comes from the command line, a
YAML file or a program::

    >>> @dataclass(frozen=True)
    ... class Demo(Options):
    ...     num_rollouts: int = option(9, "Rollouts per state.", low=1, paper="9")
    >>> Demo(num_rollouts=0)
    Traceback (most recent call last):
        ...
    ValueError: num_rollouts must be >= 1, got 0 (paper: 9)
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from typing import Any, Literal

from graders.resolve import nearest

GUARD = 10**6
"""Bounds from here on guard memory, and are no part of what an option means."""

_TRUE, _FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}
_NULL = {"none", "null"}
_hints: Callable[[type], dict[str, Any]] = cache(typing.get_type_hints)


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    paper: str = "",
    aliases: tuple[str, ...] = (),
    harmless: bool = False,
) -> Any:
    """Returns a dataclass field for one option.

    Args:
        default: The value without flag and YAML key; a dict is copied for each instance.
        help: One sentence with the unit; ``--help`` shows it.
        low: Smallest value allowed (inclusive); ``high`` likewise the largest.
        high: See ``low``.
        above: The value must be strictly greater; ``below`` likewise strictly smaller.
        below: See ``above``.
        paper: The VinePPO paper's value, shown in the help and in range errors.
        aliases: Other names of the option, on the command line and in YAML.
        harmless: Whether a resumed run may change it without ``--force``, as it does not change
            what is learned.
    """
    bounds = {">=": low, ">": above, "<=": high, "<": below}
    metadata = {
        "help": help,
        "paper": paper,
        "aliases": aliases,
        "harmless": harmless,
        "bounds": {sign: bound for sign, bound in bounds.items() if bound is not None},
    }
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Options:
    """Base of all configurations: checks every field when an instance is made.

    A subclass is ``@dataclass(frozen=True)`` too; to change a value use ``dataclasses.replace``,
    which checks again. A subclass with rules across fields calls ``super().__post_init__()`` first.
    """

    def __post_init__(self) -> None:
        """Converts and checks every field; raises ValueError with the name, value and range."""
        for item in fields(self):
            value = check(type(self), item.name, getattr(self, item.name))
            object.__setattr__(self, item.name, value)


def check(cls: type[Options], name: str, value: Any) -> Any:
    """Returns ``value`` as the type of field ``name``, after its range check.

    Args:
        cls: The configuration class.
        name: The field's name.
        value: Text from a command line, a value from YAML, or a Python value.

    Raises:
        ValueError: The value cannot be read as the field's type, or lies outside its range.
    """
    item = field_of(cls, name)
    hint = _hints(cls)[name]
    optional = type(None) in typing.get_args(hint)
    if optional and (value is None or (isinstance(value, str) and value.lower() in _NULL)):
        return None
    paper = f" (paper: {item.metadata['paper']})" if item.metadata.get("paper") else ""
    try:
        value = _convert(_without_none(hint), value)
        _check_bounds(value, item.metadata.get("bounds", {}))
    except ValueError as error:
        raise ValueError(f"{name} {error}{paper}") from None
    return value


def field_of(cls: type[Options], name: str) -> Field[Any]:
    """Returns the dataclass field called ``name``."""
    return next(item for item in fields(cls) if item.name == name)


def names_of(cls: type[Options]) -> dict[str, str]:
    """Returns every accepted name of every field, aliases included, to the field's own name."""
    table = {item.name: item.name for item in fields(cls)}
    for item in fields(cls):
        table.update(dict.fromkeys(item.metadata.get("aliases", ()), item.name))
    return table


def default_of(item: Field[Any]) -> Any:
    """Returns a field's default value; fields made by ``option`` always have one."""
    return item.default_factory() if item.default_factory is not MISSING else item.default


def choices_of(cls: type[Options], name: str) -> tuple[str, ...]:
    """Returns the allowed values of a ``Literal`` field, empty for any other field."""
    hint = _without_none(_hints(cls)[name])
    return typing.get_args(hint) if typing.get_origin(hint) is Literal else ()


def kind_of(cls: type[Options], name: str) -> Any:
    """Returns a field's type without ``None``: ``int``, ``bool``, ``tuple``, ``dict``, ..."""
    hint = _without_none(_hints(cls)[name])
    return typing.get_origin(hint) or hint


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(part for part in typing.get_args(hint) if part is not type(None))
    return hint


def _convert(hint: Any, value: Any) -> Any:
    """Returns ``value`` as ``hint``; the error text continues a sentence that began with a name."""
    if typing.get_origin(hint) is Literal:
        return _convert_choice(typing.get_args(hint), value)
    if typing.get_origin(hint) is tuple:
        return _convert_tuple(typing.get_args(hint)[0], value)
    return _CONVERTERS[typing.get_origin(hint) or hint](value)


def _convert_choice(choices: tuple[str, ...], value: Any) -> str:
    if value not in choices:
        hint = nearest(str(value), choices)
        raise ValueError(f"must be one of {', '.join(choices)}, got {value!r}.{hint}")
    return str(value)


def _convert_tuple(hint: Any, value: Any) -> tuple[Any, ...]:
    items = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not items:
        raise ValueError(f"must be a list of one or more values, got {value!r}")
    return tuple(_convert(hint, item) for item in items)


def _convert_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() not in _TRUE | _FALSE:
        raise ValueError(f"must be true or false, got {value!r}")
    return str(value).lower() in _TRUE


def _convert_int(value: Any) -> int:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"must be a whole number, got {value!r}")
    return value


def _convert_float(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise ValueError(f"must be a number, got {value!r}")
    return number


def _convert_str(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be text and not empty, got {value!r}")
    return value


def _convert_dict(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"must be a JSON object such as '{{\"level\": 3}}', got {value!r}: {error}"
            ) from None
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"must be a JSON object such as '{{\"level\": 3}}', got {value!r}")
    return dict(value)


_CONVERTERS: dict[Any, Callable[[Any], Any]] = {
    bool: _convert_bool,
    int: _convert_int,
    float: _convert_float,
    str: _convert_str,
    dict: _convert_dict,
}
_HOLDS: dict[str, Callable[[float, float], bool]] = {
    ">=": lambda value, bound: value >= bound,
    ">": lambda value, bound: value > bound,
    "<=": lambda value, bound: value <= bound,
    "<": lambda value, bound: value < bound,
}


def _plain(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else f"{bound:g}"


def _check_bounds(value: Any, bounds: Mapping[str, float]) -> None:
    for number in value if isinstance(value, tuple) else (value,):
        if not all(_HOLDS[sign](number, bound) for sign, bound in bounds.items()):
            shown = {  # a limit that only guards memory is named only where it is passed
                sign: bound
                for sign, bound in bounds.items()
                if abs(bound) < GUARD or not _HOLDS[sign](number, bound)
            }
            limits = " and ".join(f"{sign} {_plain(bound)}" for sign, bound in shown.items())
            raise ValueError(f"must be {limits}, got {number}")
