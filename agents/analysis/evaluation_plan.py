"""What an evaluation is asked for: its options, its environments, its policies."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from agents.analysis.subject import Checkpoint, checkpoints_of
from agents.core.config import ENV_FLAGS, OF_ONE_ENV, PlayConfig
from agents.core.config_files import load_yaml, read_yaml
from agents.core.envs import make_env, valid_indices
from agents.core.loading import TINY, model_folder
from agents.core.options import check, option

_HARMLESS = ("output_dir", "device", "threads", "draws")
_OF_GENERATOR = 500


@dataclass(frozen=True)
class EvaluationConfig(PlayConfig):
    """The options of ``python -m agents.evaluate``.

    >>> EvaluationConfig(model="x", run="runs/a")
    Traceback (most recent call last):
        ...
    ValueError: model and run do not go together: a run's policies are its checkpoints. Pass one.
    """

    run: str | None = option(None, "Run folder: its checkpoints are evaluated.")
    checkpoints: Literal["last", "all"] = option(
        "last", "With --run: the last checkpoint, or all and the policy before training."
    )
    split: tuple[str, ...] = option(
        ("test",), "Problems: train, validation or test; several one after another."
    )
    num_problems: int | None = option(
        None,
        f"Problems a split, its first; none: all, {_OF_GENERATOR} of a generator.",
        low=1,
        high=10**6,
    )
    num_samples: int = option(
        16, "Answers a problem at a temperature above 0.", low=1, high=10**4, paper="16"
    )
    temperatures: tuple[float, ...] = option(
        (0.0, 0.35), "Temperatures; 0 is greedy, one answer a problem.", low=0, paper="0.35"
    )
    top_p: float = option(0.9, "Nucleus mass sampled from.", above=0, high=1, paper="0.9")
    batch_size: int = option(
        64, "Answers sampled at once, rounded up to whole problems.", low=1, high=10**5
    )
    draws: int = option(2000, "Draws of the bootstrap.", low=100, high=10**6)
    output_dir: str | None = option(
        None, "Folder of the results; none: runs/evaluate-ENV-HASH, the same for the same options."
    )

    def __post_init__(self) -> None:
        """Checks every field and those that do not go together; raises ValueError."""
        super().__post_init__()
        if self.model is not None and self.run is not None:
            raise ValueError(
                "model and run do not go together: a run's policies are its checkpoints. Pass one."
            )
        for name in ("temperatures", "split"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name} must differ, got {' '.join(map(str, values))}")


@dataclass(frozen=True)
class Plan:
    """Everything that is evaluated, and where it goes.

    Attributes:
        config: The options, with the run's environment where one was named.
        envs: The unwrapped environment of each split.
        indices: The problems of each split, by index.
        policies: By iteration.
        folder: Of the results.
    """

    config: EvaluationConfig
    envs: Mapping[str, Any]
    indices: Mapping[str, list[int]]
    policies: tuple[Checkpoint, ...]
    folder: Path

    def options(self) -> dict[str, Any]:
        """Returns what the samples depend on."""
        kept = {k: v for k, v in asdict(self.config).items() if k not in _HARMLESS}
        return kept | {"policies": [_identity(checkpoint) for checkpoint in self.policies]}


def make_plan(flags: Mapping[str, Any]) -> Plan:
    """Returns what a command line asks for.

    Raises:
        ValueError: Options that are refused, a folder without a run, or an unknown environment.
    """
    given = dict(flags)
    source = given.pop("config", None)
    given = (load_yaml(EvaluationConfig, source) if source else {}) | given
    config = EvaluationConfig(**given)
    policies: tuple[Checkpoint, ...] = (Checkpoint(0, config.model),)
    for_env = config
    if config.run is not None:
        config, for_env, policies = _of_run(given, Path(config.run), config.checkpoints)
    envs = {split: make_env(for_env, split) for split in config.split}
    plan = Plan(config, envs, {s: _indices(config, e) for s, e in envs.items()}, policies, Path())
    return replace(plan, folder=Path(config.output_dir or _folder_name(plan)))


def _of_run(
    given: Mapping[str, Any], run: Path, which: str
) -> tuple[EvaluationConfig, EvaluationConfig, tuple[Checkpoint, ...]]:
    if not (run / "config.yaml").is_file():
        raise ValueError(f"{run} holds no run: there is no config.yaml in it. Pass a run's folder.")
    options = read_yaml(str(run / "config.yaml"))
    names = {"env", "env_kwargs", "dtype", *ENV_FLAGS} & {f.name for f in fields(EvaluationConfig)}
    values = {name: check(EvaluationConfig, name, options[name]) for name in names & options.keys()}
    if given.get("env", values.get("env")) != values.get("env"):
        values = {key: value for key, value in values.items() if key not in OF_ONE_ENV}
    config = EvaluationConfig(**values | dict(given))
    found = checkpoints_of(run)
    if not found:
        raise ValueError(f"{run} has no checkpoints to evaluate; train with --save_every 10.")
    model = options.get("model")
    tiny = model in (None, TINY) and not options.get("init")
    for_env = replace(config, run=None, model=None if tiny else found[-1].model)
    if which == "last":
        return config, for_env, (found[-1],)
    start = [] if options.get("init") else [Checkpoint(0, None if tiny else str(model))]
    return config, for_env, (*start, *found)


def _indices(config: EvaluationConfig, env: Any) -> list[int]:
    if getattr(env, "num_problems", None) is None:
        return list(range(config.num_problems or _OF_GENERATOR))
    return valid_indices(env)[: config.num_problems]


def _identity(checkpoint: Checkpoint) -> list[Any]:
    """Returns what tells a policy's weights from others: name, and sizes and times of its files."""
    folder = Path(model_folder(checkpoint.model))
    files = sorted(folder.glob("*.safetensors")) if checkpoint.model and folder.is_dir() else []
    stats = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    return [checkpoint.iteration, checkpoint.model or TINY, stats]


def _folder_name(plan: Plan) -> str:
    digest = hashlib.sha256(json.dumps(plan.options(), sort_keys=True, default=str).encode())
    env = re.sub(r"[^\w.-]+", "-", plan.config.env).strip("-.") or "env"
    return f"runs/evaluate-{env}-{digest.hexdigest()[:8]}"
