"""One iteration of VinePPO beside one of GRPO with as many answers: CPU seconds by phase.

    python benchmarks/iteration.py                        # the embedded policy, shipped settings
    python benchmarks/iteration.py --iterations 20 --threads 2 -- --num_rollouts 4

All contenders run in this process, in turn, on the same problems and, as the learning rate is
almost 0, with the same policy: iteration for iteration they sample the same answers. What follows
``--`` goes to every contender's command line. ``vineppo`` gets its values from one sweep, ``waves``
from up to three calls of the engine, ``fresh`` from K new rollouts of every state (the paper's
estimator). The last line is JSON: seconds by phase, tokens per CPU second, and each contender's
time over GRPO's as median, minimum and maximum over the iterations.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PHASES = ("rollout", "value", "update")
CONTENDERS = ("grpo", "vineppo", "waves", "fresh")


def make_agent(name: str, arguments: list[str]) -> Any:
    """Returns an agent at the shipped settings."""
    from agents.core.config import parse_config
    from agents.grpo import GRPO, GRPOConfig
    from agents.vineppo import VinePPO, VinePPOConfig

    flags = ["--eval_problems", "0", "--learning_rate", "1e-12", *arguments]
    folder = Path(tempfile.mkdtemp())
    if name == "grpo":
        shipped = parse_config(VinePPOConfig, arguments, tiny="tiny_vineppo")
        for shape in ("max_new_tokens", "num_prompts", "num_generations"):
            flags += [f"--{shape}", str(getattr(shipped, shape))]
        known = set(GRPOConfig.__dataclass_fields__)
        pairs = zip(flags[::2], flags[1::2], strict=True)
        kept = [part for pair in pairs if pair[0][2:] in known for part in pair]
        return GRPO(parse_config(GRPOConfig, kept, tiny="tiny_grpo"), folder)
    reuse = ["--reuse", "false"] if name == "fresh" else []
    agent = VinePPO(parse_config(VinePPOConfig, [*flags, *reuse], tiny="tiny_vineppo"), folder)
    if name == "waves":
        agent.engine.can_sweep = lambda: False  # type: ignore[attr-defined]
    return agent


def iterate(agent: Any, iteration: int) -> dict[str, float]:
    """Runs one iteration and returns its seconds by phase and its tokens."""
    from agents.core.credit import batch_of

    clock = [time.process_time()]
    answers = agent.collect(iteration, lambda *counts: None)
    clock.append(time.process_time())
    credit = agent.advantages(answers, iteration, lambda *counts: None)
    clock.append(time.process_time())
    batch = batch_of(answers, credit.tokens, agent.config)
    agent.update(batch, iteration, lambda *counts: None, lambda: False)
    clock.append(time.process_time())
    figures = {
        phase: end - begin for phase, begin, end in zip(PHASES, clock[:-1], clock[1:], strict=True)
    }
    figures["total"] = clock[-1] - clock[0]
    figures["rollout_tokens"] = float(sum(len(answer.response) for answer in answers))
    figures["value_tokens"] = credit.metrics.get("vine/tokens", 0.0)
    return figures


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--iterations", type=int, default=10, help="Measured; one more warms up.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    own, _, rest = " ".join(sys.argv[1:]).partition("-- ")
    arguments = parser.parse_args(own.split())

    import torch

    torch.set_num_threads(arguments.threads)
    names = ["grpo", *(name for name in arguments.contenders if name != "grpo")]
    agents = {name: make_agent(name, rest.split()) for name in names}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for iteration in range(arguments.iterations + 1):
        for name in names[:: 1 if iteration % 2 else -1]:  # no contender always runs after another
            figures = iterate(agents[name], iteration + 1)
            if iteration:
                runs[name].append(figures)
    summary: dict[str, Any] = {"iterations": arguments.iterations, "arguments": rest}
    sys.stdout.write(f"{'':9}{'rollout':>9}{'value':>9}{'update':>9}{'total':>9}  / grpo's\n")
    for name, measured in runs.items():
        pairs = zip(measured, runs["grpo"], strict=True)
        ratios = sorted(one["total"] / grpo["total"] for one, grpo in pairs)
        spread = [statistics.median(ratios), ratios[0], ratios[-1]]
        middle = {key: statistics.median(f[key] for f in measured) for key in measured[0]}
        line = "".join(f"{1000 * middle[phase]:9.0f}" for phase in (*PHASES, "total"))
        sys.stdout.write(
            f"{name:9}{line}  {spread[0]:.2f} ({spread[1]:.2f} - {spread[2]:.2f}) ms\n"
        )
        result: dict[str, Any] = {key: round(value, 4) for key, value in middle.items()}
        result["ratio"] = [round(number, 3) for number in spread]
        for phase in ("rollout", "value"):
            if middle[f"{phase}_tokens"]:
                speed = middle[f"{phase}_tokens"] / middle[phase]
                result[f"{phase}_tokens_per_s"] = round(speed)
        summary[name] = result
    sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    main()
