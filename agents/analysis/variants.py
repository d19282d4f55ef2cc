"""What a comparison runs: agents and variants of them, and the command of each run.

All variants share what has to be equal (problems, answers, updates, sampling, evaluation). With the
embedded policy those options come from the shipped config ``tiny_vineppo``, with ``--model`` from
the defaults, which are the paper's; whatever is given for all agents wins. An agent's own options
(learning rate, critic, loss) are those of its own command.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from agents.core.agent import Agent
from agents.core.config import BaseConfig, TrainingConfig, parse_config
from agents.core.loss_config import LossConfig, check_support
from agents.core.options import check, default_of, names_of
from graders.resolve import nearest

Settings = dict[str, str]
"""Options as text, under the fields' own names."""

_OWN = {"learning_rate", "seed", "output_dir"}
_LOSS = {item.name for item in fields(LossConfig)} - {"updates_per_batch", "minibatch_size"}
EQUAL = tuple(item.name for item in fields(BaseConfig) if item.name not in _OWN | _LOSS)
"""Options that have the same value for every variant unless it names one itself."""

_NOT_THE_RUN = ("output_dir", "plain")
_EVALUATIONS = 12  # a curve has about so many points
_COMPARED = {"eval_temperatures": (1.0,), "save_every": 0, "plain": True}
AGENTS = ("ppo", "vineppo", "rloo", "grpo")


@dataclass(frozen=True)
class Variant:
    """An agent with options of its own.

    Attributes:
        label: Its name in tables and folders, such as ``vineppo:num_rollouts=9``.
        agent: The agent's command.
        settings: Its options; they win over those for all.
    """

    label: str
    agent: str
    settings: Settings

    def with_settings(self, more: Mapping[str, str], label: str | None = None) -> Variant:
        """Returns the variant with options that give way to its own where both name one."""
        return replace(self, settings={**more, **self.settings}, label=label or self.label)


@cache
def config_class(agent: str) -> type[BaseConfig]:
    """Returns the configuration class of an agent's command.

    Raises:
        ValueError: There is no such agent.
    """
    if agent not in AGENTS:
        raise ValueError(f"unknown agent {agent!r}.{nearest(agent, AGENTS)} Known: {AGENTS}")
    found: type[BaseConfig] = _defined_in(agent, BaseConfig)
    return found


def _defined_in(agent: str, kind: type) -> Any:
    """Returns the one class of a kind that an agent's module defines."""
    module = import_module(f"agents.{agent}")
    (found,) = [
        item
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, kind) and item.__module__ == module.__name__
    ]
    return found


def parse_settings(
    cls: type[TrainingConfig], pairs: Iterable[tuple[str, str]], whose: str
) -> Settings:
    """Returns options under their own names, each checked.

    Args:
        cls: The configuration class that must know them.
        pairs: Names (aliases too, with ``-`` or ``_``) and values.
        whose: For errors, such as "of ppo".

    Raises:
        ValueError: An unknown option, a value out of range, or one the comparison sets itself.
    """
    table, settings = names_of(cls), {}
    for given, value in pairs:
        name = given.replace("-", "_")
        if name not in table:
            raise ValueError(f"unknown option {given!r} {whose}.{nearest(name, table)}")
        if table[name] in ("seed", "output_dir"):
            raise ValueError(f"{table[name]} is the comparison's own; use --seeds, --output")
        check(cls, table[name], value)
        settings[table[name]] = value
    return settings


def parse_variant(text: str) -> Variant:
    """Returns the variant that ``AGENT`` or ``AGENT:option=value,option=value`` names.

    Raises:
        ValueError: An unknown agent or option, or a value out of range.

    >>> parse_variant("ppo:lam=0.95").settings
    {'gae_lambda': '0.95'}
    """
    agent, _, rest = text.partition(":")
    pairs = [split_pair(piece) for piece in rest.split(",") if piece]
    return Variant(text, agent, parse_settings(config_class(agent), pairs, f"of {agent}"))


