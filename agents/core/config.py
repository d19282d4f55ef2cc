"""The options of every training command, and how they are read: flags, then YAML, then defaults.

The defaults are the VinePPO paper's values (arXiv 2410.01679). An algorithm inherits from
``BaseConfig``, adds its own fields and calls ``parse_config``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from agents.core.config_files import load_yaml, save_yaml
from agents.core.flags import parse_flags
from agents.core.loss_config import LossConfig
from agents.core.options import Options, option
from graders.resolve import nearest

ENV_FLAGS = (
    "data",
    "tokenizer",
    "segmenter",
    "grader",
    "prompt",
    "chat_template",
    "max_prompt_tokens",
    "max_new_tokens",
)
"""Fields that become keyword arguments of the environment where they are not None."""
OF_ONE_ENV = (*(name for name in ENV_FLAGS if name != "tokenizer"), "env_kwargs")
"""Fields that describe one environment and mean nothing for another."""

__all__ = [
    "ENV_FLAGS",
    "OF_ONE_ENV",
    "BaseConfig",
    "PlayConfig",
    "TrainingConfig",
    "command_errors",
    "env_kwargs_of",
    "parse_config",
    "save_yaml",
]

_MOST_TOKENS, _MOST_ROWS = 2**20, 10**6  # beyond: memory runs out before an error comes
_DEVICES = ("auto", "cpu", "cuda", "mps", "xpu")
ConfigT = TypeVar("ConfigT", bound=Options)


@dataclass(frozen=True)
class PlayConfig(Options):
    """What every command has that plays a policy in an environment.

    Every field is checked when an instance is made. Names that a table resolves (env, engine,
    segmenter, grader, prompt) are checked where they are resolved.
    """

    env: str = option("MathReason-v0", "Environment id, or pkg:Env-v0 for one of your own.")
    env_kwargs: dict[str, Any] = option(  # noqa: RUF009 - each instance gets its own copy
        {}, "More environment options, JSON: '{\"level\": 3}'."
    )
    data: str | None = option(None, "Problems: a data set's hub name or a local folder.")
    tokenizer: str | None = option(None, "Tokenizer: folder or hub name.")
    segmenter: str | None = option(None, "Where a reasoning step ends, for example newline.")
    grader: str | None = option(None, "What decides whether an answer is right, such as gsm8k.")
    prompt: str | None = option(None, "Name of the prompt template.")
    chat_template: bool | None = option(
        None, "Apply the tokenizer's chat template; none: as the prompt says."
    )
    max_prompt_tokens: int | None = option(
        None, "Longest prompt in tokens.", low=1, high=_MOST_TOKENS, paper="1512"
    )
    max_new_tokens: int | None = option(
        None,
        "Answer budget in tokens.",
        low=1,
        high=_MOST_TOKENS,
        paper="1024",
        aliases=("max_completion_length",),
    )

    model: str | None = option(
        None,
        "Policy: folder or hub name; 'tiny' is the embedded one.",
        aliases=("model_name_or_path",),
    )
    engine: str = option("hf", "What generates tokens: hf, vllm or pkg.mod:attr.")
    engine_kwargs: dict[str, Any] = option(  # noqa: RUF009 - each instance gets its own
        {}, "More options of the engine, JSON, such as '{\"max_rows\": 64}'."
    )
    dtype: Literal["float32", "bfloat16", "float64"] = option(
        "float32", "Precision of the policy.", paper="bfloat16"
    )
    device: str = option(
        "auto", "Where the policy runs: auto, cpu, cuda, cuda:1, mps.", harmless=True
    )
    threads: int = option(
        0, "CPU threads of PyTorch; 0: as many as it takes by itself.", low=0, harmless=True
    )
    seed: int = option(0, "Seed of everything random in the run.", low=0, high=2**32 - 1)

    def __post_init__(self) -> None:
        """Checks every field; raises ValueError."""
        super().__post_init__()
        kind, colon, index = self.device.partition(":")
        if kind not in _DEVICES or (colon and not index.isdecimal()):
            raise ValueError(
                f"device must be one of {', '.join(_DEVICES)}, or cuda:1 and the like, "
                f"got {self.device!r}.{nearest(kind, _DEVICES)}"
            )


@dataclass(frozen=True)
class TrainingConfig(PlayConfig):
    """What every training command has."""

    output_dir: str | None = option(
        None, "Run folder; none: runs/AGENT-ENV-sSEED-TIME.", harmless=True
    )
    dry_run: bool = option(
        False,
        "Print what the run needs of memory and whether that fits this machine, build everything "
        "if it does, and end.",
        harmless=True,
    )
    gradient_checkpointing: bool = option(
        False,
        "Compute layers again in the backward pass: less memory, more time.",
        paper="true",
        harmless=True,
    )
    lora_r: int = option(0, "Rank of LoRA adapters; 0: all weights are trained.", low=0, paper="0")
    lora_alpha: int = option(32, "LoRA adapters are scaled by this over their rank.", low=1)
    bf16: bool = option(False, "Matrix products of training in bfloat16, weights in float32.")

    micro_batch_size: int = option(
        16,
        "Answers per forward pass at most; no effect on the update.",
        low=1,
        paper="16",
        harmless=True,
    )
    learning_rate: float = option(1e-6, "Peak learning rate of AdamW.", above=0, paper="1e-6")
    lr_scheduler: Literal["linear", "constant"] = option(
        "linear", "Learning rate after warm-up: linear to 0, or constant.", paper="linear"
    )
    warmup_ratio: float = option(
        0.03, "Fraction of all updates for warm-up.", low=0, high=1, paper="0.03"
    )
    weight_decay: float = option(0.0, "Weight decay of AdamW.", low=0, paper="0")
    adam_beta1: float = option(0.9, "AdamW's first decay rate.", low=0, below=1, paper="0.9")
    adam_beta2: float = option(0.999, "AdamW's second decay rate.", low=0, below=1, paper="0.999")
    max_grad_norm: float = option(
        1.0, "Gradients are scaled down to this norm; inf: never.", above=0, paper="1.0"
    )

    max_bad_gradients: int = option(
        10,
        "Steps in a row with a gradient that is not finite, all skipped, that end a run.",
        low=1,
        harmless=True,
    )

    eval_every: int = option(
        10,
        "Iterations between evaluations; 0: only before and after.",
        low=0,
        paper="10",
        harmless=True,
    )
    eval_problems: int = option(
        500, "Validation problems per evaluation; 0: none.", low=0, high=_MOST_ROWS, harmless=True
    )
    eval_temperatures: tuple[float, ...] = option(
        (0.0, 0.35, 1.0),
        "Temperatures of evaluation; 0 is greedy.",
        low=0,
        paper="0.35",
        harmless=True,
    )
    eval_samples: int = option(
        16,
        "Answers per problem at a temperature above 0.",
        low=1,
        high=_MOST_ROWS,
        paper="16",
        harmless=True,
    )
    plain: bool = option(False, "Plain lines instead of the live view.", harmless=True)
    logger: str = option(
        "tensorboard",
        "What gets the metrics beside metrics.jsonl: tensorboard, wandb, none, or pkg.mod:attr, "
        "called as attr(folder, config), for a tianshou logger.",
        aliases=("report_to",),
        harmless=True,
    )


@dataclass(frozen=True)
class BaseConfig(LossConfig, TrainingConfig):
    """What all reinforcement-learning commands share.

    >>> BaseConfig(num_generations=0)
    Traceback (most recent call last):
        ...
    ValueError: num_generations must be >= 1, got 0 (paper: 8)
    """

    iterations: int = option(
        650, "Rounds of collecting and updating.", low=1, paper="650 on GSM8K, 1000 on MATH"
    )
    num_prompts: int = option(64, "Problems per iteration.", low=1, high=_MOST_ROWS, paper="64")
    num_generations: int = option(8, "Answers per problem.", low=1, high=_MOST_ROWS, paper="8")
    temperature: float = option(0.6, "Sampling temperature in training.", above=0, paper="0.6")
    top_p: float = option(0.9, "Nucleus mass sampled from.", above=0, high=1, paper="0.9")

    save_every: int = option(
        10, "Iterations between checkpoints; 0: only at the end.", low=0, paper="10", harmless=True
    )
    keep_checkpoints: int = option(2, "Newest checkpoints kept; 0: all.", low=0, harmless=True)

    def __post_init__(self) -> None:
        """Checks every field and those that do not go together; raises ValueError."""
        super().__post_init__()
        if self.zero_spread != "keep" and self.num_generations == 1:
            raise ValueError(
                f"zero_spread={self.zero_spread} and num_generations=1 do not go together: no "
                "group of one has spread. Set num_generations to 2 or more, or zero_spread to keep."
            )


def env_kwargs_of(config: Options) -> dict[str, Any]:
    """Returns the environment's keyword arguments: ``env_kwargs``, then the flags that were given.

    >>> env_kwargs_of(BaseConfig(env_kwargs={"level": 3}, max_new_tokens=64))
    {'level': 3, 'max_new_tokens': 64}
    """
    flags = {name: getattr(config, name, None) for name in ENV_FLAGS}
    given = {name: value for name, value in flags.items() if value is not None}
    return dict(getattr(config, "env_kwargs", {})) | given


def parse_config(
    cls: type[ConfigT],
    argv: Sequence[str] | None = None,
    *,
    tiny: str | None = None,
    description: str = "",
) -> ConfigT:
    """Returns the configuration of a command: flags win over YAML, YAML over the defaults.

    Args:
        cls: The configuration class.
        argv: The command line without the program's name; None: ``sys.argv[1:]``.
        tiny: Name of a shipped config, or None for no such base.
        description: What the command does, for ``--help``.

    Raises:
        ValueError: An unknown option or key, or a value that is refused; says which file and key.
        SystemExit: ``--help`` was given.
    """
    return config_of(cls, training_flags(cls, argv, tiny=tiny, description=description), tiny=tiny)


def training_flags(
    cls: type[Options],
    argv: Sequence[str] | None = None,
    *,
    tiny: str | None = None,
    description: str = "",
    resumable: bool = False,
) -> dict[str, Any]:
    """Returns what a training command's line gives; see ``parse_config`` and ``parse_flags``."""
    base = f" Without --config and --model the base is the shipped config {tiny}." if tiny else ""
    return parse_flags(
        cls,
        argv,
        shared=BaseConfig,
        shared_title="options of every training command",
        description=description,
        epilog="Flags win over the YAML file, the file over the defaults, which are the VinePPO "
        f"paper's values where the help names no other.{base}",
        resumable=resumable,
    )


