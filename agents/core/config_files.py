"""Configurations as YAML files: reading, writing and finding the shipped ones."""

from __future__ import annotations

from dataclasses import asdict
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from agents.core.options import Options, check, names_of
from graders.resolve import nearest


def load_yaml(cls: type[Options], name: str) -> dict[str, Any]:
    """Returns a YAML file's options, converted and checked; the keys are field names.

    Args:
        cls: The configuration class.
        name: A path, or a shipped config's name.

    Raises:
        ValueError: There is no such file, it is not a YAML mapping, or a key or value is wrong.
    """
    source, content = find_config(name), read_yaml(name)
    table, values = names_of(cls), {}
    for key, value in content.items():
        if key not in table:
            raise ValueError(f"{source}: unknown key {key!r}.{nearest(str(key), table)}")
        if table[key] in values:
            raise ValueError(f"{source}: {table[key]} is given twice, once as an alias; keep one")
        try:
            values[table[key]] = check(cls, table[key], value)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from error
    return values


def read_yaml(name: str) -> dict[Any, Any]:
    """Returns what a YAML file holds, unchecked.

    Args:
        name: A path, or a shipped config's name.

    Raises:
        ValueError: There is no such file, or it is not a YAML mapping.
    """
    source = find_config(name)
    try:
        content = yaml.safe_load(source.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{source}: not a YAML file: {error}") from error
    if not isinstance(content, dict | None):
        raise ValueError(f"{source}: must hold 'option: value' lines, got {content!r:.80}")
    return content or {}


def find_config(name: str) -> Traversable:
    """Returns the file that ``--config NAME`` means: a path, or a shipped config by its name.

    ``tiny_vineppo``, ``tiny_vineppo.yaml`` and ``configs/tiny_vineppo.yaml`` are the same shipped
    config, from the ``configs`` folder of a checkout or from the installed package.

    Raises:
        ValueError: Neither a file nor a shipped config; the nearest name is suggested.
    """
    path = Path(name)
    if path.is_file():
        return path
    shipped = _shipped_configs()
    if str(path.parent) in (".", "configs") and path.name.removesuffix(".yaml") in shipped:
        return shipped[path.name.removesuffix(".yaml")]
    raise ValueError(
        f"no config {name!r}: it is neither a file nor a shipped config."
        f"{nearest(path.name.removesuffix('.yaml'), shipped)} "
        f"Shipped: {', '.join(sorted(shipped)) or 'none'}."
    )


def _shipped_configs() -> dict[str, Traversable]:
    checkout = Path(__file__).resolve().parents[2]
    folders: list[Traversable] = []
    if (checkout / "pyproject.toml").is_file() and (checkout / "configs").is_dir():
        folders.append(checkout / "configs")
    else:
        try:
            folders.append(resources.files("agents.configs"))
        except ModuleNotFoundError:
            pass
    files = [file for folder in folders for file in folder.iterdir()]
    return {f.name.removesuffix(".yaml"): f for f in files if f.name.endswith(".yaml")}


def save_yaml(config: Options, path: Path | str) -> None:
    """Writes every option to ``path``, so that ``--config path`` gives the same config again."""
    values = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(config).items()
    }
    Path(path).write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
