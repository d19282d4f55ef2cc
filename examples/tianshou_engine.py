"""Stock tianshou Reinforce on whole answers that our engine samples, without a Collector.

    python examples/tianshou_engine.py
    python examples/tianshou_engine.py --rounds 40 --seed 1

The task and the model are those of ``tianshou_ppo.py``. The engine keeps a cache of each answer,
where a Collector computes the whole text again for every token.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from tianshou.data import Batch, ReplayBuffer
from tianshou.utils.torch_utils import policy_within_training_step
from tianshou_ppo import make_algorithm, make_env

from agents.adapters.episodes import episodes, transitions
from agents.core.rollout import Sampler, start_of
from agents.engines.base import make_engine

STORED = ("obs", "act", "rew", "terminated", "truncated", "obs_next", "info")


def buffer_of(rows: Batch) -> ReplayBuffer:
    """Returns the rows of ``transitions`` as tianshou's buffer, in their order."""
    buffer = ReplayBuffer(len(rows))
    for row in rows:
        buffer.add(Batch({name: row[name] for name in STORED}))
    return buffer


def train(rounds: int, answers: int, longest: int, rate: float, seed: int) -> Iterator[Batch]:
    """Trains; yields the episodes of each round, sampled before its update."""
    np.random.seed(seed)  # tianshou shuffles with the global state
    env = make_env(longest)
    algorithm = make_algorithm("reinforce", env, rate, seed)
    policy = algorithm.policy.actor.policy
    engine = make_engine("hf", policy.model, policy.vocab_size)
    sampler = Sampler(engine, env, seed, temperature=1.0)
    starts = [start_of(env, slot, index=slot) for slot in range(env.num_problems)]
    for iteration in range(1, rounds + 1):
        count = answers // len(starts)
        groups = sampler.sample(starts, count, iteration=iteration, purpose="rollout")
        rows = [row for group in groups for row in group]
        yield episodes(rows)
        buffer = buffer_of(transitions(rows))
        with policy_within_training_step(algorithm.policy):
            algorithm.update(buffer, batch_size=256, repeat=1)
        engine.sync_weights(policy.model)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30, help="rounds of answers and an update")
    parser.add_argument("--answers", type=int, default=256, help="answers in a round")
    parser.add_argument("--longest", type=int, default=1, help="most brackets in a question")
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args(argv)
    torch.set_num_threads(1)  # a model this small is slower on more
    for number, batch in enumerate(
        train(flags.rounds, flags.answers, flags.longest, flags.learning_rate, flags.seed)
    ):
        solved = batch.info.is_success.mean()
        print(f"round {number:3}: reward {batch.rew.mean():.3f}, solved {solved:.1%}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
