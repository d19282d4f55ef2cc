"""The agent: collect, advantages, update, log, evaluate, checkpoint. Algorithms subclass it."""

from __future__ import annotations

import copy
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from agents.core.advantages import FloatArray
from agents.core.checkpoint import load_weights, mark_best, save_checkpoint
from agents.core.config import BaseConfig
from agents.core.credit import Advantages, batch_of, sample_groups
from agents.core.curriculum import curriculum_state, set_curriculum_state
from agents.core.distributed import on_first
from agents.core.envs import ProblemCursor, check_lengths, make_env
from agents.core.evaluation import evaluate_and_report, stoppable
from agents.core.interrupt import Interrupt, Stopped
from agents.core.iteration import (
    Iteration,
    clocks,
    next_command,
    rollout_metrics,
    sample_of,
    with_answers,
)
from agents.core.loading import engine_of, load_policy, prepared
from agents.core.loss_config import check_support
from agents.core.overlong import OverlongPenalty
from agents.core.policy import Policy
from agents.core.reporting import Reporter
from agents.core.rollout import Sampler, Trajectory, mark_states
from agents.core.streams import generator
from agents.core.update import Batch, Updater
from agents.core.update_log import Diverged, TrainerState

__all__ = ["Advantages", "Agent"]


class Agent(ABC):
    """A policy-gradient agent; a subclass says what each token's advantage is.

    Attributes:
        name: What the algorithm is called in folders and reports.
        supports: Which of the settings that not every algorithm can honour it does, as
            "switch=value"; see ``agents/core/loss_config.py``.
        needs_states: Whether ``advantages`` reads the trajectories' borders and states. False
            spares cutting and replaying every answer.
        config: Its options.
        env: The unwrapped training environment.
        policy: What is trained.
        sampler: Samples answers of the policy from states of ``env``.
        done: Iterations behind it.
        best: Best accuracy of an evaluation so far.
    """

    name: ClassVar[str] = "agent"
    supports: ClassVar[frozenset[str]] = frozenset()
    needs_states: ClassVar[bool] = True

    def __init__(self, config: BaseConfig, folder: Path) -> None:
        """Builds environments, policy, reference, engine and optimizer.

        Args:
            config: The options.
            folder: Where checkpoints go.

        Raises:
            ValueError: Options that do not fit together, or an unknown environment; says which and
                what to change.
        """
        check_support(self.name, self.supports, config)
        self.config, self.folder = config, folder
        self.env = make_env(config, "train")
        self.eval_env = make_env(config, "validation") if config.eval_problems else None
        self.policy = load_policy(
            config.model, self.env.tokenizer, dtype=config.dtype, device=config.device
        )
        prepared(self.policy, config)
        context = getattr(self.policy.model.config, "max_position_embeddings", None)
        check_lengths(self.env, context, config.overlong_buffer_len)
        self.engine = engine_of(config, self.policy)
        self.sampler = Sampler(
            self.engine,
            self.env,
            config.seed,
            config.temperature,
            config.top_p,
            overlong=OverlongPenalty(
                config.overlong_buffer_len, config.overlong_buffer_penalty_factor
            ),
        )
        self.cursor = ProblemCursor(self.env, config.num_prompts, config.seed)
        reference = self.policy.frozen_copy() if config.beta > 0 else None
        self.updater = self.make_updater(reference)
        self.done = self.num_tokens = 0
        self.best = -math.inf
        self.collected: dict[str, float] = {}
        self._current: Iteration | None = None
        self._saved: Path | None = None
        self._improved = False
        if config.top_p < 1 and config.top_p_correction == "none":
            warnings.warn(
                f"top_p={config.top_p:g} samples from another distribution than the loss assumes: "
                "the gradient is biased. Set top_p to 1 or top_p_correction to renormalise.",
                stacklevel=2,
            )

    def make_updater(self, reference: Policy | None) -> Updater:
        """Returns what trains the policy; an algorithm with a critic may add to it."""
        budget = getattr(self.env, "max_new_tokens", None)
        return Updater(self.policy, reference, self.config, budget=budget)

    def trained_beside(self) -> dict[str, nn.Module]:
        """Returns what is trained beside the policy, by the name of its file in a checkpoint."""
        return {}

    @abstractmethod
    def advantages(
        self,
        trajectories: Sequence[Trajectory],
        iteration: int,
        progress: Callable[[int, int], None],
    ) -> Advantages:
        """Returns the advantage of each token; an algorithm's own.

        Args:
            trajectories: The iteration's answers: ``num_generations`` of each prompt in turn, with
                borders and states if ``needs_states``.
            iteration: From 1; part of the random streams of further rollouts.
            progress: To be called with (rollouts, tokens) as further rollouts finish.
        """

    def token_rewards(
        self, trajectories: Sequence[Trajectory]
    ) -> tuple[list[FloatArray], dict[str, float]]:
        """Returns r_t of every token, each [T_i], and numbers to log.

        The answer's reward comes with the last token, the overlong penalty in it; with
        ``kl_in=reward`` every token also pays ``beta`` times its KL to the reference.
        """
        rewards = [np.zeros(len(trajectory.response)) for trajectory in trajectories]
        for row, trajectory in zip(rewards, trajectories, strict=True):
            row[-1] = trajectory.reward
        if self.config.kl_in == "loss" or self.config.beta == 0:
            return rewards, {}
        penalties = self.updater.kl_penalties(batch_of(trajectories, rewards, self.config))
        for row, penalty in zip(rewards, penalties, strict=True):
            row -= self.config.beta * penalty
        return rewards, {"kl": float(np.concatenate(penalties).mean())}

    def update(
        self,
        batch: Batch,
        iteration: int,
        progress: Callable[[int, int], None],
        stop: Callable[[], bool],
    ) -> dict[str, float]:
        """Trains on one iteration's answers and returns metrics.

        Args:
            batch: The answers.
            iteration: From 1; part of the random stream that shuffles them.
            progress: To be called with (answers, tokens) after each minibatch.
            stop: Asked before each minibatch; True ends the update there.
        """
        rng = generator(self.config.seed, iteration, "shuffle")
        return self.updater.update(batch, rng, progress=progress, stop=stop)

    def collect(self, iteration: int, progress: Callable[[int, int], None]) -> list[Trajectory]:
        """Samples the iteration's answers, and cuts them into steps if ``needs_states``."""
        groups, self.collected = sample_groups(
            self.sampler, self.cursor, self.config, iteration, progress
        )
        trajectories = [trajectory for group in groups for trajectory in group]
        if self.needs_states:
            for trajectory in trajectories:
                mark_states(self.env, trajectory)
        return trajectories

    def trainers(self) -> dict[str, TrainerState]:
        """Returns what has an optimizer, by name: its state goes into every checkpoint."""
        return {"policy": self.updater}

    def memory(self) -> dict[str, Any]:
        """Returns what is remembered from one iteration to the next beside the weights.

        A tree that a checkpoint can hold. An algorithm that remembers more adds to it, here and in
        ``load_memory``.
        """
        return {"curriculum": curriculum_state(self.env)}

    def load_memory(self, memory: Mapping[str, Any]) -> None:
        """Takes over what ``memory`` returned."""
        set_curriculum_state(self.env, memory["curriculum"])

    def load_state(self, state: Mapping[str, Any], checkpoint: Path) -> None:
        """Goes on from a checkpoint as if nothing had happened.

        Args:
            state: What ``load_checkpoint`` returned.
            checkpoint: Its folder.

        Raises:
            ValueError: The checkpoint is that of another algorithm or model.
        """
        if state.get("agent") != self.name:
            raise ValueError(f"{checkpoint} is of {state.get('agent')}, not of {self.name}")
        load_weights(self.policy, checkpoint, state, self.trained_beside())
        for name, trainer in self.trainers().items():
            trainer.load_state(state["trainers"][name])
        self.load_memory(state["memory"])
        self.engine.sync_weights(self.policy.model)
        self.done, self.num_tokens = int(state["iteration"]), int(state["num_tokens"])
        self.best = float(state["best"])
        self._current = None if state["current"] is None else Iteration.of(state["current"])
        self._saved = checkpoint

    def train(self, report: Reporter, interrupt: Interrupt) -> None:
        """Runs what is left of the iterations; after Ctrl-C it saves all of its state and ends."""
        config = self.config
        self.sampler = replace(self.sampler, judging=report.judging)
        if not report.evaluated("before"):
            self._evaluate(report, interrupt, "before")
        while self.done < config.iterations and self._iterate(report, interrupt):
            due = config.save_every > 0 and self.done % config.save_every == 0
            if (due or self._improved) and self.done < config.iterations:
                self.save(report.state())
        # Before the evaluation: nothing may be lost.
        folder = self._saved or self.save(report.state())
        if self.done == config.iterations and not report.evaluated("after"):
            self._evaluate(report, interrupt, "after")
            if self._improved:
                on_first(lambda: mark_best(folder))
        ended = {"interrupted": interrupt.agree(), "num_tokens": self.num_tokens}
        commands = [next_command(self.folder, folder, interrupt.requested())]
        report.summary({"env": config.env, "checkpoint": str(folder), "next": commands, **ended})

    def _iterate(self, report: Reporter, interrupt: Interrupt) -> bool:
        """One round, or what is left of it; False if a signal ended it before its log."""
        config, number = self.config, self.done + 1
        before = copy.deepcopy(self.memory())
        try:
            current = self._current or self._begin(number, report, interrupt)
        except Stopped:
            self.load_memory(before)  # the iteration does not count
            return False
        self._current, self._saved, started = current, None, clocks()
        rows = len(current.batch)
        with report.phase("update", total=rows * config.updates_per_batch) as phase:
            try:
                updated = self.update(current.batch, number, phase.advance, interrupt.agree)
            except Diverged as error:
                raise with_answers(error, self.folder, current.batch, self.env) from error
        self.engine.sync_weights(self.policy.model)
        current.spend(started)  # without the evaluation
        self._improved = False
        if config.eval_every > 0 and number % config.eval_every == 0 and number < config.iterations:
            self._evaluate(report, interrupt, f"iteration {number}")
        if interrupt.agree():
            return False
        self.done, self.num_tokens = number, self.num_tokens + current.num_tokens
        # What is known before the update stands first, and wins where both have a number.
        metrics = {**current.metrics, **updated, **current.metrics}
        metrics["num_tokens"] = float(self.num_tokens)
        metrics["step_time"], metrics["step_cpu_seconds"] = current.seconds
        report.iteration(metrics)
        report.sample(current.sample)
        self._current = None
        for trainer in self.trainers().values():
            trainer.forget()
        return True

    def _begin(self, number: int, report: Reporter, interrupt: Interrupt) -> Iteration:
        """Samples and values the answers of an iteration; raises Stopped after a signal."""
        config, started = self.config, clocks()
        interrupt.check()
        answers = config.num_prompts * config.num_generations
        with report.phase("rollout", total=answers) as phase:
            trajectories = self.collect(number, stoppable(phase, interrupt))
        with report.phase("values") as phase:
            credit = self.advantages(trajectories, number, stoppable(phase, interrupt))
        interrupt.check()
        rows = [*trajectories, *credit.rollouts]
        batch = batch_of(rows, [*credit.tokens, *credit.rollout_tokens], config)
        batch.returns, batch.values = credit.returns, credit.token_values
        metrics = rollout_metrics(trajectories, config.num_generations)
        metrics |= credit.metrics | self.collected
        if config.overlong_buffer_len:
            metrics["rewards/overlong/mean"] = float(np.mean([t.penalty for t in trajectories]))
        metrics["learning_rate"] = float(self.updater.scheduler.get_last_lr()[0])
        metrics["advantages/std"] = float(np.concatenate(credit.tokens).std())
        num_tokens = sum(len(trajectory.response) for trajectory in trajectories)
        num_tokens += int(credit.metrics.get("vine/tokens", 0))
        further = (value for name, value in self.collected.items() if name.endswith("/tokens"))
        num_tokens += int(sum(further))
        current = Iteration(batch, metrics, sample_of(trajectories, credit, self.env), num_tokens)
        current.spend(started)
        return current

    def _evaluate(self, report: Reporter, interrupt: Interrupt, label: str) -> None:
        results = evaluate_and_report(
            self.engine, self.eval_env, self.config, report, interrupt, label
        )
        score = list(results.values())[-1].mean if results else -math.inf
        self._improved = score > self.best
        self.best = max(score, self.best)

    def save(self, report: Mapping[str, Any]) -> Path:
        """Writes a checkpoint of everything and returns its folder.

        Args:
            report: The reporter's state.
        """
        self._saved = on_first(lambda: self._write(report))
        return self._saved

    def _write(self, report: Mapping[str, Any]) -> Path:
        state = {
            "agent": self.name,
            "seed": self.config.seed,
            "num_tokens": self.num_tokens,
            "best": self.best,
            "current": None if self._current is None else self._current.state(),
            "trainers": {name: trainer.state() for name, trainer in self.trainers().items()},
            "memory": self.memory(),
            "report": report,
        }
        folder = save_checkpoint(
            self.folder,
            self.done,
            self.policy,
            self.env.tokenizer,
            state,
            keep=self.config.keep_checkpoints,
            modules=self.trained_beside(),
            part=self._current is not None,
        )
        if self._improved:
            mark_best(folder)
        return folder
