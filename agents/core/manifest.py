"""A checkpoint's manifest: every file's size and SHA-256, so that damage is found and named."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from agents.core.disk import force_folder_to_disk, force_to_disk
from agents.core.state_tree import read_json

MANIFEST = "manifest.json"
_PACKAGES = ("lang-env", "torch", "transformers", "numpy", "tianshou")


def versions() -> dict[str, str]:
    """Returns the versions that a run's numbers may depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a checkout that is not installed
            found[package] = "unknown"
    return found


def seal(folder: Path) -> None:
    """Forces every file of a folder to disk and writes its manifest; raises OSError."""
    files = {}
    for path in sorted(folder.iterdir()):
        force_to_disk(path)
        files[path.name] = {"size": path.stat().st_size, "sha256": _digest(path)}
    manifest = folder / MANIFEST
    text = json.dumps({"versions": versions(), "files": files}, indent=1) + "\n"
    manifest.write_text(text, encoding="utf-8")
    force_to_disk(manifest)
    force_folder_to_disk(folder)


def check_sealed(folder: Path) -> dict[str, str]:
    """Checks every file against the manifest and returns the versions that wrote them.

    Raises:
        ValueError: A file is missing, changed or not a plain file of this folder; says which.
    """
    manifest_path = folder / MANIFEST
    manifest = read_json(manifest_path)
    files, written_by = manifest.get("files"), manifest.get("versions")
    if not isinstance(files, dict) or not isinstance(written_by, dict):
        raise ValueError(f"{manifest_path}: not a manifest")
    for name, entry in files.items():
        path = folder / name
        if path.name != name or path.is_symlink() or not path.is_file():
            raise ValueError(
                f"{folder / name.strip('/')}: missing, or not a file of the checkpoint"
            )
        if not isinstance(entry, dict) or path.stat().st_size != entry.get("size"):
            raise ValueError(f"{path}: not as long as it was when it was written")
        if _digest(path) != entry.get("sha256"):
            raise ValueError(f"{path}: not what was written: its SHA-256 differs")
    return {str(name): str(number) for name, number in written_by.items()}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
