"""The agent: collect, advantages, update, log, evaluate, checkpoint. Algorithms subclass it."""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from agents.core.advantages import FloatArray
from agents.core.checkpoint import save_checkpoint
from agents.core.config import BaseConfig
from agents.core.credit import batch_of, sample_groups, zero_spread_groups
from agents.core.curriculum import curriculum_state, set_curriculum_state
from agents.core.envs import ProblemCursor, make_env
from agents.core.evaluation import evaluate_and_report, stoppable, success_of
from agents.core.flags import command_line
from agents.core.interrupt import Interrupt, Stopped
from agents.core.loading import load_policy, prepared
from agents.core.loss_config import check_support
from agents.core.policy import Policy
from agents.core.records import Sample
from agents.core.reporting import Reporter
from agents.core.rollout import OverlongPenalty, Sampler, Trajectory, mark_states
from agents.core.streams import generator
from agents.core.update import Batch, Updater
from agents.engines.base import make_engine


@dataclass(frozen=True, slots=True)
class Advantages:
    """What an algorithm says about one iteration's answers; lists have one entry an answer.

    Attributes:
        tokens: The raw advantage of each token, float64, each of shape [T_i].
        metrics: Numbers to log.
        values: V of the state at each border, if the algorithm estimates it; else empty lists.
        returns: What a critic should say before each token, each [T_i]; empty without a critic.
        token_values: What it says now, each [T_i]; empty without a critic. Shown in samples
            if ``values`` is empty.
    """

    tokens: list[FloatArray]
    metrics: dict[str, float]
    values: list[list[float]]
    returns: list[FloatArray] = field(default_factory=list)
    token_values: list[FloatArray] = field(default_factory=list)

    @staticmethod
    def of_answers(
        advantages: FloatArray, trajectories: Sequence[Trajectory], metrics: dict[str, float]
    ) -> Advantages:
        """Gives every token of an answer the answer's advantage.

        Args:
            advantages: One number an answer, [N] or [prompts, answers].
            trajectories: The N answers, in the same order.
            metrics: Numbers to log.
        """
        pairs = zip(advantages.ravel(), trajectories, strict=True)
        tokens = [np.full(len(trajectory.response), number) for number, trajectory in pairs]
        return Advantages(tokens, metrics, [[] for _ in tokens])


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
        self._check_lengths()
        self.engine = make_engine(config.engine, self.policy.model, self.policy.vocab_size)
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
        self.num_tokens = 0
        self.collected: dict[str, float] = {}
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

    def train(self, report: Reporter, interrupt: Interrupt) -> None:
        """Runs all iterations; after Ctrl-C it ends early and keeps what was learned."""
        config, done = self.config, 0
        self.sampler = replace(self.sampler, judging=report.judging)
        self._evaluate(report, interrupt, "before")
        for iteration in range(1, config.iterations + 1):
            if not self._iterate(iteration, report, interrupt):
                break
            done = iteration
            due = config.save_every > 0 and iteration % config.save_every == 0
            if due and iteration < config.iterations:
                self._save(iteration)
        folder = self._save(done)  # before the evaluation: nothing may be lost in it
        if done == config.iterations:
            self._evaluate(report, interrupt, "after")
        extra: dict[str, Any] = {
            "interrupted": interrupt.requested(),
            "num_tokens": self.num_tokens,
        }
        extra["next"] = [
            f"{command_line()} --config {self.folder / 'config.yaml'} "
            f"--model {folder} --output_dir {self.folder}-more",
        ]
        report.summary({"env": config.env, "checkpoint": str(folder), **extra})

    def _iterate(self, iteration: int, report: Reporter, interrupt: Interrupt) -> bool:
        """One round; False if Ctrl-C ended it before the weights changed."""
        config, started = self.config, (time.perf_counter(), time.process_time())
        answers = config.num_prompts * config.num_generations
        curriculum = curriculum_state(self.env)
        try:
            interrupt.check()
            with report.phase("rollout", total=answers) as phase:
                trajectories = self.collect(iteration, stoppable(phase, interrupt))
            with report.phase("values") as phase:
                credit = self.advantages(trajectories, iteration, stoppable(phase, interrupt))
            interrupt.check()
        except Stopped:
            set_curriculum_state(self.env, curriculum)  # the iteration does not count
            return False
        batch = batch_of(trajectories, credit.tokens, config)
        batch.returns, batch.values = credit.returns, credit.token_values
        with report.phase("update", total=answers * config.updates_per_batch) as phase:
            learning_rate = self.updater.scheduler.get_last_lr()[0]
            updated = self.update(batch, iteration, phase.advance, interrupt.requested)
        self.engine.sync_weights(self.policy.model)
        self.num_tokens += sum(len(response) for response in batch.responses)
        self.num_tokens += int(credit.metrics.get("vine/tokens", 0))
        self.num_tokens += int(self.collected.get("resampled/tokens", 0))
        metrics = _rollout_metrics(trajectories, config.num_generations) | updated
        metrics |= credit.metrics | self.collected
        if config.overlong_buffer_len:
            metrics["rewards/overlong/mean"] = float(np.mean([t.penalty for t in trajectories]))
        metrics["learning_rate"] = float(learning_rate)
        metrics["advantages/std"] = float(np.concatenate(credit.tokens).std())
        metrics["num_tokens"] = float(self.num_tokens)
        metrics["step_time"] = time.perf_counter() - started[0]
        metrics["step_cpu_seconds"] = time.process_time() - started[1]
        due = config.eval_every > 0 and iteration % config.eval_every == 0
        if due and iteration < config.iterations:
            self._evaluate(report, interrupt, f"iteration {iteration}")
        report.iteration(metrics)
        report.sample(self._sample(trajectories, credit))
        return True

    def _evaluate(self, report: Reporter, interrupt: Interrupt, label: str) -> None:
        evaluate_and_report(self.engine, self.eval_env, self.config, report, interrupt, label)

    def _save(self, iteration: int) -> Path:
        return save_checkpoint(
            self.folder,
            iteration,
            self.policy,
            self.env.tokenizer,
            {
                "agent": self.name,
                "seed": self.config.seed,
                "num_tokens": self.num_tokens,
                "curriculum": curriculum_state(self.env),
            },
            keep=self.config.keep_checkpoints,
            modules=self.trained_beside(),
        )

    def _sample(self, trajectories: Sequence[Trajectory], credit: Advantages) -> Sample:
        """Returns the answer whose steps differ most in advantage, the first among equals."""
        spreads = [float(array.max() - array.min()) for array in credit.tokens]
        chosen = int(np.argmax(spreads))
        trajectory = trajectories[chosen]
        problem = getattr(trajectory.start.snapshot, "problem", None)
        borders = self.env.segmenter(trajectory.response, self.env.tokenizer)
        pieces = zip(borders, [*borders[1:], len(trajectory.response)], strict=True)
        values = credit.values[chosen]
        if not values and credit.token_values:
            values = [float(credit.token_values[chosen][border]) for border in borders]
        return Sample(
            question=str(getattr(problem, "question", trajectory.start.problem_id)),
            steps=tuple(
                self.env.tokenizer.decode(trajectory.response[begin:end]) for begin, end in pieces
            ),
            advantages=tuple(float(credit.tokens[chosen][begin]) for begin in borders),
            values=_padded_values(values, len(borders)),
            reward=trajectory.reward,
            reference=str(getattr(problem, "answer", "")),
        )

    def _check_lengths(self) -> None:
        budget, buffer = getattr(self.env, "max_new_tokens", None), self.config.overlong_buffer_len
        if budget is not None and buffer > budget:
            raise ValueError(
                f"overlong_buffer_len must be at most the answer budget, {budget} tokens, got "
                f"{buffer}. Lower it, or raise --max_new_tokens."
            )
        context = getattr(self.policy.model.config, "max_position_embeddings", None)
        needed = getattr(self.env, "max_prompt_tokens", 0) + getattr(self.env, "max_new_tokens", 0)
        if context is not None and getattr(self.env, "max_length", None) is None:
            if needed > context:
                raise ValueError(
                    f"prompt and answer may take {needed} tokens, but the model's context is "
                    f"{context}. Lower --max_prompt_tokens or --max_new_tokens."
                )


def _padded_values(values: list[float], count: int) -> tuple[float, ...]:
    """Returns a value for each step: beyond a cap there is none, shown as NaN."""
    return (*values, *([math.nan] * (count - len(values)))) if values else ()


def _rollout_metrics(trajectories: Sequence[Trajectory], group: int) -> dict[str, float]:
    """Returns TRL's numbers about rewards and lengths."""
    rewards = np.array([trajectory.reward for trajectory in trajectories]).reshape(-1, group)
    lengths = np.array([len(trajectory.response) for trajectory in trajectories])
    undecided = [t.info.get("verdict") == "undecided" for t in trajectories]
    return {
        "reward": float(rewards.mean()),
        "reward_std": float(rewards.std()),
        "frac_reward_zero_std": float(np.mean(zero_spread_groups(trajectories, group))),
        "accuracy": float(np.mean([success_of(trajectory) for trajectory in trajectories])),
        "completions/mean_length": float(lengths.mean()),
        "completions/min_length": float(lengths.min()),
        "completions/max_length": float(lengths.max()),
        "completions/clipped_ratio": float(np.mean([t.truncated for t in trajectories])),
        "grades/undecided_ratio": float(np.mean(undecided)),
    }
