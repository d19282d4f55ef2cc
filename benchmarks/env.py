"""Speed of the environment: tokens a second, and microseconds of a snapshot and a restore.

    python benchmarks/env.py

Episodes of 64 and 512 tokens, restored to the prompt and then stepped or played to their end, with
grading (the last token is the stop token) and without (the budget ends). Beside ``TokenEnv.step``:
``TokenVectorEnv`` and Gymnasium's ``SyncVectorEnv`` over 8 ``TokenEnv``, and ``play``. Snapshots
and restores of states of 10 to 10,000 tokens beside ``copy.deepcopy`` of the environment, which
copies its tokenizer and problems too, and of its episode alone. All in this process, in turn, in
CPU seconds. The last line is JSON: each figure's median over the rounds by length, without grading
unless named ``graded``, its lowest and highest under ``range``; ratios ([median, lowest, highest])
are taken within a round.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file stands graders.py

from lang_env import Problem  # noqa: E402 - after the line above
from lang_env.env import TokenEnv  # noqa: E402
from lang_env.vector import TokenVectorEnv  # noqa: E402

LENGTHS = (64, 512)
STATES = (10, 100, 1_000, 10_000)
COPIES = 8
PROBLEM = Problem("p", "Ann has 3 boxes of 14 pens. How many pens has she?", "42")
LINE = "3*14=42 pens in 3 boxes.\n"
ANSWER = "#### 42"
Ratio = list[float]
"""Median, least and largest."""


def make_env(budget: int) -> TokenEnv:
    """Returns an environment whose answers may have ``budget`` tokens."""
    return TokenEnv([PROBLEM], max_prompt_tokens=64, max_new_tokens=budget)


def answer_of(env: TokenEnv, length: int, graded: bool) -> list[int]:
    """Returns an answer of ``length`` tokens, the last of them a stop token if ``graded``."""
    end = env.tokenizer.encode(ANSWER) + ([env.stop_token_ids[0]] if graded else [])
    line = env.tokenizer.encode(LINE)
    fill = line * (length // len(line) + 1)
    return fill[: length - len(end)] + end


def seconds(work: Callable[[], object], at_least: float) -> float:
    """Returns CPU seconds a call, over as many calls as fill ``at_least`` seconds."""
    calls, spent = 1, 0.0
    while True:
        begin = time.process_time()
        for _ in range(calls):
            work()
        spent = time.process_time() - begin
        if spent >= at_least:
            return spent / calls
        calls = max(2 * calls, int(calls * at_least / max(spent, 1e-5)))


def players(length: int, graded: bool) -> dict[str, tuple[Callable[[], object], int]]:
    """Returns, by contender, a function that runs an episode (or eight) and its tokens."""
    single = make_env(length)
    tokens = answer_of(single, length, graded)
    single.reset(seed=0)
    start = single.snapshot()
    options: dict[str, Any] = {"max_prompt_tokens": 64, "max_new_tokens": length}
    ours = TokenVectorEnv(COPIES, problems=[PROBLEM], **options)
    makers = [lambda: make_env(length) for _ in range(COPIES)]
    theirs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)
    rows = [np.full(COPIES, token) for token in tokens]

    def step() -> None:
        single.restore(start)
        for token in tokens:
            single.step(token)

    def play() -> None:
        single.restore(start)
        single.play(tokens)

    def step_all(envs: Any) -> Callable[[], None]:
        def run() -> None:
            envs.reset(options={"snapshot": start})
            for row in rows:
                envs.step(row)

        return run

    def play_all() -> None:
        ours.reset(options={"snapshot": start})
        ours.play([tokens] * COPIES)

    return {
        "step": (step, length),
        "play": (play, length),
        "vector_step": (step_all(ours), COPIES * length),
        "vector_play": (play_all, COPIES * length),
        "sync_vector_step": (step_all(theirs), COPIES * length),
    }


def states(length: int) -> dict[str, Callable[[], object]]:
    """Returns the contenders of a state with a response of ``length`` tokens."""
    env = make_env(length + 8)
    env.reset(seed=0)
    env.play(answer_of(env, length, graded=False))
    state = env.snapshot()
    return {
        "snapshot": env.snapshot,
        "restore": lambda: env.restore(state),
        "deepcopy": lambda: copy.deepcopy(env),
        "deepcopy_episode": lambda: copy.deepcopy(env._episode),
    }


def in_turn(
    contenders: dict[str, Callable[[], object]], rounds: int, at_least: float
) -> dict[str, list[float]]:
    """Returns the seconds a call of each contender, a number a round; the order alternates."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name in [*contenders][:: 1 if turn % 2 else -1]:
            spent = seconds(contenders[name], at_least)
            if turn:  # the first round warms up
                found[name].append(spent)
    return found


