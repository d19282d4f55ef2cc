r"""Stock tianshou PPO and its stock Collector on an environment of ours with seven ids.

    python examples/tianshou_ppo.py
    python examples/tianshou_ppo.py --algorithm reinforce --epochs 40

The task: close the brackets. The model is a small untrained Llama; nothing but the reward teaches
it. PPO goes from a mean reward of 0.03 to about 0.9 in a minute on one thread.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import product, takewhile

import numpy as np
import torch
from tianshou.algorithm.modelfree.ppo import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy, Reinforce
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams

from agents.adapters.tianshou import BudgetEnds, CausalLMActor, CausalLMCritic
from agents.core.loading import new_policy
from graders import Grade, Verdict
from lang_env import Problem
from lang_env.env import TokenEnv
from lang_env.tokenizers import character_tokenizer

MODEL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
}
CLOSING = {"(": ")", "[": "]"}


def closes(completion: str, answer: str) -> Grade:
    """Rewards the brackets that close those of the question: 1 if all and nothing else.

    >>> closes(")]", "[(").score, closes(")", "[(").score, closes("]", "[(").score
    (1.0, 0.5, 0.0)
    """
    wanted = "".join(CLOSING[bracket] for bracket in reversed(answer))
    pairs = zip(completion, wanted, strict=False)
    right = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    score = right / max(len(completion), len(wanted))
    return Grade(score, Verdict.CORRECT if score == 1.0 else Verdict.WRONG, completion[:right])


def make_env(longest: int) -> TokenEnv:
    """Makes the environment: its questions are 1 to ``longest`` opening brackets."""
    texts = ["".join(text) for size in range(1, longest + 1) for text in product("([", repeat=size)]
    return TokenEnv(
        [Problem(text, text, text) for text in texts],
        tokenizer=character_tokenizer("()[]\n"),
        grader=closes,
        max_prompt_tokens=longest + 1,
        max_new_tokens=longest + 2,
    )


def make_algorithm(name: str, env: TokenEnv, learning_rate: float, seed: int) -> PPO | Reinforce:
    """Makes tianshou's algorithm: an actor, and for PPO a critic on a model of its own."""
    model = new_policy(MODEL, env.tokenizer, seed=seed, device="cpu")
    policy = DiscreteActorPolicy(actor=CausalLMActor(model), action_space=env.action_space)
    optim = AdamOptimizerFactory(lr=learning_rate)
    if name == "reinforce":
        return Reinforce(policy=policy, optim=optim, gamma=1.0, return_standardization=True)
    critic = CausalLMCritic(new_policy(MODEL, env.tokenizer, seed=seed + 1, device="cpu"))
    return PPO(
        policy=policy, critic=critic, optim=optim, gamma=1.0, gae_lambda=0.95, max_grad_norm=0.5
    )


def train(
    name: str, *, epochs: int, episodes: int, longest: int, learning_rate: float, seed: int
) -> Iterator[tuple[float, float]]:
    """Trains; yields mean reward and fraction of solved problems before, and after each epoch."""
    np.random.seed(seed)  # tianshou shuffles and samples from the global states
    torch.manual_seed(seed)
    env = make_env(longest)
    training_envs, test_envs = (
        DummyVectorEnv([lambda: BudgetEnds(make_env(longest)) for _ in range(64)]) for _ in range(2)
    )
    training_envs.seed(seed)
    test_envs.seed(seed + len(training_envs))
    algorithm = make_algorithm(name, env, learning_rate, seed)
    buffer = VectorReplayBuffer(2 * episodes * env.mdp.max_new_tokens, len(training_envs))
    test_collector = Collector[CollectStats](algorithm, test_envs)
    params = OnPolicyTrainerParams(
        training_collector=Collector[CollectStats](algorithm, training_envs, buffer),
        test_collector=test_collector,
        test_step_num_episodes=128,
        max_epochs=epochs,
        epoch_num_steps=1,  # an epoch is one round of episodes and the updates on them
        collection_step_num_env_steps=None,
        collection_step_num_episodes=episodes,
        batch_size=256,
        update_step_num_repetitions=4 if name == "ppo" else 1,
        verbose=False,
        show_progress=False,
    )
    trainer = algorithm.create_trainer(params)
    trainer.reset()
    yield _scores(test_collector.collect(n_episode=128, reset_before_collect=True))
    for _ in range(epochs):
        stats = trainer.execute_epoch().test_collect_stat
        assert stats is not None
        yield _scores(stats)


def _scores(stats: CollectStats) -> tuple[float, float]:
    return float(stats.returns.mean()), float((stats.returns == 1.0).mean())


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--algorithm", choices=("ppo", "reinforce"), default="ppo")
    parser.add_argument("--epochs", type=int, default=20, help="rounds of episodes and an update")
    parser.add_argument("--episodes", type=int, default=256, help="episodes in a round")
    parser.add_argument("--longest", type=int, default=2, help="most brackets in a question")
    parser.add_argument("--learning_rate", type=float, default=7e-4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)  # a model this small is slower on more
    rounds = train(
        options.algorithm,
        epochs=options.epochs,
        episodes=options.episodes,
        longest=options.longest,
        learning_rate=options.learning_rate,
        seed=options.seed,
    )
    for number, (reward, solved) in enumerate(rounds):
        print(f"epoch {number:3}: reward {reward:.3f}, solved {solved:.1%}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
