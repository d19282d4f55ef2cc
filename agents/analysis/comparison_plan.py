"""The options of a comparison, and what they ask to be run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agents.analysis.variants import (
    AGENTS,
    Run,
    Settings,
    Variant,
    config_class,
    folder_name,
    grouped,
    make_run,
    parse_settings,
    parse_variant,
    split_pair,
)
from agents.core.config import BaseConfig, parse_config
from agents.core.options import Options, names_of, option

PAPER_GRID = ("1e-2", "3e-3", "1e-3", "3e-4", "1e-4")
"""What the VinePPO paper searched for the KL coefficient; the default grid of every search."""

MATCHED_AGENTS = ("rloo", "grpo")
"""Agents that get more answers a prompt with ``--match tokens``."""


@dataclass(frozen=True)
class CompareConfig(Options):
    """The comparison's own options; all others are the agents'."""

    agents: tuple[str, ...] = option(
        AGENTS, "Agents, or variants such as vineppo:num_rollouts=9,reuse=false."
    )
    seeds: int = option(5, "Seeds of each variant; the same ones for all.", low=1, high=1000)
    first_seed: int = option(0, "The first of the seeds.", low=0, high=2**31)
    search: tuple[str, ...] | None = option(
        None, "Options to choose for each variant by a grid, one after the other."
    )
    grid: tuple[str, ...] | None = option(
        None, f"Other grids, such as learning_rate=1e-4,3e-4; without: {', '.join(PAPER_GRID)}."
    )
    search_seed: int = option(1000, "Seed of the search, none of the reported.", low=0, high=2**31)
    search_iterations: int | None = option(
        None, "Iterations of a run of the search; none: as many as of any run.", low=1
    )
    match: Literal["none", "tokens"] = option(
        "none",
        "tokens: RLOO and GRPO once more, with as many answers a prompt as it takes to generate "
        "about as many tokens as VinePPO.",
    )
    settings: tuple[str, ...] | None = option(
        None, "Options of all agents or of one: iterations=40 ppo.lam=0.95.", aliases=("set",)
    )
    window: int = option(3, "Evaluations averaged before a peak is looked for.", low=1)
    jobs: int = option(1, "Runs at a time, each on one thread.", low=1, high=1024)
    output: str | None = option(
        None, "Folder of the comparison; none: runs/compare-ENV.", aliases=("output_dir",)
    )
    plain: bool = option(False, "Plain lines instead of the live view.")

    def __post_init__(self) -> None:
        """Checks every field and that the search has a seed of its own; raises ValueError."""
        super().__post_init__()
        if self.search_seed in self.reported_seeds:
            raise ValueError(
                f"search_seed must be none of the reported seeds {self.first_seed} to "
                f"{self.reported_seeds[-1]}, got {self.search_seed}"
            )

    @property
    def reported_seeds(self) -> range:
        """The seeds of the runs that are reported."""
        return range(self.first_seed, self.first_seed + self.seeds)


@dataclass
class Plan:
    """What is to be run.

    Attributes:
        config: The comparison's options.
        for_all: Options of every variant.
        variants: The variants; a search adds what it chose.
        folder: Where everything goes.
        command: What the user typed.
    """

    config: CompareConfig
    for_all: Settings
    variants: list[Variant]
    folder: Path
    command: str = ""
    chosen: dict[str, dict[str, str]] = field(default_factory=dict)
    scores: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)

    def runs_of(self, variant: Variant) -> list[Run]:
        """Returns a variant's run of each reported seed."""
        root = self.folder / "runs"
        seeds = self.config.reported_seeds
        return [make_run(variant, self.for_all, seed, root) for seed in seeds]


def make_plan(argv: Sequence[str], about: str) -> Plan:
    """Returns what a command line asks for; nothing is run.

    Args:
        argv: The command line without the program's name.
        about: What the command does, for ``--help``.

    Raises:
        ValueError: An unknown agent or option, or options that do not go together.
    """
    own: dict[str, list[str]] = {}
    pairs: list[tuple[str, str]] = []
    known = names_of(CompareConfig)
    for name, words in grouped(argv):
        if name in known or name in ("config", "help", "h"):
            own.setdefault(known.get(name, name), []).extend(words)
        else:
            pairs.append((name, " ".join(words) or "true"))
    line = [word for name, words in own.items() for word in (f"--{name}", *words)]
    config = parse_config(CompareConfig, line, description=about)
    variants = [parse_variant(text) for text in dict.fromkeys(config.agents)]
    for text in config.settings or ():
        name, value = split_pair(text)
        agent, dot, rest = name.partition(".")
        if not dot:
            pairs.append((name, value))
            continue
        settings = parse_settings(config_class(agent), [(rest, value)], f"of {agent}")
        if agent not in {variant.agent for variant in variants}:
            raise ValueError(f"{text}: {agent} is none of the agents that are compared")
        variants = [v.with_settings(settings) if v.agent == agent else v for v in variants]
    for_all = parse_settings(BaseConfig, pairs, "of all agents; give one agent's as AGENT.OPTION")
    env = folder_name(for_all.get("env", "MathReason-v0"))
    command = shlex.join(["python", "-m", "agents.compare", *argv])
    folder = Path(config.output or f"runs/compare-{env}")
    plan = Plan(config, for_all, variants, folder, command)
    _check(plan)
    return plan


def _check(plan: Plan) -> None:
    """Finds mistakes before the first run; raises ValueError."""
    grids(plan.config)
    for variant in plan.variants:
        plan.runs_of(variant)
        for name in plan.config.search or ():
            for value in grids(plan.config)[name]:
                parse_settings(config_class(variant.agent), [(name, value)], f"of {variant.agent}")
    agents = {variant.agent for variant in plan.variants}
    if plan.config.match == "tokens" and not ("vineppo" in agents and agents & {*MATCHED_AGENTS}):
        raise ValueError(f"match=tokens needs vineppo and one of {MATCHED_AGENTS} in --agents")


def grids(config: CompareConfig) -> dict[str, list[str]]:
    """Returns the values to try for each searched option; raises ValueError."""
    given = dict(split_pair(text) for text in config.grid or ())
    for name in given:
        if name not in (config.search or ()):
            raise ValueError(f"the grid {name} needs --search {name}")
    return {
        name: given[name].split(",") if name in given else list(PAPER_GRID)
        for name in config.search or ()
    }
