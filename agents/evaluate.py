"""Accuracy of a policy on held-out problems, by the paper's protocol and greedy.

    python -m agents.evaluate --env GSM8K-v0 --data FOLDER --model MODEL
    python -m agents.evaluate --run runs/NAME --checkpoints all --split train test
    python -m agents.evaluate --temperatures 0.2 0.6 1.0 --num_samples 8 --num_problems 100

pass@k, majority voting, shares of unfinished, unanswered and undecided samples, with bootstrap
intervals over problems, and by level and subject. OUTPUT gets every sample (samples.jsonl) and the
numbers (evaluation.json). The same command again goes on where it was stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from agents.analysis.evaluation_files import SAMPLES, SampleFile, claim_folder
from agents.analysis.evaluation_metrics import same_answer_of
from agents.analysis.evaluation_plan import EvaluationConfig, Plan, make_plan
from agents.analysis.evaluation_tables import write_results
from agents.analysis.evaluation_view import EvaluationView
from agents.analysis.subject import Checkpoint
from agents.core.config import PlayConfig, command_errors
from agents.core.evaluation import success_of, temperature_label
from agents.core.flags import parse_flags
from agents.core.interrupt import Interrupt, Stopped
from agents.core.loading import engine_of, load_policy
from agents.core.lock import RunLock
from agents.core.rollout import Sampler, Trajectory, start_of
from agents.engines.base import Engine


class Batch(NamedTuple):
    """Problems that are sampled at once: ``indices``, the first one in place ``slot``."""

    checkpoint: Checkpoint
    split: str
    temperature: float
    samples: int
    slot: int
    indices: list[int]

    def keys(self) -> list[tuple[Any, ...]]:
        """Returns the keys of its lines in ``samples.jsonl``."""
        return [
            (self.checkpoint.iteration, self.split, self.temperature, self.slot + place, sample)
            for place in range(len(self.indices))
            for sample in range(self.samples)
        ]


def batches(plan: Plan) -> Iterator[Batch]:
    """Yields the whole work, in the order in which it is done."""
    config = plan.config
    for checkpoint in plan.policies:
        for split, indices in plan.indices.items():
            for heat in config.temperatures:
                n = 1 if heat == 0 else config.num_samples
                step = -(-config.batch_size // n)
                for slot in range(0, len(indices), step):
                    part = indices[slot : slot + step]
                    yield Batch(checkpoint, split, heat, n, slot, part)


class Evaluation:
    """Samples what is missing, batch by batch."""

    def __init__(self, plan: Plan, view: EvaluationView, interrupt: Interrupt) -> None:
        """Takes the plan, what shows it, and what knows of Ctrl-C; reads what is done."""
        self.plan, self.view, self.interrupt = plan, view, interrupt
        self.work = list(batches(plan))
        self.file = SampleFile(plan.folder / SAMPLES, [batch.keys() for batch in self.work])
        self._loaded: tuple[Checkpoint, Engine] | None = None

    def run(self) -> bool:
        """Samples the rest; returns whether all is done."""
        self.view.begin(sum(len(batch.keys()) for batch in self.work), len(self.file.rows))
        for batch in self.work[self.file.done :]:
            try:
                self.interrupt.check()
                self.file.append(self._sampled(batch))
            except Stopped:
                return False
        return True

    def _sampled(self, batch: Batch) -> list[dict[str, Any]]:
        config, env = self.plan.config, self.plan.envs[batch.split]
        engine = self._engine(batch.checkpoint, env)
        starts = [
            start_of(env, batch.slot + place, index=index)
            for place, index in enumerate(batch.indices)
        ]
        sampler = Sampler(engine, env, config.seed, batch.temperature, config.top_p)
        purpose = f"evaluation/{temperature_label(batch.temperature)}"
        groups = sampler.sample(
            starts, batch.samples, iteration=0, purpose=purpose, progress=self._advance
        )
        answers = [answer for group in groups for answer in group]
        return [
            dict(zip(("iteration", "split", "temperature", "slot", "sample"), key, strict=True))
            | _row_of(env, answer)
            for key, answer in zip(batch.keys(), answers, strict=True)
        ]

    def _advance(self, items: int, tokens: int) -> None:
        self.interrupt.check()
        self.view.advance(items, tokens)

    def _engine(self, checkpoint: Checkpoint, env: Any) -> Engine:
        if self._loaded is None or self._loaded[0] != checkpoint:
            self._loaded = None  # the weights before go first
            config = self.plan.config
            policy = load_policy(
                checkpoint.model, env.tokenizer, dtype=config.dtype, device=config.device
            )
            engine = engine_of(config, policy)
            self._loaded = (checkpoint, engine)
        return self._loaded[1]


def _row_of(env: Any, answer: Trajectory) -> dict[str, Any]:
    problem = getattr(answer.start.snapshot, "problem", None)
    verdict = "unfinished" if answer.truncated else str(answer.info.get("verdict", ""))
    return {
        "problem_id": answer.start.problem_id,
        "level": str(getattr(problem, "level", "")),
        "subject": str(getattr(problem, "subject", "")),
        "question": str(getattr(problem, "question", "")),
        "reference": str(getattr(problem, "answer", "")),
        "response": env.tokenizer.decode(answer.response),
        "extracted": str(answer.info.get("extracted", "")),
        "verdict": verdict,
        "right": success_of(answer),
        "num_tokens": len(answer.response),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with command_errors():
        flags = parse_flags(
            EvaluationConfig,
            argv,
            shared=PlayConfig,
            shared_title="options of every command that plays a policy",
            description=str(__doc__).split("\n")[0],
            epilog="The same command again goes on where it was stopped. Without --model and "
            "--run the policy is the embedded one.",
        )
        plan = make_plan(flags)
        plan.folder.mkdir(parents=True, exist_ok=True)
        if plan.config.threads:
            torch.set_num_threads(plan.config.threads)
    with command_errors(), RunLock(plan.folder), Interrupt() as interrupt, EvaluationView() as view:
        claim_folder(plan.folder, plan.options())
        evaluation = Evaluation(plan, view, interrupt)
        if not evaluation.run():
            view.line(f"stopped; the same command again goes on from here ({plan.folder})")
            return interrupt.status
        grader = getattr(getattr(next(iter(plan.envs.values())), "mdp", None), "grader", None)
        results = write_results(plan, evaluation.file.rows, same_answer_of(grader))
        view.results(results, plan.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
