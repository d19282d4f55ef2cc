"""What an analysis works on: a policy on an environment, or the checkpoints of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from agents.core.config import ENV_FLAGS, OF_ONE_ENV, PlayConfig
from agents.core.config_files import load_yaml, read_yaml
from agents.core.critic import CRITIC, Critic
from agents.core.envs import ProblemCursor, make_env, valid_indices
from agents.core.loading import TINY, engine_of, load_policy
from agents.core.loss_config import LossConfig
from agents.core.options import check, default_of, field_of, option
from agents.core.overlong import OverlongPenalty
from agents.core.policy import Policy
from agents.core.rollout import Sampler, Start

_FROM_RUN = {"env", "env_kwargs", *ENV_FLAGS, "dtype", "temperature", "top_p"}


@dataclass(frozen=True)
class AnalysisConfig(PlayConfig):
    """The options of every analysis.

    >>> AnalysisConfig(model="x", run=("runs/a",))
    Traceback (most recent call last):
        ...
    ValueError: model and run do not go together: a run's policies are its checkpoints. Pass one.
    """

    run: tuple[str, ...] | None = option(
        None, "Run folders: all their checkpoints are analysed, as a curve over training."
    )
    start: bool = option(True, "With --run, also the policy before training, as iteration 0.")
    split: tuple[str, ...] = option(
        ("validation",), "Problems: train, validation or test; several are compared."
    )
    num_problems: int = option(64, "Problems a split.", low=1, high=10**6)
    temperature: float = option(1.0, "Sampling temperature; with --run the run's.", above=0)
    top_p: float = option(1.0, "Nucleus mass sampled from; with --run the run's.", above=0, high=1)
    output_dir: str = option(
        "analysis", "Folder of the results; files in it are replaced.", aliases=("output",)
    )

    def __post_init__(self) -> None:
        """Checks every field and those that do not go together; raises ValueError."""
        super().__post_init__()
        if self.model is not None and self.run is not None:
            raise ValueError(
                "model and run do not go together: a run's policies are its checkpoints. Pass one."
            )


ConfigT = TypeVar("ConfigT", bound=AnalysisConfig)


class UnsuitableError(ValueError):
    """The subject cannot be analysed this way; says why, and what to pass instead."""


@dataclass(frozen=True)
class Checkpoint:
    """A policy at one moment of training.

    Attributes:
        iteration: Iterations done; 0 is the start, and a policy that belongs to no run.
        model: What ``load_policy`` takes.
        folder: The checkpoint's folder; None for the start and without a run.
    """

    iteration: int
    model: str | None
    folder: Path | None = None


@dataclass(frozen=True)
class Subject:
    """Policies on the problems of one split.

    Attributes:
        name: The run, or the model.
        split: The problems.
        config: The analysis' options with the run's environment and sampling.
        env: The unwrapped environment.
        checkpoints: The policies, by iteration; at least one.
        run_options: All options of the run, as its ``config.yaml`` has them; empty without a run.
    """

    name: str
    split: str
    config: AnalysisConfig
    env: Any
    checkpoints: tuple[Checkpoint, ...]
    run_options: Mapping[str, Any] = field(default_factory=dict)

    def starts(self) -> list[Start]:
        """Returns the start states of ``num_problems`` distinct problems, chosen by the seed.

        A finite set gives as many as it has.
        """
        wanted = self.config.num_problems
        if getattr(self.env, "num_problems", None) is not None:
            wanted = min(wanted, len(valid_indices(self.env)))
        return list(ProblemCursor(self.env, wanted, self.config.seed).starts(1))

    def policy(self, checkpoint: Checkpoint) -> Policy:
        """Loads a policy.

        Raises:
            UnsuitableError: It cannot be loaded.
        """
        try:
            return load_policy(
                checkpoint.model,
                self.env.tokenizer,
                dtype=self.config.dtype,
                device=self.config.device,
            )
        except ValueError as error:
            hint = " --start false leaves it out." if self.run_options else ""
            raise UnsuitableError(f"{error}{hint}") from error

    def sampler(self, policy: Policy, *, temperature: float | None = None) -> Sampler:
        """Returns what samples answers of ``policy``, at the subject's temperature or another.

        Rewards are those of the run, its overlong penalty in them.
        """
        config = self.config
        engine = engine_of(config, policy)
        heat = config.temperature if temperature is None else temperature
        overlong = OverlongPenalty(
            self._loss_option("overlong_buffer_len"),
            self._loss_option("overlong_buffer_penalty_factor"),
        )
        return Sampler(engine, self.env, config.seed, heat, config.top_p, overlong=overlong)

    def _loss_option(self, name: str) -> Any:
        default = default_of(field_of(LossConfig, name))
        return check(LossConfig, name, self.run_options.get(name, default))

    def about(self) -> dict[str, Any]:
        """Returns what it is, for the head of a JSON file."""
        return {
            "name": self.name,
            "split": self.split,
            "env": self.config.env,
            "temperature": self.config.temperature,
            "top_p": self.config.top_p,
            "checkpoints": [checkpoint.iteration for checkpoint in self.checkpoints],
        }


def subjects_of(
    config_class: type[ConfigT], flags: Mapping[str, Any]
) -> tuple[ConfigT, list[Subject]]:
    """Returns an analysis' options and what it works on: each run, or the model, on each split.

    Args:
        config_class: The options' class.
        flags: What ``parse_flags`` returned. They win over a run's options.

    Raises:
        ValueError: Options that are refused, a folder without a run, or an unknown environment.
    """
    given = dict(flags)
    source = given.pop("config", None)
    given = (load_yaml(config_class, source) if source else {}) | given
    config = config_class(**given)
    if config.run is None:
        name = config.model or TINY
        envs = [(split, make_env(config, split)) for split in config.split]
        policies = (Checkpoint(0, config.model),)
        return config, [Subject(name, split, config, env, policies) for split, env in envs]
    return config, [
        subject
        for run, name in zip(config.run, _names(config.run), strict=True)
        for subject in _of_run(config_class, given, Path(run), name)
    ]


def _names(runs: Sequence[str]) -> list[str]:
    """Returns the folders' own names, or the paths where two are called the same."""
    names = [Path(run).resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(Path(run)) for run in runs]