def config_of(cls: type[ConfigT], flags: Mapping[str, Any], *, tiny: str | None = None) -> ConfigT:
    """Returns the configuration that flags describe.

    With neither ``config`` nor ``model`` among them, the shipped config ``tiny`` is the base. Its
    environment options (budget, data, ...) are left out where ``env`` names another environment,
    since they describe the first one.

    Args:
        cls: The configuration class.
        flags: Checked values by field name; ``config`` names a YAML file.
        tiny: Name of a shipped config, or None for no such base.

    Raises:
        ValueError: An unknown key of the file, or a value that is refused; says which.
    """
    given = dict(flags)
    source = given.pop("config", None)
    if source is not None:
        values = load_yaml(cls, source)
    elif tiny is not None and "model" not in given:
        values = load_yaml(cls, tiny)
        if given.get("env", values.get("env")) != values.get("env"):
            values = {key: value for key, value in values.items() if key not in OF_ONE_ENV}
    else:
        values = {}
    return cls(**values | given)


@contextmanager
def command_errors() -> Iterator[None]:
    """Around a command's set-up: a user's mistake becomes one line on stderr and exit status 2.

    ValueError, OSError and Gymnasium's errors are mistakes of set-up; anything else is a fault of
    the program and keeps its traceback.
    """
    try:
        yield
    except Exception as error:
        from gymnasium.error import Error as GymnasiumError

        if not isinstance(error, ValueError | OSError | GymnasiumError):
            raise
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(2) from None
