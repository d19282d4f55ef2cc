"""Trainer state on disk: a tree of plain values and arrays as one JSON file and one safetensors.

Nothing is pickled, so that a file from a stranger can hold nothing but numbers and text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

_TENSOR, _ARRAY, _NUMBER, _PAIRS = "__tensor__", "__array__", "__number__", "__pairs__"
_MARKS = (_TENSOR, _ARRAY, _NUMBER, _PAIRS)
MOST_JSON_BYTES = 2**28
"""A larger JSON file is refused: it is no state of ours."""


def flatten(tree: Any) -> tuple[Any, dict[str, Tensor]]:
    """Splits a tree into what JSON can hold and the tensors that it refers to by name.

    Dicts (keys of any plain type), lists, tuples (they come back as lists), None, bools, ints,
    floats (NaN and infinities too), strings, NumPy arrays and tensors may occur.

    Raises:
        TypeError: Anything else.

    >>> plain, tensors = flatten({"step": 3, "moments": [np.array([0.5])]})
    >>> plain, sorted(tensors)
    ({'step': 3, 'moments': [{'__array__': '0'}]}, ['0'])
    >>> unflatten(plain, tensors)
    {'step': 3, 'moments': [array([0.5])]}
    """
    tensors: dict[str, Tensor] = {}

    def kept(tensor: Tensor) -> str:
        name = str(len(tensors))
        tensors[name] = tensor.detach().cpu().contiguous().clone()
        return name

    def plain(value: Any) -> Any:
        if value is None or isinstance(value, str | bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {_NUMBER: repr(value)}
        if isinstance(value, Tensor):
            return {_TENSOR: kept(value)}
        if isinstance(value, np.ndarray):
            return {_ARRAY: kept(torch.from_numpy(np.ascontiguousarray(value)))}
        if isinstance(value, np.generic):
            return plain(value.item())
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        if isinstance(value, Mapping):
            if all(isinstance(key, str) and key not in _MARKS for key in value):
                return {key: plain(item) for key, item in value.items()}
            return {_PAIRS: [[plain(key), plain(item)] for key, item in value.items()]}
        raise TypeError(f"trainer state cannot hold {type(value).__name__}: {value!r:.80}")

    return plain(tree), tensors


def unflatten(plain: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Returns the tree that ``flatten`` split.

    Raises:
        ValueError: It refers to a tensor that is not there, or is no such tree.
    """
    if isinstance(plain, list):
        return [unflatten(item, tensors) for item in plain]
    if not isinstance(plain, dict):
        return plain
    try:
        if _TENSOR in plain:
            return tensors[plain[_TENSOR]]
        if _ARRAY in plain:
            return tensors[plain[_ARRAY]].numpy()
        if _NUMBER in plain:
            return float(plain[_NUMBER])
        if _PAIRS in plain:
            return {key: unflatten(item, tensors) for key, item in plain[_PAIRS]}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a trainer state: {error}") from error
    return {key: unflatten(item, tensors) for key, item in plain.items()}


def save_tree(folder: Path, name: str, tree: Mapping[str, Any]) -> None:
    """Writes ``name.json``, and ``name.safetensors`` if the tree has arrays; raises OSError."""
    plain, tensors = flatten(tree)
    text = json.dumps(plain, indent=1, allow_nan=False) + "\n"
    (folder / f"{name}.json").write_text(text, encoding="utf-8")
    if tensors:
        save_file(tensors, folder / f"{name}.safetensors")


def load_tree(folder: Path, name: str) -> dict[str, Any]:
    """Returns what ``save_tree`` wrote.

    Raises:
        ValueError: A file is missing or is not what ``save_tree`` writes.
    """
    plain = read_json(folder / f"{name}.json")
    tensors: dict[str, Tensor] = {}
    path = folder / f"{name}.safetensors"
    try:
        if path.exists():
            with safe_open(path, framework="pt") as file:
                tensors = {key: file.get_tensor(key) for key in file.keys()}
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: not a safetensors file: {error}") from error
    try:
        tree = unflatten(plain, tensors)
        if not isinstance(tree, dict):
            raise ValueError("not a trainer state: no names in it")
    except ValueError as error:
        raise ValueError(f"{path.with_suffix('.json')}: {error}") from error
    return tree


def read_json(path: Path) -> dict[str, Any]:
    """Returns a JSON object from a file that may come from a stranger.

    Raises:
        ValueError: The file cannot be read, is too large, nested too deep, or no JSON object.
    """
    try:
        if (size := path.stat().st_size) > MOST_JSON_BYTES:
            raise ValueError(f"{path}: {size:,} bytes, more than {MOST_JSON_BYTES:,}")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: must hold a JSON object, got {type(content).__name__}")
    return content
