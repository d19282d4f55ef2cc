"""What a training command is to do: begin a run, or go on with one as if nothing had happened."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from agents.core.checkpoint import checkpoints
from agents.core.config import TrainingConfig, config_of, training_flags
from agents.core.config_files import load_yaml
from agents.core.options import field_of
from agents.core.run_folder import cut_back, finished, prepare_run_folder

ConfigT = TypeVar("ConfigT", bound=TrainingConfig)


@dataclass(frozen=True, slots=True)
class Launch(Generic[ConfigT]):
    """A run to begin or to go on with.

    Attributes:
        config: Its options.
        folder: Its folder.
        checkpoint: Where to go on from; None: from the beginning.
        finished: Whether there is nothing left to do.
    """

    config: ConfigT
    folder: Path
    checkpoint: Path | None = None
    finished: bool = False


def launch(
    name: str,
    cls: type[ConfigT],
    argv: Sequence[str] | None,
    *,
    tiny: str | None,
    description: str,
    root: str = "runs",
) -> Launch[ConfigT]:
    """Reads a command line and finds or makes the run's folder.

    ``--resume`` names a run folder or one of its checkpoints; without a value it means
    ``output_dir``, else the newest run of this command. A folder that holds no run yet begins one,
    so that a scheduler can always start the same command.

    Args:
        name: The algorithm's.
        cls: Its options.
        argv: The command line; None: that of the process.
        tiny: Name of the shipped config that is the base of a new run.
        description: For ``--help``.
        root: Where the folders of runs without ``output_dir`` are.

    Raises:
        ValueError: Nothing to resume, or options changed that change what is learned.
        OSError: The folder cannot be written.
    """
    flags = training_flags(cls, argv, tiny=tiny, description=description, resumable=True)
    where, force = flags.pop("resume", None), flags.pop("force", False)
    if where is None:
        if force:
            raise ValueError("--force is for --resume: options may then change. Leave it out.")
        config = config_of(cls, flags, tiny=tiny)
        return Launch(config, prepare_run_folder(config, name, root=root))
    folder, checkpoint = _find(where, flags.get("output_dir"), name, Path(root))
    if not (folder / "config.yaml").exists():
        config = config_of(cls, flags | {"output_dir": str(folder)}, tiny=tiny)
        return Launch(config, prepare_run_folder(config, name, root=root))
    saved = cls(**load_yaml(cls, str(folder / "config.yaml")))
    given = config_of(cls, flags, tiny=tiny) if "config" in flags else cls(**asdict(saved) | flags)
    config = replace(given, output_dir=saved.output_dir)
    _check_changes(saved, config, force)
    if finished(folder):
        return Launch(config, folder, finished=True)
    return Launch(config, folder, checkpoint)


def rewind(folder: Path, state: Mapping[str, Any] | None, checkpoint: Path | None) -> int:
    """Takes a run's files back to a checkpoint's state and returns the iteration that comes next.

    Newer checkpoints are renamed.

    Args:
        folder: The run's folder, held by a ``RunLock``.
        state: What ``load_checkpoint`` returned; None: the run begins again.
        checkpoint: Its folder; None likewise.
    """
    _abandon_newer(folder, checkpoint)
    done = 0 if state is None else int(state["iteration"])
    cut_back(folder, done)
    return done + 1


def _find(where: str, output_dir: str | None, name: str, root: Path) -> tuple[Path, Path | None]:
    """Returns the run's folder and the checkpoint to go on from."""
    if where:
        path = Path(where)
        if (path / "trainer_state.json").exists():
            path = path.resolve()
            return path.parents[1], path
        if not (path / "config.yaml").exists():
            raise ValueError(
                f"--resume {where}: neither a run folder (with config.yaml) nor a checkpoint of "
                "one (with trainer_state.json)."
            )
    elif output_dir is not None:
        path = Path(output_dir)
    else:
        runs = [file.parent for file in root.glob(f"{name}-*/config.yaml")]
        if not runs:
            raise ValueError(
                f"--resume: {root}/ holds no run of {name}. Pass --resume RUN or --output_dir."
            )
        path = max(runs, key=lambda run: (run / "config.yaml").stat().st_mtime)
    found = checkpoints(path)
    return path, found[0] if found else None


def _check_changes(saved: TrainingConfig, config: TrainingConfig, force: bool) -> None:
    """Lists what changed; refuses what changes the mathematics, unless forced."""
    before, after = asdict(saved), asdict(config)
    changed = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
    grave = [key for key in changed if not field_of(type(config), key).metadata.get("harmless")]
    shown = [f"--{key} was {old!r}, is {new!r}" for key, (old, new) in changed.items()]
    if grave and not force:
        raise ValueError(
            f"options changed since the run was begun: {'; '.join(shown)}. "
            f"{', '.join(grave)} would change what is learned: leave it out, or add --force."
        )
    for line in shown:
        sys.stderr.write(f"resuming with another option: {line}\n")


def _abandon_newer(folder: Path, checkpoint: Path | None) -> None:
    """Renames checkpoints newer than the one to go on from: their iterations are done again."""
    for path in checkpoints(folder):
        if checkpoint is None or path.resolve() == checkpoint.resolve():
            return
        path.rename(path.with_name(f"abandoned-{path.name}"))