def spread(numbers: list[float]) -> Ratio:
    """Returns median, least and largest to three digits."""
    values = (statistics.median(numbers), min(numbers), max(numbers))
    return [float(f"{value:.3g}") for value in values]


def ratios(slow: list[float], fast: list[float]) -> Ratio:
    """Returns how many times faster the second is, round for round."""
    return spread([one / other for one, other in zip(slow, fast, strict=True)])


def keep(result: dict[str, Any], name: str, length: int, numbers: list[float]) -> float:
    """Stores and returns a figure's median; its range goes under ``range``."""
    middle, *ends = spread(numbers)
    result.setdefault(name, {})[str(length)] = middle
    result.setdefault("range", {}).setdefault(name, {})[str(length)] = ends
    return middle


def measure_players(result: dict[str, Any], rounds: int, at_least: float) -> None:
    """Measures and prints tokens a second."""
    names = ("step", "vector_step", "sync_vector_step", "play", "vector_play")
    head = "".join(f"{name:>18}" for name in names)
    sys.stdout.write(f"{'tokens a second':24}{head}\n")
    for length in LENGTHS:
        for kind, graded in (("", False), ("_graded", True)):
            made = players(length, graded)
            found = in_turn({name: made[name][0] for name in names}, rounds, at_least)
            line = ""
            for name in names:
                speeds = [made[name][1] / spent for spent in found[name]]
                line += f"{keep(result, f'{name}{kind}_tokens_per_s', length, speeds):18,.0f}"
            sys.stdout.write(f"{f'{length} tokens{kind}'.replace('_', ', '):24}{line}\n")
            against = ratios(found["sync_vector_step"], found["vector_step"])
            result.setdefault(f"vector_step{kind}_over_sync", {})[str(length)] = against


def measure_states(result: dict[str, Any], rounds: int, at_least: float) -> None:
    """Measures and prints microseconds of states."""
    names = ("snapshot", "restore", "deepcopy", "deepcopy_episode")
    head = "".join(f"{name:>18}" for name in (*names, "deepcopy/restore"))
    sys.stdout.write(f"\n{'microseconds':24}{head}\n")
    for length in STATES:
        found = in_turn(states(length), rounds, at_least)
        line = ""
        for name in names:
            times = [1e6 * spent for spent in found[name]]
            line += f"{keep(result, f'{name}_us', length, times):18,.2f}"
        for name in ("snapshot", "restore"):
            against = ratios(found["deepcopy"], found[name])
            result.setdefault(f"deepcopy_over_{name}", {})[str(length)] = against
        last = result["deepcopy_over_restore"][str(length)][0]
        sys.stdout.write(f"{f'{length:,} tokens':24}{line}{last:18,.0f}\n")


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="Measured; one more warms up.")
    parser.add_argument("--seconds", type=float, default=0.05, help="Least CPU seconds a figure.")
    arguments = parser.parse_args()
    result: dict[str, Any] = {}
    measure_players(result, arguments.rounds, arguments.seconds)
    measure_states(result, arguments.rounds, arguments.seconds)
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