def split_pair(text: str) -> tuple[str, str]:
    """Returns name and value of ``name=value``; raises ValueError without a ``=``."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise ValueError(f"expected option=value, got {text!r}")
    return name, value


@dataclass(frozen=True)
class Run:
    """One run of an agent's ordinary command.

    Attributes:
        variant: The variant's label.
        agent: The agent's command.
        config: All its options; ``output_dir`` is its folder.
        options: The command line after ``python -m agents.AGENT``.
    """

    variant: str
    agent: str
    config: BaseConfig
    options: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(str(self.config.output_dir))

    @property
    def command(self) -> tuple[str, ...]:
        """What a user would type."""
        return ("python", "-m", f"agents.{self.agent}", *self.options)


def make_run(variant: Variant, for_all: Settings, seed: int, root: Path, **more: str) -> Run:
    """Returns the run of a variant with one seed.

    Its folder's name ends in a hash of all its options, so that no two different runs share one and
    folders of several machines can be copied together.

    Args:
        variant: The variant.
        for_all: Options of every variant.
        seed: The run's seed.
        root: Where run folders go.
        more: Options that win over all others, as a search tries them.

    Raises:
        ValueError: Options that do not go together.
    """
    cls = config_class(variant.agent)
    chosen = {**for_all, **variant.settings, **more}
    given = [(key, chosen[key]) for key in ("env", "model") if key in chosen]
    flags = tuple(word for key, value in given for word in _words(key, value))
    base = parse_config(cls, flags, tiny=f"tiny_{variant.agent}")
    values = _equal_values(flags) | _COMPARED
    values |= {key: check(cls, key, value) for key, value in chosen.items()}
    config = replace(base, **values, seed=seed)
    check_support(variant.agent, _defined_in(variant.agent, Agent).supports, config)
    if "eval_every" not in chosen:
        config = replace(config, eval_every=math.ceil(config.iterations / _EVALUATIONS))
    name = f"{folder_name(variant.label)}-s{seed}-{digest(config)}"
    config = replace(config, output_dir=str(root / name))
    differing = [
        word
        for item in fields(cls)
        if getattr(config, item.name) != getattr(base, item.name)
        for word in _words(item.name, getattr(config, item.name))
    ]
    return Run(variant.label, variant.agent, config, (*flags, *differing))


def options_of(config: BaseConfig) -> dict[str, Any]:
    """Returns the options that differ from their defaults and change what a run does.

    Options that a later version adds do not appear, as long as they are at their defaults.
    """
    return {
        item.name: getattr(config, item.name)
        for item in fields(config)
        if item.name not in _NOT_THE_RUN and getattr(config, item.name) != default_of(item)
    }


def digest(config: BaseConfig) -> str:
    """Returns eight hex digits that depend on all options but the folder's name."""
    text = json.dumps(options_of(config), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def folder_name(label: str) -> str:
    """Returns a label as part of a folder's name.

    >>> folder_name("vineppo:num_rollouts=9,reuse=false")
    'vineppo-num_rollouts-9-reuse-false'
    """
    return "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in label)


def matched(variant: Variant, run: Run, ratio: float) -> Variant:
    """Returns a variant with more answers a prompt, and with as many updates as before.

    Args:
        variant: What is to generate more.
        run: One of its runs.
        ratio: Tokens that the reference generates for each of this variant's.
    """
    answers = max(run.config.num_generations, round(run.config.num_generations * ratio))
    rows = run.config.num_prompts * run.config.num_generations
    steps = math.ceil(rows / run.config.minibatch_size)
    more = {
        "num_generations": str(answers),
        "minibatch_size": str(math.ceil(run.config.num_prompts * answers / steps)),
    }
    return replace(
        variant,
        label=f"{variant.label} (as many tokens)",
        settings={**variant.settings, **more},
    )


@cache
def _equal_values(base_flags: tuple[str, ...]) -> dict[str, Any]:
    base = parse_config(config_class("vineppo"), base_flags, tiny="tiny_vineppo")
    return {name: getattr(base, name) for name in EQUAL}


def _words(name: str, value: Any) -> list[str]:
    """Returns an option as words of a command line.

    >>> _words("eval_temperatures", (0.0, 1.0)), _words("reuse", False)
    (['--eval_temperatures', '0.0', '1.0'], ['--reuse', 'false'])
    """
    if isinstance(value, bool):
        return [f"--{name}", str(value).lower()]
    if isinstance(value, dict):
        return [f"--{name}", json.dumps(value)]
    values = value if isinstance(value, tuple) else (value,)
    return [f"--{name}", *map(str, values)]


def grouped(argv: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Returns a command line as flags, each with the words that follow it.

    Raises:
        ValueError: The line begins with a word that is no flag.

    >>> grouped(["--seeds", "5", "--set", "a=1", "b=2", "--jobs=2"])
    [('seeds', ['5']), ('set', ['a=1', 'b=2']), ('jobs', ['2'])]
    """
    groups: list[tuple[str, list[str]]] = []
    for word in argv:
        if word.startswith("--") or word == "-h":
            name, equals, value = word.lstrip("-").partition("=")
            groups.append((name.replace("-", "_"), [value] if equals else []))
        elif groups:
            groups[-1][1].append(word)
        else:
            raise ValueError(f"expected --OPTION first, got {word!r}")
    return groups