def _of_run(
    config_class: type[ConfigT], given: Mapping[str, Any], run: Path, name: str
) -> list[Subject]:
    if not (run / "config.yaml").is_file():
        raise ValueError(f"{run} holds no run: there is no config.yaml in it. Pass a run's folder.")
    options = read_yaml(str(run / "config.yaml"))
    known = {item.name for item in fields(config_class)} & _FROM_RUN
    values = {key: check(config_class, key, options[key]) for key in known & options.keys()}
    if given.get("env", values.get("env")) != values.get("env"):
        values = {key: value for key, value in values.items() if key not in OF_ONE_ENV}
    config = config_class(**values | dict(given))
    checkpoints = checkpoints_of(run)
    if not checkpoints:
        raise ValueError(f"{run} has no checkpoints to analyse; train with --save_every 10.")
    started_from = options.get("model")
    tiny = started_from in (None, TINY)
    if config.start and not options.get("init"):
        checkpoints.insert(0, Checkpoint(0, None if tiny else str(started_from)))
    # The environment needs the tokenizer, which does not change in training.
    model = None if tiny and not options.get("init") else checkpoints[-1].model
    for_env = replace(config, run=None, model=model)
    return [
        Subject(name, split, config, make_env(for_env, split), tuple(checkpoints), options)
        for split in config.split
    ]


def checkpoints_of(run: Path) -> list[Checkpoint]:
    """Returns the checkpoints of a run folder, by iteration."""
    found = []
    for folder in (run / "checkpoints").glob("step-*"):
        step = folder.name.removeprefix("step-")
        if step.isdecimal() and (folder / "config.json").is_file():
            found.append(Checkpoint(int(step), str(folder), folder))
    return sorted(found, key=lambda checkpoint: checkpoint.iteration)


def critic_of(checkpoint: Checkpoint, policy: Policy) -> Critic | None:
    """Returns the critic that a checkpoint holds, or None.

    Args:
        checkpoint: Of a run.
        policy: The policy of the same checkpoint.

    Raises:
        UnsuitableError: There is one, but it does not fit the policy.
    """
    if checkpoint.folder is None or not (checkpoint.folder / f"{CRITIC}.safetensors").is_file():
        return None
    try:
        return Critic.loaded(checkpoint.folder, policy)
    except ValueError as error:
        raise UnsuitableError(str(error)) from error
