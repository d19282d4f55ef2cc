"""Supervised fine-tuning on the problems' solutions.

    python -m agents.sft --config configs/tiny_sft.yaml
    python -m agents.sft --env GSM8K-v0 --data FOLDER --model MODEL

The loss is the negative log-likelihood of the solution's tokens and of the end token; prompt tokens
have none. With ``--init`` a new model is trained from nothing: so the embedded policy is made.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agents.core.checkpoint import load_weights, save_checkpoint
from agents.core.command import run_training
from agents.core.config import TrainingConfig
from agents.core.distributed import all_sum, on_first, own_share, sum_gradients
from agents.core.envs import ProblemCursor, make_env
from agents.core.evaluation import evaluate_and_report
from agents.core.interrupt import Interrupt
from agents.core.loading import engine_of, load_policy, new_policy, prepared
from agents.core.losses import masked_sum
from agents.core.micro import MicroBatchSize, micro_batches
from agents.core.optimizer import make_optimizer
from agents.core.options import option
from agents.core.packing import check_packing, pack, packed
from agents.core.policy import Policy
from agents.core.reporting import Reporter
from agents.core.streams import generator
from agents.core.update_log import Diverged, load_optimizer_state, optimizer_state
from graders.resolve import resolve
from lang_env.problem import Problem

DEMONSTRATIONS = {
    "solution": "agents.sft:solution_of",
    "slips": "lang_env.sources.procedural.slips:slipped_solution",
}
"""Short names of what is imitated; ``pkg.mod:attr`` names a function of your own."""

Demonstrate = Callable[..., str]


@dataclass(frozen=True)
class SFTConfig(TrainingConfig):
    """What SFT adds to the options of every training command."""

    max_steps: int = option(1000, "Optimiser steps.", low=1)
    batch_size: int = option(64, "Solutions per optimiser step.", low=1, paper="64")
    packing: bool = option(
        False,
        "Put several examples into a row, each attending to itself only: less padding, the same "
        "update; micro_batch_size then counts rows.",
    )
    pack_length: int = option(
        2048,
        "Tokens of a packed row at most, attention costing their square; a longer example has a "
        "row of its own.",
        low=1,
    )
    logging_steps: int = option(50, "Optimiser steps per row of the log.", low=1)
    save_steps: int = option(
        500, "Optimiser steps between checkpoints; 0: only at the end.", low=0, harmless=True
    )
    demonstrations: str = option(
        "solution", "What is imitated: solution, slips (the procedural ones), or pkg.mod:attr."
    )
    demonstration_kwargs: dict[str, Any] = option(  # noqa: RUF009 - each instance gets its own
        {}, "Options of what is imitated, JSON."
    )
    emphasis: dict[str, float] = option(  # noqa: RUF009 - each instance gets its own
        {}, "JSON of regex to weight: tokens of the first group weigh so much in the loss."
    )
    init: dict[str, Any] = option(  # noqa: RUF009 - each instance gets its own
        {}, "JSON of LlamaConfig values: train a new model from nothing instead of --model."
    )

    def __post_init__(self) -> None:
        """Checks the regular expressions too."""
        super().__post_init__()
        for pattern, weight in self.emphasis.items():
            try:
                grouped = re.compile(pattern).groups > 0
            except re.error:
                grouped = False
            if not grouped or not weight > 0:
                raise ValueError(
                    f"emphasis needs a regex with a group and a weight > 0, got {pattern!r}: "
                    f"{weight!r}"
                )

    @property
    def iterations(self) -> int:
        """Rows of the log."""
        return math.ceil(self.max_steps / self.logging_steps)


def solution_of(problem: Problem, rng: np.random.Generator) -> str:
    """Returns the problem's own solution.

    Raises:
        ValueError: It has none.
    """
    if not problem.solution:
        raise ValueError(f"problem {problem.id!r} has no solution to imitate")
    return problem.solution


def token_weights(text: str, pieces: Sequence[str], emphasis: dict[str, float]) -> list[float]:
    r"""Returns the loss weight of each token: 1, or what the last matching pattern says.

    Args:
        text: The demonstration.
        pieces: The text of each of its tokens in order; tokens beyond the text weigh 1.
        emphasis: Regular expression to weight; the first group marks the characters.

    >>> token_weights("a:3+4=7\n", list("a:3+4=7\n"), {"=(\\d)": 6.0})
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 6.0, 1.0]
    """
    by_char = [1.0] * len(text)
    for pattern, weight in emphasis.items():
        for match in re.finditer(pattern, text):
            by_char[match.start(1) : match.end(1)] = [weight] * (match.end(1) - match.start(1))
    weights, place = [], 0
    for piece in pieces:
        weights.append(max(by_char[place : place + len(piece)], default=1.0))
        place += len(piece)
    return weights


class SFT:
    """The trainer."""

    name = "sft"

    def __init__(self, config: SFTConfig, folder: Path) -> None:
        """Builds environments, policy and optimizer.

        Args:
            config: The options.
            folder: Where checkpoints go.

        Raises:
            ValueError: Options that do not fit together.
        """
        self.config, self.folder = config, folder
        self.env = make_env(config, "train")
        self.eval_env = make_env(config, "validation") if config.eval_problems else None
        self.tokenizer = self.env.tokenizer
        if config.init and config.model is not None:
            raise ValueError("--init makes a new model and --model loads one: give only one")
        self.policy: Policy = (
            new_policy(
                config.init,
                self.tokenizer,
                seed=config.seed,
                dtype=config.dtype,
                device=config.device,
            )
            if config.init
            else load_policy(config.model, self.tokenizer, dtype=config.dtype, device=config.device)
        )
        prepared(self.policy, config)
        if config.packing:
            check_packing(self.policy)
        self.engine = engine_of(config, self.policy)
        self.optimizer, self.scheduler = make_optimizer(self.policy, config, config.max_steps)
        self.micro_batch_size = MicroBatchSize(config.micro_batch_size)
        self.done = self.num_tokens = self.bad_gradients = 0
        self.window: list[tuple[float, float]] = []  # loss, norm of the steps since the last row
        self._saved: Path | None = None
        self.cursor = ProblemCursor(self.env, config.batch_size, config.seed)
        end = self.env.prompt.end(self.tokenizer)
        self.end = [] if end is None else [end]
        self.demonstrate: Demonstrate = resolve(
            config.demonstrations, DEMONSTRATIONS, "demonstrations"
        )

    def examples(self, step: int) -> tuple[list[list[int]], list[list[int]], list[list[float]]]:
        """Returns prompts, targets and token weights of one step."""
        rng = generator(self.config.seed, step, "demonstrations")
        prompts, targets, weights = [], [], []
        for start in self.cursor.starts(step):
            problem = start.snapshot.problem
            shown = self.demonstrate(problem, rng, **self.config.demonstration_kwargs)
            text = self.env.prompt.target(replace(problem, solution=shown))
            tokens = self.tokenizer.encode(text)
            pieces = [self.tokenizer.decode([token]) for token in tokens]
            prompts.append(start.tokens)
            targets.append(tokens + self.end)
            emphasised = token_weights(text, pieces, self.config.emphasis)
            weights.append(emphasised + [1.0] * len(self.end))
        return prompts, targets, weights

    def step(self, number: int) -> tuple[float, float, int]:
        """One optimiser step; returns its loss, gradient norm and number of tokens."""
        prompts, targets, weights = self.examples(number)
        total = sum(map(sum, weights))
        lengths = [len(p) + len(t) for p, t in zip(prompts, targets, strict=True)]
        packs = [[example] for example in range(len(prompts))]  # the examples of each row
        if self.config.packing:
            packs = pack(lengths, self.config.pack_length)
        own = own_share(range(len(packs)))
        used = [sum(lengths[example] for example in examples) for examples in packs]

        def backward() -> float:
            loss_sum = 0.0
            for rows in micro_batches(used, own, self.micro_batch_size.value):
                examples = [packs[row] for row in rows]
                batch = packed(prompts, targets, examples, self.policy.device)
                log_probs = self.policy(batch, 1.0).log_probs
                scale = torch.zeros_like(log_probs)
                for place, row in enumerate(examples):
                    row_weights = [weight for example in row for weight in weights[example]]
                    scale[place, : len(row_weights)] = torch.tensor(row_weights, dtype=scale.dtype)
                loss = -masked_sum(log_probs * scale, batch.mask) / total
                loss.backward()  # type: ignore[no-untyped-call]
                loss_sum += float(loss.detach())
            return loss_sum

        def undo() -> None:
            self.optimizer.zero_grad(set_to_none=True)

        loss_sum = float(all_sum(self.micro_batch_size.fitting(backward, undo)))
        parameters = list(self.policy.parameters())
        sum_gradients(parameters)
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, self.config.max_grad_norm))
        self._step(norm)
        return loss_sum, norm, sum(map(len, targets))

    def _step(self, norm: float) -> None:
        """Steps unless the gradient is not finite; raises Diverged after too many such steps."""
        if math.isfinite(norm):
            self.optimizer.step()
            self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.bad_gradients = 0 if math.isfinite(norm) else self.bad_gradients + 1
        if self.bad_gradients >= self.config.max_bad_gradients:
            raise Diverged(
                f"training diverged: the gradients of {self.bad_gradients} steps in a row are not "
                "finite. Lower --learning_rate or --max_grad_norm.",
                [],
            )

    def load_state(self, state: Mapping[str, Any], checkpoint: Path) -> None:
        """Goes on from a checkpoint as if nothing had happened; see ``Agent.load_state``."""
        if state.get("agent") != self.name:
            raise ValueError(f"{checkpoint} is of {state.get('agent')}, not of {self.name}")
        load_weights(self.policy, checkpoint, state)
        load_optimizer_state(self.optimizer, self.scheduler, state["optimizer"])
        self.done, self.num_tokens = state["steps"], state["num_tokens"]
        self.bad_gradients = state["bad_gradients"]
        self.window = [(loss, norm) for loss, norm in state["window"]]
        self._saved = checkpoint

    def train(self, report: Reporter, interrupt: Interrupt) -> None:
        """Runs what is left of the steps; after Ctrl-C it saves all of its state and ends."""
        config = self.config
        if not report.evaluated("before"):
            self._evaluate(report, interrupt, "before")
        while self.done < config.max_steps and self._log_window(report, interrupt):
            pass
        saved = self._saved or self._save(report)
        if self.done == config.max_steps and not report.evaluated("after"):
            self._evaluate(report, interrupt, "after")
        extra = {"interrupted": interrupt.agree(), "num_tokens": self.num_tokens}
        report.summary({"env": config.env, "checkpoint": str(saved), **extra})

    def _log_window(self, report: Reporter, interrupt: Interrupt) -> bool:
        """Takes the steps of one row of the log; False if a signal ended it before the row."""
        config = self.config
        begin = self.done - len(self.window)
        end = min(config.max_steps, begin + config.logging_steps)
        with report.phase("update", total=end - self.done) as phase:
            while self.done < end:
                if interrupt.agree():
                    return False
                loss, norm, tokens = self.step(self.done + 1)
                self.window.append((loss, norm))
                self.done, self.num_tokens, self._saved = (
                    self.done + 1, self.num_tokens + tokens, None,
                )  # fmt: skip
                phase.advance(1, tokens=tokens)
                due = config.save_steps > 0 and self.done % config.save_steps == 0
                if due and self.done < end:
                    self._save(report)
        iteration = self._rows_done() + 1
        if config.eval_every and iteration % config.eval_every == 0 and end < config.max_steps:
            self._evaluate(report, interrupt, f"iteration {iteration}")
            if interrupt.agree():
                return False
        losses, norms = zip(*self.window, strict=True)
        numbers = {"loss": float(np.mean(losses)), "grad_norm": norms[-1]}
        report.iteration(numbers | {"num_tokens": float(self.num_tokens), "steps": float(end)})
        self.window = []
        if config.save_steps > 0 and end % config.save_steps == 0 and end < config.max_steps:
            self._save(report)
        return True

    def _rows_done(self) -> int:
        return math.ceil((self.done - len(self.window)) / self.config.logging_steps)

    def _evaluate(self, report: Reporter, interrupt: Interrupt, label: str) -> None:
        evaluate_and_report(self.engine, self.eval_env, self.config, report, interrupt, label)

    def _save(self, report: Reporter) -> Path:
        state = {
            "agent": self.name,
            "seed": self.config.seed,
            "iteration": self._rows_done(),
            "steps": self.done,
            "num_tokens": self.num_tokens,
            "bad_gradients": self.bad_gradients,
            "window": self.window,
            "optimizer": optimizer_state(self.optimizer, self.scheduler),
            "report": report.state(),
        }
        self._saved = on_first(
            lambda: save_checkpoint(self.folder, self.done, self.policy, self.tokenizer, state)
        )
        return self._saved


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    about = str(__doc__).split("\n")[0]
    return run_training(SFT, SFTConfig, tiny=None, description=about, argv=argv)


if __name__ == "__main__":
    sys.exit(main())
